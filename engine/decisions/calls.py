"""Calls of a run and the rows that use each, from its record."""

from dataclasses import dataclass, field

from ...cache.reply import Usage
from ..record.schema import RECORD
from ..record.tables import ADDRESS
from ..record.values import VERDICT
from ..record.varints import unpack_ids, unpack_pairs
from ..runs.reader import RunReader, damage_named
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
    """Every distinct call of a run's cells, by its address and the endpoint that it was sent to."""

    calls: dict[str, PaidCall] = field(default_factory=dict)
    missing: int = 0
    """Cells that ended and are not in the record."""
    asked: list[int] = field(default_factory=list)
    """By row, the number of its cells' calls; a call that worlds share counts once for each."""
    problems: frozenset[str] | None = None
    """Ids of the problems whose calls these are; None for all."""

    def shared(self, first: int, second: int, other: "RunCalls | None" = None) -> float | None:
        """Share of the calls of either row that both make; None if neither makes any. other: the
        calls of the second row's run, if it is another run."""
        ours = {key for key, call in self.calls.items() if call.rows >> first & 1}
        theirs = {key for key, call in (other or self).calls.items() if call.rows >> second & 1}
        either = len(ours | theirs)
        return len(ours & theirs) / either if either else None


def sample_of(sweep: Grid) -> frozenset[str]:
    """Ids of the first ten problems or fewer, for a page that is to be there at once."""
    count = max(1, min(MOST_PROBLEMS, READ // len(sweep.rows)))
    return frozenset(problem.id for problem in sweep.problems[:count])


def calls_of_run(run: RunReader, problems: frozenset[str] | None = None) -> RunCalls:
    """Calls of all cells of a run that have an outcome, from its record. problems: ids of those
    whose calls are wanted; None for all. RunFolderError without a record."""
    sweep = run.sweep
    wanted = {n for n, each in enumerate(sweep.problems) if problems is None or each.id in problems}
    found = RunCalls(asked=[0] * len(sweep.rows), problems=problems)
    with gc_relaxed(), damage_named(run.folder / RECORD):
        calls: dict[int, PaidCall] = {}
        keys: dict[int, str] = {}
        for call, address, endpoint, model, sent, came, read, written in run.record.query(_CALLS):
            keys[call] = f"{address}.{endpoint}"
            calls[call] = PaidCall(model, Usage(sent or 0, came or 0, read or 0, written or 0))
        for (made_of,) in run.record.query(_READ_FOR_VERDICTS, VERDICT, ADDRESS):
            for call in unpack_ids(made_of):
                calls[call].judging = True
        ended = {record.place for record in run.outcomes()}
        for place, row, problem, pairs in run.record.query(_ASKED):
            ended.discard(place)
            if problem in wanted:
                asked = {call for _, call in unpack_pairs(pairs)}
                found.asked[row] += len(asked)
                for call in asked:
                    calls[call].rows |= 1 << row
    found.missing = sum(sweep.problem_at(place) in wanted for place in ended)
    for number, paid in calls.items():
        if paid.rows:
            # A call that several problems ask is recorded once for each.
            first = found.calls.setdefault(keys[number], paid)
            first.rows |= paid.rows
            first.judging |= paid.judging
    return found


_CALLS = (
    "SELECT call, hex(address), endpoint, model, tokens_in, tokens_out, cache_read, cache_write"
    " FROM calls JOIN endpoints USING(endpoint)"
)
_READ_FOR_VERDICTS = (
    "SELECT calls FROM judgements WHERE role = (SELECT name FROM names WHERE value = ?)"
    " AND length(calls) < ?"
)
_ASKED = "SELECT place, row, problem, calls FROM cells WHERE status < 2"
