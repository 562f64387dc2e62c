"""Which rows of a run rest on which of its calls: found by replaying it from the store."""

from dataclasses import dataclass, field
from pathlib import Path

from oversight.cache.reply import Usage
from oversight.cache.store import Reader
from oversight.engine.reports.replayed import replayed_cells
from oversight.engine.runs.loaded_sweep import LoadedSweep
from oversight.engine.runs.run_folder import outcomes
from oversight.engine.sweeps.sweep import Sweep
from oversight.engine.system.garbage import gc_relaxed
from oversight.protocols.transcript import Verdict

MOST_PROBLEMS, READ = 10, 300
"""Of a sample: problems, and rows times problems."""


@dataclass(slots=True)
class PaidCall:
    """A distinct call of a run."""

    model: str
    usage: Usage
    rows: int = 0
    """The rows that rest on it, as bits."""
    judging: bool = False
    """Whether a verdict was read from its reply."""


@dataclass(slots=True)
class RunCalls:
    """Every distinct call that cells ask, by its key in the store."""

    calls: dict[str, PaidCall] = field(default_factory=dict)
    missing: int = 0
    """Cells of which a call is not in the store, with all that they would have asked after it."""
    asked: list[int] = field(default_factory=list)
    """By row, the calls of its cells, those that worlds share once for each."""
    problems: frozenset[str] | None = None
    """Ids of those that were looked at; None for all."""

    def shared(self, first: int, second: int, other: "RunCalls | None" = None) -> float | None:
        """Share of the calls of either row that both ask; None where neither asks any. other: the
        calls of the second row's run, if it is another."""
        ours = {key for key, call in self.calls.items() if call.rows >> first & 1}
        theirs = {key for key, call in (other or self).calls.items() if call.rows >> second & 1}
        either = len(ours | theirs)
        return len(ours & theirs) / either if either else None


def sample_of(sweep: Sweep) -> frozenset[str]:
    """Problems whose cells tell what rows cost, in a second or two: the first ten, or fewer."""
    count = max(1, min(MOST_PROBLEMS, READ // len(sweep.rows)))
    return frozenset(problem.id for problem in sweep.problems[:count])


async def calls_of_run(
    opened: LoadedSweep, folder: Path, store: Reader, problems: frozenset[str] | None = None
) -> RunCalls:
    """The calls of all cells of a run folder that have an outcome. problems: ids of those to look
    at; None for all."""
    numbers = {row.address: n for n, row in enumerate(opened.sweep.rows)}
    found = RunCalls(asked=[0] * len(numbers), problems=problems)
    landed = {record.place for record in outcomes(folder)}
    cells = (cell for cell in opened.sweep.cells(problems) if cell.place in landed)
    with gc_relaxed():
        async for replayed in replayed_cells(opened, cells, store):
            number = numbers[replayed.cell.row.address]
            found.asked[number] += len(replayed.calls)
            row = 1 << number
            for recorded in replayed.calls.values():
                paid = found.calls.get(recorded.key)
                if paid is None:
                    paid = PaidCall(recorded.call.model, recorded.reply.usage)
                    found.calls[recorded.key] = paid
                paid.rows |= row
            if replayed.outcome is None:
                found.missing += 1
            if isinstance(replayed.outcome, Verdict):
                for judgement in replayed.outcome.judgements:
                    if read := replayed.calls.get(judgement.call):
                        found.calls[read.key].judging = True
    return found
