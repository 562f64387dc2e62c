"""What the cells of a run ask, found out by running them again, and what that costs."""

import math
from dataclasses import dataclass, field

from oversight.cache.call import Ask, Call
from oversight.cache.errors import ReplayMiss
from oversight.cache.reply import Reply
from oversight.engine.accounting.prices import listed
from oversight.engine.errors import StoreFailed
from oversight.engine.pictures.opened import OpenedRun, Place
from oversight.engine.runs.scheduler import CellOutcome, attempt
from oversight.engine.sweeps.rows import Row
from oversight.engine.sweeps.sweep import Cell
from oversight.protocols.question import Problem

READINGS = 300
"""That are run again from the store to tell what rows cost."""
MOST_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a world, with its reply."""

    address: str
    call: Call
    reply: Reply
    dollars: float | None
    """None where no price is known."""


@dataclass(slots=True)
class Recorder:
    """An `Ask` that keeps each different call with its reply, in the order of the replies."""

    inner: Ask
    asked: dict[str, Asked] = field(default_factory=dict)

    async def __call__(self, call: Call) -> Reply:
        reply = await self.inner(call)
        address = call.address
        price = listed().find(call.model)
        cost = None if price is None else price.cost(reply.usage)
        self.asked[address] = Asked(address, call, reply, cost)
        return reply


@dataclass(frozen=True, slots=True)
class RowCost:
    """One row, by the problem: means over a sample."""

    row: Row
    calls: float
    shared: float
    """Share of the calls that more than one world has."""
    input: float
    output: float
    dollars: float | None
    asd: float | None
    """Over all problems."""


async def ended(
    run: OpenedRun, row: Row, problem: Problem, place: Place, side: int
) -> tuple[CellOutcome | None, str, dict[str, Asked]]:
    """How a cell ends when it is run again, why it cannot be, and what it asks."""
    recorder = Recorder(run.cache)
    missing = ""
    outcome: CellOutcome | None = None
    try:
        outcome = await attempt(Cell(0, row, problem, side, place.draw, ""), recorder)
    except ReplayMiss:
        missing = (
            "The store does not hold every reply of this world: it was not run yet, it was stopped "
            "on the way, or its replies are in another store."
        )
    except StoreFailed as fault:
        missing = str(fault)
    return outcome, missing, recorder.asked


async def replayed(run: OpenedRun, place: Place) -> list[list[Asked]]:
    """The different calls of each world of a reading; of one that breaks off, those up to there."""
    row, problem = run.sweep.rows[place.row], run.sweep.problems[place.problem]
    sides = range(len(problem.values))
    ends = [await ended(run, row, problem, place, side) for side in sides]
    return [list(asked.values()) for _, _, asked in ends]


async def row_costs(run: OpenedRun) -> tuple[int, list[RowCost]]:
    """How many problems were looked at, and what each row cost in them."""
    landed = run.landed()
    rows = run.sweep.rows
    count = max(1, min(MOST_PROBLEMS, READINGS // len(rows), len(run.sweep.problems)))
    costs = []
    for number, row in enumerate(rows):
        readings = [await replayed(run, Place(number, problem)) for problem in range(count)]
        worlds = [world for reading in readings for world in reading]
        each = [
            {call.address: call for world in reading for call in world}.values()
            for reading in readings
        ]
        calls = [call for reading in each for call in reading]
        asked = sum(map(len, worlds))
        asd = landed.results.rows[number].asd
        costs.append(
            RowCost(
                row,
                len(calls) / count,
                1 - len(calls) / asked if asked else 0.0,
                sum(call.reply.usage.input_tokens for call in calls) / count,
                sum(call.reply.usage.output_tokens for call in calls) / count,
                _dollars(calls, count),
                asd.mean if asd else None,
            )
        )
    return count, costs


def _dollars(calls: list[Asked], problems: int) -> float | None:
    prices = [call.dollars for call in calls]
    if not prices or None in prices:
        return None
    return math.fsum(price or 0.0 for price in prices) / problems
