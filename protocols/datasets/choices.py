"""Multiple-choice questions: the right answer against a sample of the wrong ones.

The sample and the labels are drawn from (seed, id) alone.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ..errors import DatasetError
from ..question import LABELS, Problem, labelled, randomness
from .loader import FileLoader
from .rows import DataRow, Text, json_rows, read_bytes
from .solution import sense
from .tabular import csv_rows

NO_COMMENT = "i have no comment"
"""TruthfulQA lists it among right answers only, so it would give the label away."""


class GpqaRow(DataRow):
    question: Text = Field(alias="Question")
    right: Text = Field(alias="Correct Answer")
    wrong_1: Text = Field(alias="Incorrect Answer 1")
    wrong_2: Text = Field(alias="Incorrect Answer 2")
    wrong_3: Text = Field(alias="Incorrect Answer 3")


class TruthfulQaRow(DataRow):
    question: Text
    # Lists, as JSON has them: strict validation takes no list for a tuple.
    correct_answers: Annotated[list[Text], Field(min_length=1)]
    incorrect_answers: Annotated[list[Text], Field(min_length=1)]


class TruthfulQaRecord(DataRow):
    """A record of the authors' own CSV, in which semicolons separate the answers."""

    question: Text = Field(alias="Question")
    right: Text = Field(alias="Correct Answers")
    wrong: Text = Field(alias="Incorrect Answers")


@dataclass(frozen=True, slots=True)
class Choices(FileLoader):
    """A file of questions with right answers and with wrong ones to draw from."""

    answers: int = 2
    """How many answers a problem has, the right one included; fewer where a row has fewer."""

    def __post_init__(self) -> None:
        super(Choices, self).__post_init__()
        if not 2 <= self.answers <= len(LABELS):
            raise ValueError(f"answers: {self.answers} is not from 2 to {len(LABELS)}")

    def _problem(
        self, file: str, line: int, id: str, text: str, right: Sequence[str], wrong: Sequence[str]
    ) -> Problem:
        """One problem; right, wrong: answers to draw from. DatasetError if they do not differ."""
        true = randomness(self.seed, id, "right answer").choice(right).strip()
        taken = {"", *map(sense, right)}
        # One answer in two spellings would have two labels; the first spelling is kept.
        different = {sense(each): each.strip() for each in reversed(wrong)}
        offered = [each for key, each in reversed(different.items()) if key not in taken]
        if not offered:
            raise DatasetError(
                file, line, f"no wrong answer differs from the right one, {true!r}; give another"
            )
        drawn = randomness(self.seed, id, "wrong answers").sample(
            offered, min(self.answers - 1, len(offered))
        )
        given = [(true, "", 1.0), *((answer, "", -1.0) for answer in drawn)]
        return labelled(id, text.strip(), given, seed=self.seed)


@dataclass(frozen=True, slots=True)
class Gpqa(Choices):
    """GPQA (Rein et al. 2023, arXiv:2311.12022): its CSV with `Question`, `Correct Answer` and
    `Incorrect Answer 1` to 3. Problem `gpqa-1a2b3c4d` is named by a hash of its question's text."""

    def _problems(self, path: Path) -> Iterator[Problem]:
        lines: dict[str, int] = {}
        for line, row in csv_rows(str(path), read_bytes(path), GpqaRow):
            # The file is published in several subsets, so row numbers identify nothing.
            id = f"gpqa-{hashlib.sha256(row.question.encode()).hexdigest()[:8]}"
            if id in lines:
                raise DatasetError(
                    str(path), line, f"the question of line {lines[id]} again; remove one"
                )
            lines[id] = line
            wrong = [row.wrong_1, row.wrong_2, row.wrong_3]
            yield self._problem(str(path), line, id, row.question, [row.right], wrong)


@dataclass(frozen=True, slots=True)
class TruthfulQa(Choices):
    """TruthfulQA (Lin et al. 2022, arXiv:2109.07958): its `TruthfulQA.csv`, or rows {"question",
    "correct_answers", "incorrect_answers"}. The right answer is drawn as well, from those that
    say something. Problem `truthfulqa-17` is row 17."""

    def _problems(self, path: Path) -> Iterator[Problem]:
        for number, (line, text, right, wrong) in enumerate(self._rows(path), 1):
            informative = [each for each in right if not _silent(each)]
            wrong = [each for each in wrong if not _silent(each)]
            yield self._problem(
                str(path), line, f"truthfulqa-{number}", text, informative or right, wrong
            )

    def _rows(self, path: Path) -> Iterator[tuple[int, str, list[str], list[str]]]:
        """(line, question, right answers, wrong answers) of each."""
        if path.suffix != ".csv":
            for line, row in json_rows(str(path), read_bytes(path), TruthfulQaRow):
                yield line, row.question, row.correct_answers, row.incorrect_answers
            return
        for line, record in csv_rows(str(path), read_bytes(path), TruthfulQaRecord):
            yield line, record.question, _parts(record.right), _parts(record.wrong)


def _silent(answer: str) -> bool:
    return answer.strip(" .").casefold() == NO_COMMENT


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]
