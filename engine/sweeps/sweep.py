"""What to run: a sweep is a grid, and a cell is one point of it."""

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType

from ...cache.address import value_address
from ...cache.call import Effort
from ...protocols.question import Problem
from .rows import Row


@dataclass(frozen=True, slots=True)
class Cell:
    """The unit of work, of resuming and of failure: one world of one problem under one protocol."""

    place: int
    """Index in the sweep, from 0."""
    row: Row
    problem: Problem
    side: int
    """Index of the answer that the overseen agent argues for."""
    draw: int
    """Which repetition of the whole sweep this is, from 0."""
    id: str
    """16 hex digits, from the contents of all of the above but `place`."""


@dataclass(frozen=True)
class Sweep:
    """A grid of cells: problems x draws x rows x the answers to argue for."""

    name: str
    problems: tuple[Problem, ...]
    rows: tuple[Row, ...]
    draws: int = 1
    seed: int = 0
    identities: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Model -> identity of the endpoint that answers for it."""

    def cells(self, problems: Collection[str] | None = None) -> Iterator[Cell]:
        """Every cell once, lazily, always in the same order.

        The outermost loop is over problems, so that a sweep stopped early has covered every row and
        that neighbouring cells ask different models. The worlds of a problem come next to each
        other, so that their common calls are shared while in flight.

        problems: ids of the wanted problems; None for all.
        """
        for number, problem in enumerate(self.problems):
            if problems is None or problem.id in problems:
                yield from self.cells_of(number)

    def cells_of(self, number: int) -> Iterator[Cell]:
        """The cells of one problem, by its number from 0."""
        problem = self.problems[number]
        place = self._starts[number]
        about = _digest(value_address(problem))
        for draw in range(self.draws):
            for row in self.rows:
                for side in range(len(problem.values)):
                    id = _digest(about, row.address, str(side), str(draw))[:16]
                    yield Cell(place, row, problem, side, draw, id)
                    place += 1

    def span(self, number: int) -> range:
        """Range of the places of one problem's cells."""
        return range(self._starts[number], self._starts[number + 1])

    def problem_at(self, place: int) -> int:
        """The number of the problem that a place belongs to."""
        return bisect_right(self._starts, place) - 1

    @cached_property
    def _starts(self) -> "array[int]":
        """Place of each problem's first cell, and the end of the last problem's."""
        size = self.draws * len(self.rows)
        sizes = (len(problem.values) * size for problem in self.problems)
        return array("Q", accumulate(sizes, initial=0))

    def __len__(self) -> int:
        return self.size

    @property
    def size(self) -> int:
        """Number of cells; unlike `len`, without an upper bound."""
        answers = sum(len(problem.values) for problem in self.problems)
        return answers * self.draws * len(self.rows)

    @cached_property
    def roles(self) -> tuple[tuple[str, str], ...]:
        """(model, role) of every model: "agent", "judge" or "agent and judge"."""
        judges, agents = set[str](), set[str]()
        for row in self.rows:
            judges.update(models_of(row.protocol.judge))
            for part in fields(row.protocol):
                if part.name != "judge":
                    agents.update(models_of(getattr(row.protocol, part.name)))
        seats = (("agent", agents), ("judge", judges))
        return tuple(
            (model, " and ".join(seat for seat, seated in seats if model in seated))
            for model in self.models
        )

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Every model that any row may ask, in order of first mention."""
        names: dict[str, None] = {}
        for row in self.rows:
            names.update(dict.fromkeys(models_of(row.protocol)))
        return tuple(names)

    @cached_property
    def prompts(self) -> str:
        """Digest of all prompts that its rows read, 12 hex digits."""
        return _digest(*sorted({row.protocol.read.digest for row in self.rows}))[:12]

    @cached_property
    def code(self) -> str:
        """Digest of the code behind its rows as it is now, 12 hex digits."""
        from .code import row_codes  # which reads sources

        return _digest(*sorted(each.digest for each in row_codes(self.rows).values()))[:12]

    @cached_property
    def identity(self) -> str:
        """Digest, 64 hex digits: equal for sweeps whose finished run folders would be equal.

        Limits, prices and file names do not count: a run resumes after they change. The code of
        its rows is compared by itself, row by row.
        """
        return _digest(
            self.name,
            str(self.seed),
            str(self.draws),
            *(value_address(problem) for problem in self.problems),
            *(row.address for row in self.rows),
            *(f"{model}={identity}" for model, identity in sorted(self.identities.items())),
        )


def dataclasses_in(value: object) -> Iterator[object]:
    """Every dataclass in a tree of roles and settings, each before those within it."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from dataclasses_in(part)
    elif is_dataclass(value):
        yield value
        for each in fields(value):
            yield from dataclasses_in(getattr(value, each.name))


def models_of(value: object) -> Iterator[str]:
    """Every model named anywhere in a tree of roles and settings."""
    return (model for _, model in _asking(value))


def tool_users(value: object) -> Iterator[tuple[str, Effort]]:
    """(model, effort) of every role with tools in a tree of roles and settings."""
    for part, model in _asking(value):
        if getattr(part, "tools", None):
            yield model, getattr(part, "effort", "")


def _asking(value: object) -> Iterator[tuple[object, str]]:
    """Every role with a model of its own, and that model."""
    for part in dataclasses_in(value):
        model = getattr(part, "model", None)
        if isinstance(model, str) and "model" in getattr(part, "__dataclass_fields__", ()):
            yield part, model


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
