"""Problems as JSON Lines, our own format.

One object a line: {"id", "question", "answers": [{"label", "text", "value", "work"?, "flaw"?}, …],
"passage"?, "group"?, "graded"?}. `value` is +1 for true and -1 for false, or any grade; the highest
is the best answer. `work` is a worked solution or evidence that everybody may read, `passage` a
source text that judges as a rule may not, `group` what a bootstrap must keep together, and `flaw`
the error planted in the work, which no speaker is shown.
`graded`: whether every seat is asked for the best answer, as by default where values are grades.
`environment` is what tools work on and nobody reads; `conversation` was held about the question
elsewhere (`oversight.protocols.held.RecordedConversation`), to be judged again."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import orjson
from msgspec import structs
from pydantic import ConfigDict, Field, FiniteFloat, field_validator, model_validator

from ..errors import DatasetError
from ..question import LABELS, Answer, Problem, Question, is_graded, labelled
from ..settings import unknown
from .columns import name_of, seen
from .loader import Loader
from .rows import DataRow, Text, checked_row, each_row, strict

_LABEL = re.compile(r"\w[\w-]{0,23}")


class AnswerRow(DataRow):
    model_config = ConfigDict(extra="forbid")

    label: str = ""
    text: Text
    value: FiniteFloat
    work: str = ""
    flaw: str = ""

    @field_validator("label")
    @classmethod
    def _short(cls, label: str) -> str:
        if label and not _LABEL.fullmatch(label):
            raise ValueError(f"a label must be a capital letter or one short word, got {label!r}")
        return label


class ProblemRow(DataRow):
    model_config = ConfigDict(extra="forbid")

    id: Text
    question: Text
    # Lists, as JSON has them: strict validation takes no list for a tuple.
    answers: list[AnswerRow] = Field(min_length=2, max_length=len(LABELS))
    passage: str = ""
    group: str = ""
    graded: bool | None = None
    environment: str = ""
    conversation: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _ours(cls, row: Any) -> Any:
        if isinstance(row, dict) and "answers" not in row:
            fix = "say which column is what: columns: {question: …, choices: …, answer: …}"
            raise ValueError(f"has no answers, only {', '.join(row)[:200]}; {fix}")
        return row

    @field_validator("id")
    @classmethod
    def _one_line(cls, id: str) -> str:
        if id != id.strip() or not id.isprintable():
            raise ValueError(f"an id must be one line without spaces around it, got {id!r}")
        return id

    @field_validator("answers")
    @classmethod
    def _distinct(cls, answers: list[AnswerRow]) -> list[AnswerRow]:
        _refuse_equal("text", [seen(answer.text) for answer in answers], answers)
        labels = [answer.label.casefold() for answer in answers]
        if any(labels):
            if not all(labels):
                raise ValueError(
                    f"answer {labels.index('') + 1} has no label and others have; "
                    "label all, or none to have them labelled"
                )
            _refuse_equal("label", labels, answers)
        return answers


def problems(file: str, data: bytes, relabel: bool = False) -> Iterator[Problem]:
    """The problems in the bytes of a file, read lazily; without labels, or to be relabelled, their
    order is not drawn yet. DatasetError where one is wrong."""
    return (problem for _, problem in strict(each_problem(file, data, relabel)))


def each_problem(
    file: str, data: bytes, relabel: bool = False
) -> Iterator[tuple[int, Problem | DatasetError]]:
    """As `problems`, each with its line, but a wrong row is yielded as its error."""
    lines: dict[str, int] = {}
    for line, row in each_row(file, data, ProblemRow):
        if isinstance(row, DatasetError):
            yield line, row
            continue
        try:
            if row.id in lines:
                raise ValueError(f"id: {row.id!r} is taken by line {lines[row.id]}; rename one")
            lines[row.id] = line
            yield line, _problem(row, relabel or not row.answers[0].label)
        except ValueError as exc:
            yield line, DatasetError(file, line, str(exc))


def write_jsonl(problems: Iterable[Problem], path: Path) -> None:
    """Write problems so that `JsonLines` reads the same ones back. DatasetError if it could not."""
    path.write_bytes(b"".join(jsonl(problems, str(path))))


def jsonl(problems: Iterable[Problem], file: str = "problems") -> Iterator[bytes]:
    """Problems as lines that `JsonLines` reads back unchanged. DatasetError if it could not."""
    ids: set[str] = set()
    for line, problem in enumerate(problems, 1):
        if problem.id in ids:
            raise DatasetError(file, line, f"id: {problem.id!r} stands twice; rename one")
        ids.add(problem.id)
        row = _row(problem)
        checked_row(file, line, row, ProblemRow)
        try:
            yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
        except orjson.JSONEncodeError as exc:
            raise DatasetError(file, line, f"{problem.id}: {exc}") from exc


def _problem(row: ProblemRow, relabel: bool) -> Problem:
    values = tuple(answer.value for answer in row.answers)
    flaws = tuple(answer.flaw for answer in row.answers)
    flaws = flaws if any(flaws) else ()
    graded = is_graded(values) if row.graded is None else row.graded
    group = name_of(row.group)
    if relabel and row.conversation is not None:
        raise ValueError("conversation: it names labels; label all answers, without relabel")
    if relabel:
        return labelled(
            row.id,
            row.question,
            [(answer.text, answer.work, answer.value) for answer in row.answers],
            seed=None,
            passage=row.passage,
            group=group,
            graded=graded,
            flaws=flaws,
            environment=row.environment,
        )
    answers = tuple(Answer(answer.label, answer.text, answer.work) for answer in row.answers)
    question = Question(row.question, answers, row.passage, graded, row.environment)
    if row.conversation is not None:
        question = _discussed(question, row.conversation)
    return Problem(row.id, question, values, group, flaws)


def _discussed(question: Question, conversation: dict[str, Any]) -> Question:
    # Here, as most questions were discussed nowhere.
    from ..held import DiscussedQuestion, RecordedConversation

    try:
        record = msgspec.convert(conversation, RecordedConversation)
    except msgspec.ValidationError as exc:
        raise ValueError(f"conversation: {exc}") from exc
    for judgement in record.judged:
        for _, probs in judgement.beliefs:
            if len(probs) != len(question.answers):
                raise ValueError(f"conversation: {judgement.judge} believed {probs}")
    return DiscussedQuestion(**structs.asdict(question), held=record)


def _row(problem: Problem) -> dict[str, object]:
    question = problem.question
    flaws = problem.flaws or ("",) * len(problem.values)
    answers = [
        {"label": answer.label, "text": answer.text, "value": float(value)}
        | ({"work": answer.work} if answer.work else {})
        | ({"flaw": flaw} if flaw else {})
        for answer, value, flaw in zip(question.answers, problem.values, flaws, strict=True)
    ]
    record = getattr(question, "held", None)
    more = {
        "passage": question.passage,
        "group": problem.group,
        "graded": None if question.graded == is_graded(problem.values) else question.graded,
        "environment": question.environment,
        "conversation": record and msgspec.to_builtins(record),
    }
    row = {"id": problem.id, "question": question.text, "answers": answers}
    return row | {name: value for name, value in more.items() if value not in (None, "")}


def _refuse_equal(field: str, senses: Sequence[object], answers: list[AnswerRow]) -> None:
    for n, sense in enumerate(senses):
        if (first := senses.index(sense)) < n:
            raise ValueError(
                f"answers {first + 1} and {n + 1} have the same {field}, "
                f"{getattr(answers[n], field)!r}; change one"
            )


BUNDLED = ("arithmetic", "passages")


@dataclass(frozen=True, slots=True)
class Bundled(Loader):
    """A data set shipped with the package, with its labels as stored."""

    names_rows: ClassVar[bool] = True
    balances: ClassVar[bool] = True

    name: str

    def __post_init__(self) -> None:
        super(Bundled, self).__post_init__()
        if self.name not in BUNDLED:
            raise ValueError(f"name: {unknown('data set', self.name, BUNDLED)}")

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        """root is not used: the data are inside the package."""
        file = f"{self.name}.jsonl"
        data = files("oversight.protocols").joinpath("data", file).read_bytes()
        return self._picked(problems(f"protocols/data/{file}", data))


def bundled(name: str) -> tuple[Problem, ...]:
    """All problems of a data set shipped with the package."""
    return Bundled(name).load()
