"""The loader interface: settings that a sweep file can hold, and one way to load problems.

Also equal questions (copies are one observation), and open answers: proposals to accept or reject,
since a judge who sees a right and a wrong answer can tell them apart by comparing."""

import hashlib
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self, TypeAlias, TypeVar

from msgspec.structs import replace

from ..errors import DatasetError
from ..question import (
    Answer,
    Problem,
    Question,
    balanced,
    is_graded,
    labelled,
    lettered,
    randomness,
)
from ..settings import Count, check_ranges
from .columns import seen
from .solution import sense

T = TypeVar("T")
logger = logging.getLogger(__name__)

LISTED = 20
"""Maximum number of bad rows that an error lists."""

Change: TypeAlias = Literal["merged", "letters", "references", "left out", "ties"]
CHANGES: dict[Change, str] = {
    "merged": "an option reads like another one and was left out: write them apart if they differ",
    "letters": "the options' letters were taken off: columns: {letters: keep} keeps them",
    "references": "an option refers to others, so all stay in the order of the file",
    "ties": "no answer is better, so the row was left out",
    "left out": "wrong answers were left out: answers: null keeps all",
}
"""Changes that reading makes to a row, and the setting that decides otherwise."""


@dataclass(slots=True)
class Notes:
    """A record of one reading: the bad rows, and the rows that were changed."""

    rows: int = 0
    bad: list[DatasetError] = field(default_factory=list)
    changed: dict[Change, list[str]] = field(default_factory=dict)
    """Places of the rows, as FILE:LINE."""

    def good(self, rows: Iterable[tuple[int, T | DatasetError]]) -> Iterator[tuple[int, T]]:
        """The rows that fit; the others are noted as bad."""
        for line, row in rows:
            self.rows += 1
            if isinstance(row, DatasetError):
                self.bad.append(row)
            else:
                yield line, row

    def change(self, kind: Change, file: str, line: int) -> None:
        self.changed.setdefault(kind, []).append(f"{file}:{line}")

    def settle(self, on_bad_row: str) -> None:
        """After the whole data set was read: one DatasetError for all bad rows, unless they are
        skipped and others are left."""
        if not self.bad or (on_bad_row == "skip" and len(self.bad) < self.rows):
            return
        first, count = self.bad[0], len(self.bad)
        message = str(first).partition(f"{first.file}:{first.line}: ")[2] or str(first)
        if on_bad_row == "skip":
            raise DatasetError(first.file, 0, f"no row of it can be used{self._listed()}")
        if count > 1:
            message = (
                f"{count:,} of {self.rows:,} rows are wrong; fix them, or leave them out with "
                f"on_bad_row: skip{self._listed()}"
            )
        elif self.rows > 1:
            message += f"; 1 of {self.rows:,} rows is wrong, and on_bad_row: skip leaves it out"
        raise DatasetError(first.file, first.line, message)

    def _listed(self) -> str:
        lines = "".join(f"\n  {fault}" for fault in self.bad[:LISTED])
        more = len(self.bad) - LISTED
        return f"{lines}\n  … and {more:,} more" if more > 0 else lines

    def lines(self) -> Iterator[str]:
        """Notes for a run: the skipped rows by cause, and the options that were merged."""
        if self.bad:
            causes = Counter(_cause(fault) for fault in self.bad)
            listed = "; ".join(f"{count:,} × {cause}" for cause, count in causes.most_common(3))
            others = f"; {len(causes) - 3:,} other cause{'s' * (len(causes) > 4)}"
            first = f"{self.bad[0].file}:{self.bad[0].line}"
            yield (
                f"skipped rows: {len(self.bad):,} of {self.rows:,}, the first at {first}: "
                f"{listed}{others * (len(causes) > 3)}"
            )
        yield from self.changes("merged", "ties")

    def changes(self, *kinds: Change) -> Iterator[str]:
        """A line for each kind of change, with the first places; all kinds by default."""
        for change, places in self.changed.items():
            if change in (kinds or CHANGES):
                first = ", ".join(places[:3]) + (", …" if len(places) > 3 else "")
                yield f"{change}, {len(places):,} × ({first}): {CHANGES[change]}"


def _cause(fault: DatasetError) -> str:
    """The kind of a fault: its words without the place and the values."""
    message = str(fault).partition(f"{fault.file}:{fault.line}: ")[2] or str(fault)
    return message.partition("; ")[0].partition("\n")[0][:80]


def overlap(
    problems: Iterable[Problem], examples: Iterable[Problem]
) -> tuple[tuple[str, str], ...]:
    """(problem id, example id) of each pair that is one question: by id, or by text and passage,
    ignoring case and spaces."""
    ids: dict[str, str] = {}
    texts: dict[object, str] = {}
    for problem in problems:
        ids[problem.id] = problem.id
        texts.setdefault(_text(problem), problem.id)
    pairs = []
    for example in examples:
        problem_id = ids.get(example.id) or texts.get(_text(example))
        if problem_id is not None:
            pairs.append((problem_id, example.id))
    return tuple(pairs)


def _text(problem: Problem) -> object:
    return sense(problem.question.text), sense(problem.question.passage)


def content(problem: Problem) -> tuple[str, ...]:
    """Key of a question: equal for copies of a question under other ids and letters."""
    question = problem.question
    options = sorted(seen(answer.whole) for answer in question.answers)
    return seen(question.text), seen(question.passage), question.environment, *options


def grouped(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems, copies of one question in one group: equal text, passage and answers are one
    observation. A group that a copy has is kept."""
    every = tuple(problems)
    keys = [content(problem) for problem in every]
    copies = Counter(keys)
    groups = {key: problem.group for key, problem in zip(keys, every, strict=True) if problem.group}
    return tuple(
        problem
        if problem.group or copies[key] == 1
        else replace(problem, group=groups.get(key) or digest("\0".join(key)))
        for key, problem in zip(keys, every, strict=True)
    )


def copies_line(problems: Sequence[Problem]) -> Iterator[str]:
    """A line for people if some problems ask the same question."""
    different = len({content(problem) for problem in problems})
    if different < len(problems):
        yield (
            f"{len(problems):,} problems, {different:,} different questions: one that stands more "
            "than once with equal answers is one group"
        )


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


ACCEPT = "The proposed answer is right."
REJECT = "The proposed answer is not right."


def proposals(problems: Iterable[Problem], seed: int = 0) -> Iterator[Problem]:
    """Two proposals per problem: its right answer, and a wrong one drawn from the seed and from the
    text of the problem. So proposals are as often right as wrong. Both are in one group, which a
    bootstrap keeps together. ValueError for answers that differ in degree: none of them can be
    accepted."""
    for problem in problems:
        question, best = problem.question, problem.best
        if question.graded or is_graded(problem.values):
            raise ValueError(
                f"{problem.id}: its answers differ in degree, so none can be accepted or rejected; "
                "leave proposals out"
            )
        wrong = [place for place in range(len(problem.values)) if place != best]
        wrong.sort(key=lambda place: question.answers[place].whole)
        drawn = randomness(seed, "\0".join(content(problem)), "proposal").choice(wrong)
        group = problem.group or problem.id
        for place in sorted((best, drawn)):
            answer = question.answers[place]
            id = f"{problem.id}-{answer.label}"
            flaw = problem.flaws[place] if problem.flaws else ""
            yield proposal(id, question, answer, place == best, group=group, flaw=flaw)


def proposal(
    id: str, question: Question, answer: Answer, right: bool, *, group: str, flaw: str = ""
) -> Problem:
    """One answer to a question, to be accepted or rejected. Its labels are not drawn yet. flaw:
    the error planted in it."""
    value = 1.0 if right else -1.0
    return labelled(
        id,
        f"{question.text}\n\nProposed answer: {answer.whole}",
        [(ACCEPT, "", value), (REJECT, "", -value)],
        seed=None,
        passage=question.passage,
        group=group,
        flaws=(flaw, "") if flaw else (),
        environment=question.environment,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader(ABC):
    """The settings of one data set.

    Paths are kept as written, so that equal settings are equal on every machine."""

    quoted: ClassVar[bool] = False
    """Whether agents quote passages to a judge who cannot read them, unless `quotes` is set."""
    names_rows: ClassVar[bool] = False
    """Whether ids come from the file; else they are row numbers, not comparable across files."""
    balances: ClassVar[bool] = False
    """Whether letters are balanced over the problems in their order, as for sets that nobody edits;
    else they follow from each problem's content alone."""

    limit: Count | None = None
    """Maximum number of problems; None for all. A higher limit keeps all of a lower one."""
    shuffle: bool = False
    """Take problems in an order drawn from (seed, id) and not in the order of the file."""
    seed: int = 0
    """Seeds the shuffled order, and the labels and wrong answers where they are drawn."""
    proposals: bool = False
    """Split each problem into two proposals to accept or reject, a right and a wrong one. `limit`
    counts the problems before the split."""
    on_bad_row: Literal["refuse", "skip"] = "refuse"
    """Whether bad rows are listed in one error, or left out and counted."""

    def __post_init__(self) -> None:
        check_ranges(self)

    @abstractmethod
    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        """The problems, with distinct ids. DatasetError where a file is wrong. root: where relative
        paths start; the folder of the sweep file, as a rule."""

    def read(self, root: Path = Path()) -> tuple[tuple[Problem, ...], Notes]:
        """The problems, and what reading left out or changed."""
        return grouped(self.load(root)), Notes()

    def pinned(self) -> Self:
        """These settings, with a definite revision. DatasetError if it is not known."""
        return self

    def _picked(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems after shuffle and limit."""
        return self._chosen((problem.id, problem) for problem in problems)

    def _chosen(self, problems: Iterable[tuple[str, Problem]]) -> tuple[Problem, ...]:
        """The problems after shuffle and limit. problems: each with the key of its draws."""
        if self.shuffle:
            problems = sorted(problems, key=lambda keyed: self._rank(keyed[0]))
        return self._asked([problem for _, problem in problems][: self.limit])

    def _asked(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems with their letters, or their proposals where those are set."""
        order = balanced if self.balances else lettered
        problems = order(problems, self.seed)
        if self.proposals:
            problems = order(proposals(problems, self.seed), self.seed)
        return grouped(problems)

    def _rank(self, id: str) -> float:
        """Sort key of an id in a shuffle, of the id alone: new rows do not reorder old ones."""
        return randomness(self.seed, id, "order").random()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLoader(Loader):
    """A loader that reads rows, and goes on behind a bad one."""

    def load(self, root: Path = Path()) -> tuple[Problem, ...]:
        problems, notes = self.read(root)
        if notes.bad:
            logger.warning(
                "%s: %d of %d rows are skipped", notes.bad[0].file, len(notes.bad), notes.rows
            )
        return problems

    def read(self, root: Path = Path()) -> tuple[tuple[Problem, ...], Notes]:
        notes = Notes()
        problems = list(self._problems(root, notes))
        notes.settle(self.on_bad_row)
        return self._chosen(problems), notes

    @abstractmethod
    def _problems(self, root: Path, notes: Notes) -> Iterable[tuple[str, Problem]]:
        """(key of its draws, problem) of each row; bad rows go to the notes. The letters of an
        `Unordered` problem are not drawn yet."""
