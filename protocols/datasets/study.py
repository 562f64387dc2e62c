"""A study: somebody's finished experiment, as files that are read and judged again.

docs/studies.md lists the files of a study folder. An answer is known by the digest of its text,
since labels may stand in another order in another conversation on the same question."""

import hashlib
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

from annotated_types import Interval
from msgspec.structs import replace
from pydantic import ConfigDict, Field

from ..errors import DatasetError
from ..held import BeliefHistory, DiscussedQuestion, RecordedConversation, RecordedTurn
from ..question import LABELS, MAX_LABEL, PLAIN, Problem
from ..quotes import find_quotes
from ..scores import check_probabilities
from ..settings import unknown
from ..transcript import Quote
from .jsonl import problems
from .loader import Loader
from .rows import DataRow, Text, each_row, read_bytes, strict

PROBLEMS, SOURCES = "problems.jsonl", "sources.jsonl"
CONVERSATIONS, JUDGEMENTS = "conversations.jsonl", "judgements.jsonl"

_Row = TypeVar("_Row", bound="StudyRow")

_RECRUITED = re.compile(r"[0-9a-f]{24}|A[0-9A-Z]{11,13}")
"""Ids of people as Prolific and Mechanical Turk give them."""


class StudyRow(DataRow):
    model_config = ConfigDict(extra="forbid")


class QuoteRow(StudyRow):
    text: str
    at: Annotated[list[int], Field(min_length=2, max_length=2)] | None = None
    """Its place in the source text: first character, and the one after the last."""


class TurnRow(StudyRow):
    round: Annotated[int, Interval(ge=0)]
    speaker: Annotated[Text, Field(pattern=f"^{PLAIN}{{1,{MAX_LABEL}}}$")]
    """It stands in a tag of ours, as labels do."""
    side: str | None = None
    text: str
    quotes: list[QuoteRow] = Field(default_factory=list)
    at: int | None = None
    """When, in milliseconds since 1970."""


class ConversationRow(StudyRow):
    id: Text
    problem: Text
    setting: Text
    order: Annotated[list[str], Field(min_length=2)]
    """Digests of the answers as they were labelled: A, B, C …"""
    argued: str | None = None
    """Label of the one answer that was argued for; null: all were."""
    source: str = ""
    """Id of the source text that places are in."""
    turns: list[TurnRow] = Field(default_factory=list)
    speakers: dict[str, str] = Field(default_factory=dict)
    """By seat, a pseudonym."""
    included: bool = True
    """Whether the study's own figures count it."""
    why: str = ""


class BeliefRow(StudyRow):
    round: Annotated[int, Interval(ge=0)]
    probs: list[float]
    """One for each answer, in the order of the conversation."""
    text: str = ""
    at: int | None = None


class JudgementRow(StudyRow):
    conversation: Text
    judge: Text
    kind: Literal["person", "model"] = "person"
    mode: Text = "live"
    beliefs: Annotated[list[BeliefRow], Field(min_length=1)]
    """In order; the last is the verdict."""
    included: bool = True
    why: str = ""


class SourceRow(StudyRow):
    id: Text
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class StudyData:
    """The files of a study, read and checked against one another."""

    problems: dict[str, Problem]
    conversations: dict[str, ConversationRow]
    judgements: tuple[JudgementRow, ...]
    sources: dict[str, SourceRow]

    def question(self, row: ConversationRow) -> Problem:
        """The problem of a conversation, with the answers in its order and under its labels."""
        problem = self.problems[row.problem]
        answers = problem.question.answers
        numbers = {answer_digest(answer.text): n for n, answer in enumerate(answers)}
        places = [numbers[digest] for digest in row.order]
        labels = zip(LABELS, places, strict=False)
        ordered = tuple(replace(answers[place], label=label) for label, place in labels)
        question = replace(problem.question, answers=ordered)
        group, values = problem.group or row.source, tuple(problem.values[n] for n in places)
        return replace(problem, id=row.id, question=question, values=values, group=group, flaws=())

    def quotes(self, row: ConversationRow, turn: TurnRow) -> tuple[Quote, ...]:
        """The quotes of a turn: verified by their places, else by their words."""
        source = self.sources[row.source].text if row.source else ""
        quotes: list[Quote] = []
        for quote in turn.quotes:
            if quote.at is None:
                quotes += find_quotes(f"<quote>{quote.text}</quote>", source) if source else []
            else:
                first, end = quote.at
                quotes.append(Quote(quote.text, source[first:end] == quote.text))
        return tuple(quotes)


@dataclass(frozen=True, slots=True)
class Study(Loader):
    """The conversations of a published experiment, to be judged again (protocol `recorded`).

    Each conversation is a separate problem, under its own id and in its own order of answers;
    those on one source text are of one group. `path` is the study's folder."""

    names_rows: ClassVar[bool] = True

    path: str
    setting: str = ""
    """Only the conversations of this setting; empty: of all."""
    excluded: bool = False
    """Also the conversations and judgements that the study's own figures leave out."""
    passages: bool = False
    """Attach the source texts, for protocols whose agents read them."""

    def __post_init__(self) -> None:
        super(Study, self).__post_init__()
        if self.on_bad_row == "skip":
            raise ValueError("on_bad_row: the files of a study refer to each other; fix the row")

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        return self._picked(self._problems(root / self.path))

    def _problems(self, path: Path) -> Iterator[Problem]:
        data = read_study(path)
        judged: dict[str, list[JudgementRow]] = {}
        for one in data.judgements:
            if one.included or self.excluded:
                judged.setdefault(one.conversation, []).append(one)
        rows = [
            row
            for row in data.conversations.values()
            if (row.included or self.excluded) and self.setting in ("", row.setting)
        ]
        if not rows:
            settings = sorted({row.setting for row in data.conversations.values()})
            raise ValueError(f"setting: {unknown('setting', self.setting, settings)}")
        for row in rows:
            problem = data.question(row)
            passage = data.sources[row.source].text if self.passages and row.source else ""
            record = RecordedConversation(
                row.setting,
                tuple(
                    RecordedTurn(t.round, t.speaker, t.text, t.side or "", data.quotes(row, t))
                    for t in row.turns
                ),
                row.argued or "",
                tuple(
                    BeliefHistory(
                        one.judge, one.mode, tuple((b.round, tuple(b.probs)) for b in one.beliefs)
                    )
                    for one in judged.get(row.id, ())
                ),
            )
            plain = problem.question
            about = plain.text, plain.answers, passage, plain.graded
            yield replace(problem, question=DiscussedQuestion(*about, held=record))


def answer_digest(text: str) -> str:
    """The key of an answer: 16 hex digits of its text."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def looks_recruited(name: str) -> bool:
    """Whether an identity looks like the id of a recruiting platform, which names a person."""
    return _RECRUITED.fullmatch(name) is not None


def read_study(folder: Path) -> StudyData:
    """The files of a study folder. DatasetError, with file and line, where one is wrong or
    contradicts another."""
    file = folder / PROBLEMS

    def fault(line: int, message: str) -> DatasetError:
        return DatasetError(str(file), line, message)

    def check_new(line: int, id: str, ids: Container[str]) -> None:
        if id in ids:
            raise fault(line, f"id: {id!r} stands twice; rename one")

    def check_name(line: int, name: str) -> None:
        if looks_recruited(name):
            raise fault(
                line,
                f"{name[:4]}… looks like the id of a recruiting platform, by which a person can be "
                "found: import it again, which replaces it",
            )

    by_id = {problem.id: problem for problem in problems(str(file), read_bytes(file))}
    sources: dict[str, SourceRow] = {}
    if (file := folder / SOURCES).exists():
        for line, source in _lines(file, SourceRow):
            check_new(line, source.id, sources)
            sources[source.id] = source
    conversations: dict[str, ConversationRow] = {}
    file = folder / CONVERSATIONS
    for line, row in _lines(file, ConversationRow):
        check_new(line, row.id, conversations)
        if row.problem not in by_id:
            raise fault(line, f"problem: {row.problem!r} is not in {PROBLEMS}")
        answers = [answer_digest(a.text) for a in by_id[row.problem].question.answers]
        if sorted(row.order) != sorted(answers):
            raise fault(line, f"order: {row.order} are not the answers of {row.problem}, {answers}")
        labels = LABELS[: len(answers)]
        for name, label in [("argued", row.argued), *(("side", t.side) for t in row.turns)]:
            if label is not None and label not in labels:
                raise fault(line, f"{name}: {label!r} is none of {list(labels)}")
        if row.source and row.source not in sources:
            raise fault(line, f"source: {row.source!r} is not in {SOURCES}")
        for name in row.speakers.values():
            check_name(line, name)
        conversations[row.id] = row
    judged: list[JudgementRow] = []
    lines: dict[tuple[str, str, str], int] = {}
    file = folder / JUDGEMENTS
    for line, one in _lines(file, JudgementRow):
        if one.conversation not in conversations:
            raise fault(line, f"conversation: {one.conversation!r} is not in {CONVERSATIONS}")
        key = (one.conversation, one.judge, one.mode)
        if (first := lines.setdefault(key, line)) != line:
            raise fault(line, f"judge: {one.judge!r} judged it {one.mode} on line {first} too")
        check_name(line, one.judge)
        count = len(conversations[one.conversation].order)
        for p in (belief.probs for belief in one.beliefs):
            if len(p) != count:
                raise fault(line, f"probs: {p}: {len(p)} of them for {count} answers")
            try:
                check_probabilities(p)
            except ValueError as exc:
                raise fault(line, f"probs: {p}: {exc}") from exc
        if [b.round for b in one.beliefs] != sorted(b.round for b in one.beliefs):
            raise fault(line, "beliefs: their rounds are not in order")
        judged.append(one)
    return StudyData(by_id, conversations, tuple(judged), sources)


def _lines(file: Path, model: type[_Row]) -> Iterator[tuple[int, _Row]]:
    data = read_bytes(file)
    return strict(each_row(str(file), data, model)) if data.strip() else iter(())
