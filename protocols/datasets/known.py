"""Questions whose right answer is known and whose wrong ones are still to be written.

Rows {"question", "answer", "id"?}, the answer being a solution that ends in a line like `#### 18`
(as in GSM8K's own files), a number, or any text; or problems of our own format, of which the best
answer is taken and the others are ignored.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import DatasetError
from ..question import Answer
from .jsonl import problems
from .rows import AnyRow, DataRow, Text, json_rows, read_bytes
from .solution import closing, laid_out, number, number_text, steps


@dataclass(frozen=True, slots=True)
class Known:
    """A question and its right answer, in the form that the wrong one is to have."""

    id: str
    text: str
    right: Answer
    """Without a label."""
    passage: str = ""
    group: str = ""


class KnownRow(DataRow):
    question: Text
    answer: Text
    id: str = ""


def known_questions(path: Path) -> tuple[Known, ...]:
    """All questions of a file, with distinct ids; a row without one is named by file and line.

    DatasetError where the file is wrong.
    """
    data = read_bytes(path)
    _, first = next(json_rows(str(path), data, AnyRow))
    if "answers" in (first.__pydantic_extra__ or {}):
        return tuple(_best(str(path), data))
    return tuple(_answered(path, data))


def _best(file: str, data: bytes) -> Iterator[Known]:
    for problem in problems(file, data):
        question = problem.question
        best = question.answers[problem.best]
        yield Known(
            problem.id, question.text, _right(best.text, best.work), question.passage, problem.group
        )


def _answered(path: Path, data: bytes) -> Iterator[Known]:
    lines: dict[str, int] = {}
    for line, row in json_rows(str(path), data, KnownRow):
        id = row.id or f"{path.stem}-{line}"
        if id in lines:
            raise DatasetError(
                str(path), line, f"id: {id!r} is taken by line {lines[id]}; rename one"
            )
        lines[id] = line
        yield Known(id, row.question.strip(), _solved(row.answer.strip()))


def _solved(answer: str) -> Answer:
    final = closing(answer)
    return _right(answer) if final is None else _right(number_text(final), answer)


def _right(text: str, work: str = "") -> Answer:
    """The right answer; a number and its solution in the common notation and layout."""
    value = number(text)
    if value is None:
        return Answer("", text, work)
    return Answer("", number_text(value), laid_out(steps(work), number_text(value)) if work else "")
