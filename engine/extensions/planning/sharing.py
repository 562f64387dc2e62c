"""What the rows of a sweep share: the calls that each asks alone, and beside the others."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ...providers.simulated import SimulatedModel
from ...run.dry_run import Walker, stand_ins
from ...sweep.sweep import Sweep

PROBLEMS = 3
"""Problems that are walked, evenly spread."""


@dataclass(frozen=True, slots=True)
class RowSharing:
    """The calls of one row, per problem."""

    row: str
    alone: float
    """Calls that it asks if it is the only row."""
    own: float
    """Calls that no other row asks."""


@dataclass(frozen=True, slots=True)
class Sharing:
    rows: tuple[RowSharing, ...]
    together: float
    """Different calls of all rows, per problem."""


async def sharing_of(sweep: Sweep, simulated: Mapping[str, SimulatedModel]) -> Sharing:
    """Walks a few problems of a sweep, row by row, with simulated replies."""
    provider = stand_ins(sweep, simulated)
    step = max(len(sweep.problems) // PROBLEMS, 1)
    problems = sweep.problems[::step][:PROBLEMS]
    asked: dict[str, set[str]] = {}
    for row in sweep.rows:
        walker = Walker(provider.reply)
        await walker.walk(Sweep(sweep.name, problems, (row,)).cells())
        asked[row.title] = set(walker.seen)
    times = Counter(address for mine in asked.values() for address in mine)
    count = len(problems)
    return Sharing(
        tuple(
            RowSharing(
                name, len(mine) / count, sum(times[address] == 1 for address in mine) / count
            )
            for name, mine in asked.items()
        ),
        len(times) / count,
    )
