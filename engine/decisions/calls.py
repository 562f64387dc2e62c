"""Calls of a run and the rows that use each, found by replaying the run from the store."""

from dataclasses import dataclass, field
from pathlib import Path

from ...cache.reply import Usage
from ...cache.store import Reader
from ...protocols.transcript import Verdict
from ..reports.replayed import replayed_cells
from ..runs.loaded_sweep import LoadedSweep
from ..runs.run_folder import outcomes
from ..sweeps.grid import Grid
from ..system.garbage import gc_relaxed

MOST_PROBLEMS, READ = 10, 300
"""Limits of a sample: problems, and rows times problems."""


@dataclass(slots=True)
class PaidCall:
    """A distinct call of a run."""

    model: str
    usage: Usage
    rows: int = 0
    """Bit set of the numbers of the rows that use it."""
    judging: bool = False
    """Whether a verdict was read from its reply."""


@dataclass(slots=True)
class RunCalls:
    """Every distinct call of a run's cells, by its key in the store."""

    calls: dict[str, PaidCall] = field(default_factory=dict)
    missing: int = 0
    """Cells with a call that is not in the store; their later calls are missing too."""
    asked: list[int] = field(default_factory=list)
    """By row, the number of its cells' calls; a call that worlds share counts once for each."""
    problems: frozenset[str] | None = None
    """Ids of the problems that were replayed; None for all."""

    def shared(self, first: int, second: int, other: "RunCalls | None" = None) -> float | None:
        """Share of the calls of either row that both make; None if neither makes any. other: the
        calls of the second row's run, if it is another run."""
        ours = {key for key, call in self.calls.items() if call.rows >> first & 1}
        theirs = {key for key, call in (other or self).calls.items() if call.rows >> second & 1}
        either = len(ours | theirs)
        return len(ours & theirs) / either if either else None


def sample_of(sweep: Grid) -> frozenset[str]:
    """Ids of the first ten problems or fewer: a cost sample that replays in a second or two."""
    count = max(1, min(MOST_PROBLEMS, READ // len(sweep.rows)))
    return frozenset(problem.id for problem in sweep.problems[:count])


async def calls_of_run(
    opened: LoadedSweep, folder: Path, store: Reader, problems: frozenset[str] | None = None
) -> RunCalls:
    """Calls of all cells of a run folder that have an outcome. problems: ids of those to replay;
    None for all."""
    numbers = {row.address: n for n, row in enumerate(opened.sweep.rows)}
    run_calls = RunCalls(asked=[0] * len(numbers), problems=problems)
    landed = {record.place for record in outcomes(folder)}
    cells = (cell for cell in opened.sweep.cells(problems) if cell.place in landed)
    with gc_relaxed():
        async for replayed in replayed_cells(opened, cells, store):
            number = numbers[replayed.cell.row.address]
            run_calls.asked[number] += len(replayed.calls)
            row = 1 << number
            for recorded in replayed.calls.values():
                paid = run_calls.calls.get(recorded.key)
                if paid is None:
                    paid = PaidCall(recorded.call.model, recorded.reply.usage)
                    run_calls.calls[recorded.key] = paid
                paid.rows |= row
            if replayed.outcome is None:
                run_calls.missing += 1
            if isinstance(replayed.outcome, Verdict):
                for judgement in replayed.outcome.judgements:
                    if read := replayed.calls.get(judgement.call):
                        run_calls.calls[read.key].judging = True
    return run_calls
