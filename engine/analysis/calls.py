"""Calls of a run and the rows that use each, from its record."""

from dataclasses import dataclass, field

from ...cache.reply import Usage
from ..run.reader import RunReader, damage_named
from ..run.record.schema import RECORD
from ..run.record.tables import ADDRESS
from ..run.record.values import VERDICT
from ..run.record.varints import unpack_ids, unpack_pairs
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
    missing: int = 0
    """Cells that ended and are not in the record."""
    asked: list[int] = field(default_factory=list)
    """By row, the number of its cells' calls; a call that worlds share counts once for each."""
    problems: frozenset[str] | None = None
    """Ids of the problems whose calls these are; None for all."""


def sample_of(sweep: Grid) -> frozenset[str]:
    """Ids of the first ten problems or fewer, for a page that is to be there at once."""
    count = max(1, min(MOST_PROBLEMS, READ // len(sweep.rows)))
    return frozenset(problem.id for problem in sweep.problems[:count])


def calls_of_run(run: RunReader, problems: frozenset[str] | None = None) -> RunCalls:
    """Calls of all cells of a run that have an outcome, from its record. problems: ids of those
    whose calls are wanted; None for all. RunFolderError without a record."""
    sweep = run.sweep
    wanted = [n for n, each in enumerate(sweep.problems) if problems is None or each.id in problems]
    # Calls of a problem are numbered as its cells land, so a sample is a part of them.
    spans = [sweep.span(n) for n in wanted] if problems is not None else [range(len(sweep))]
    found = RunCalls(asked=[0] * len(sweep.rows), problems=problems)
    with gc_relaxed(), damage_named(run.folder / RECORD):
        rows: dict[int, int] = {}
        verdicts = set[int]()
        recorded = set[int]()
        for span in spans:
            for place, row, pairs, judged in run.record.query(_ASKED, span.start, span.stop):
                asked = {call for _, call in unpack_pairs(pairs)}
                found.asked[row] += len(asked)
                for call in asked:
                    rows[call] = rows.get(call, 0) | 1 << row
                verdicts.update(unpack_ids(judged))
                recorded.add(place)
        judging = set[int]()
        for judgement, made_of in run.record.query(_READ_FOR_VERDICTS, VERDICT, ADDRESS):
            if judgement in verdicts:
                judging.update(unpack_ids(made_of))
        endpoints = dict(run.record.query("SELECT endpoint, identity FROM endpoints"))
        ends = (min(rows, default=0), max(rows, default=-1))
        for call, address, endpoint, model, sent, came, read, written in run.record.query(
            _CALLS, *ends
        ):
            if call in rows:
                usage = Usage(sent or 0, came or 0, read or 0, written or 0)
                # Endpoints are numbered as they come: in another run, another way.
                key = address, endpoints[endpoint]
                # A call that several problems ask is recorded once for each.
                paid = found.calls.setdefault(key, PaidCall(model, usage))
                paid.rows |= rows[call]
                paid.judging |= call in judging
        if problems is None:
            found.missing = sum(each.place not in recorded for each in run.outcomes())
        else:
            ended = run.records(place for span in spans for place in span)
            found.missing = len(ended.keys() - recorded)
    return found


_CALLS = (
    "SELECT call, address, endpoint, model, tokens_in, tokens_out, cache_read, cache_write"
    " FROM calls JOIN endpoints USING(endpoint) WHERE call BETWEEN ? AND ?"
)
_READ_FOR_VERDICTS = (
    "SELECT judgement, calls FROM judgements WHERE role = (SELECT name FROM names WHERE value = ?)"
    " AND length(calls) < ?"
)
_ASKED = (
    "SELECT place, row, calls, judgements FROM cells WHERE place >= ? AND place < ? AND status < 2"
)
