"""Calls of a run and the rows that use each."""

from dataclasses import dataclass, field

from ...cache.reply import Usage
from ..run.reader import RunReader
from ..sweep.grid import Grid
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
    """Every distinct call of a run's cells, by its address and the endpoint that it was sent to."""

    calls: dict[tuple[bytes, str], PaidCall] = field(default_factory=dict)
    """By address and the endpoint's identity: the same in every run."""
    asked: list[int] = field(default_factory=list)
    """By row, the number of its cells' calls; a call that worlds share counts once for each."""
    problems: frozenset[str] | None = None
    """Ids of the problems whose calls these are; None for all."""


def sample_of(sweep: Grid) -> frozenset[str]:
    """Ids of the first ten problems or fewer, for a page that is to be there at once."""
    count = max(1, min(MOST_PROBLEMS, READ // len(sweep.rows)))
    return frozenset(problem.id for problem in sweep.problems[:count])


def calls_of_run(run: RunReader, problems: frozenset[str] | None = None) -> RunCalls:
    """Calls of all cells of a run that have an outcome. problems: ids of those whose calls are
    wanted; None for all. RunFolderError."""
    sweep, tables = run.sweep, run.tables
    wanted = [n for n, each in enumerate(sweep.problems) if problems is None or each.id in problems]
    spans = [sweep.span(n) for n in wanted] if problems is not None else [range(len(sweep))]
    found = RunCalls(asked=[0] * len(sweep.rows), problems=problems)
    with gc_relaxed():
        rows: dict[int, int] = {}
        judging = set[object]()
        for span in spans:
            for _, row, _, body in tables.bodies(span):
                asked = body.calls[1::2]
                found.asked[row] += len(asked)
                for call in asked:
                    rows[call] = rows.get(call, 0) | 1 << row
                judging.update([each.call for each in body.judgements])
        for call, address, endpoint, *tokens in tables.asked(rows):
            model, identity, *_ = tables.endpoint(endpoint)
            # The reply of a call may have been recorded twice, in two forms.
            paid = found.calls.setdefault((address, identity), PaidCall(model, Usage(*tokens[:4])))
            paid.rows |= rows[call]
            paid.judging |= call in judging
    return found
