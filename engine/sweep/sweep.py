"""What to run: a sweep is a grid, and a cell is one point of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from msgspec import Struct

from ...cache.call import Effort, field_names, value_address
from ...protocols.question import Problem
from ...protocols.settings import Parameters
from .grid import Grid, joined_digest
from .rows import Row


class Cell(Struct, frozen=True):
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
class Sweep(Grid):
    """A grid whose rows can be run."""

    rows: tuple[Row, ...]

    def cells(self, ended: Sequence[int] = ()) -> Iterator[Cell]:
        """Every cell once, lazily, always in the same order.

        The outermost loop is over problems, so that a sweep stopped early has covered every row and
        that neighbouring cells ask different models. The worlds of a problem come next to each
        other, so that their common calls are shared while in flight.

        ended: by place, not 0 for cells that are left out, which may become so meanwhile.
        """
        return chain.from_iterable(self.cells_of(n, ended) for n in range(len(self.problems)))

    def cells_of(self, number: int, ended: Sequence[int] = ()) -> Iterator[Cell]:
        """The cells of one problem, by its number from 0. ended: as in `cells`."""
        problem = self.problems[number]
        place = self.span(number).start
        about = joined_digest(self._addresses[number])
        for draw in range(self.draws):
            for row in self.rows:
                for side in range(len(problem.values)):
                    if not (ended and ended[place]):
                        id = joined_digest(about, row.address, str(side), str(draw))[:16]
                        yield Cell(place, row, problem, side, draw, id)
                    place += 1

    @cached_property
    def _addresses(self) -> tuple[str, ...]:
        """Address of each problem."""
        return tuple(map(value_address, self.problems))

    @cached_property
    def identity(self) -> str:
        """Digest, 64 hex digits: equal for sweeps whose finished run folders would be equal.

        Limits, prices and file names do not count: a run resumes after they change. The code of
        its rows is compared by itself, row by row.
        """
        return joined_digest(
            self.name,
            str(self.seed),
            str(self.draws),
            *self._addresses,
            *(row.address for row in self.rows),
            *(f"{model}={identity}" for model, identity in sorted(self.identities.items())),
        )


def dataclasses_in(value: object) -> Iterator[object]:
    """Every dataclass and struct in a tree of roles and settings, each before those within it."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from dataclasses_in(part)
    elif (names := field_names(value.__class__)) is not None:
        yield value
        for name in names:
            yield from dataclasses_in(getattr(value, name))


def service_tiers(value: object) -> dict[str, set[str]]:
    """Model -> the service tiers in which roles ask it."""
    tiers: dict[str, set[str]] = {}
    for part in dataclasses_in(value):
        if isinstance(part, Parameters) and isinstance(model := getattr(part, "model", None), str):
            tiers.setdefault(model, set()).add(part.service_tier)
    return tiers


def tool_users(value: object) -> Iterator[tuple[str, Effort]]:
    """(model, effort) of every role with tools in a tree of roles and settings."""
    for part in dataclasses_in(value):
        model = getattr(part, "model", None)
        if isinstance(model, str) and getattr(part, "tools", None):
            yield model, getattr(part, "effort", "")
