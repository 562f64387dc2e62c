"""Calls of the cells of a run and their cost, found by replaying the cells."""

from dataclasses import dataclass

from ...cache.call import Call, RecordingAsk
from ...cache.errors import ReplayMiss
from ...cache.reply import Reply
from ...protocols.question import Problem
from ..decisions.calls import calls_of_run, sample_of
from ..decisions.costs import spent_by_row
from ..errors import StoreFailed
from ..runs.reader import Place
from ..runs.scheduler import CellOutcome, attempt
from ..sweeps.grid import GridRow
from ..sweeps.rows import Row
from ..sweeps.sweep import Cell
from .opened import OpenedRun


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a world, with its reply."""

    address: str
    call: Call
    reply: Reply
    dollars: float | None
    """None where no price is known."""


@dataclass(frozen=True, slots=True)
class SampledCost:
    """Cost of one row per problem: means over a sample of problems."""

    row: GridRow
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
    """The end of a cell when it is replayed, with its calls, or why it cannot be replayed."""
    recording = RecordingAsk(run.cache)
    missing = ""
    outcome: CellOutcome | None = None
    try:
        outcome = await attempt(Cell(0, row, problem, side, place.draw, ""), recording)
    except ReplayMiss:
        missing = (
            "The store does not hold every reply of this world: it was not run yet, it was stopped "
            "on the way, or its replies are in another store."
        )
        if run.manifest.prompts not in ("", run.sweep.prompts):
            missing = (
                f"Version {run.manifest.version} made the run, with other prompts than this one "
                "has: what was said can be read with that version."
            )
    except StoreFailed as fault:
        missing = str(fault)
    asked = {}
    for address, (call, reply) in recording.answered.items():
        price = run.prices.find(call.model)
        cost = None if price is None else price.cost(reply.usage)
        asked[address] = Asked(address, call, reply, cost)
    return outcome, missing, asked


async def sampled_costs(run: OpenedRun) -> tuple[int, list[SampledCost]]:
    """(number of problems sampled, cost of each row over them)."""
    landed, rows = run.landed(), run.sweep.rows
    sample = sample_of(run.sweep)
    found = await calls_of_run(run.opened, run.folder, run.replies, sample)
    alone, _ = spent_by_row(found, len(rows), run.prices)
    count = len(sample)
    return count, [
        SampledCost(
            row,
            spent.calls / count,
            1 - spent.calls / asked if asked else 0.0,
            spent.input_tokens / count,
            spent.output_tokens / count,
            spent.dollars / count if spent.calls and spent.dollars is not None else None,
            result.asd.value if result.asd else None,
        )
        for row, spent, asked, result in zip(
            rows, alone, found.asked, landed.results.rows, strict=True
        )
    ]
