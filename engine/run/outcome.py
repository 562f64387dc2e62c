"""One line of `outcomes.jsonl`: the outcome of a cell, and nothing that differs between reruns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson
from msgspec import structs

from ...protocols.counts import counted
from ...protocols.transcript import NOT_RUN, Failure, Scalar, Verdict
from .record.tables import RecordTables
from .record.values import RecordedCell, are_probabilities, unread_in
from .record.varints import unpack_floats

if TYPE_CHECKING:
    # Readers of outcomes do not wait for what runs them.
    from ..sweep.sweep import Cell
    from .record.capture import Capture, CapturedCell
    from .scheduler import NotedOutcome

FAILURE_MARK = b',"failure":{'
"""Occurs in the lines of failures only: within a text the quotes would be escaped."""


class CompletedCell(NamedTuple):
    """A cell whose outcome has just completed."""

    place: int
    """The cell's place in the order of the sweep."""
    line: bytes
    """The line of its outcome, with the newline."""
    failed: bool
    """Whether the outcome is a Failure."""
    recorded: "RecordedCell | CapturedCell | None" = None
    """What was asked and said in it; None where that is not known, or in the record already."""


class OutcomeRecord(msgspec.Struct, frozen=True, rename={"side": "at"}):
    """A line read back. Exactly one of `probs`, `failure` and `not_run` is there."""

    place: int
    cell: str
    protocol: str
    agent: str
    judge: str
    problem: str
    side: int
    """Place of the answer that was argued for, from 0."""
    draw: int
    probs: tuple[float, ...] | None = None
    failure: Failure | None = None
    not_run: str = ""
    """Why the design left this world out; empty for one that was run."""
    measures: Mapping[str, Scalar] = {}
    counts: Mapping[str, int] = {}
    captured: float | None = None
    """For logprob judges: the least mass that the answer labels had in any elicitation."""
    redraws: tuple[tuple[float, ...], ...] = ()
    """The verdicts of which `probs` is the mean, where the judge was asked several times."""
    bounds: tuple[tuple[float, float], ...] = ()
    """For each answer the least and the most that its probability would be, whatever the replies
    had said that could not be read; empty where all were."""
    unread: Mapping[str, int] = {}
    """How many replies of each seat were refused, cut off, empty or unreadable, as
    `Judge: truncated`; those that a selection left out are counted too."""

    @property
    def from_replies(self) -> bool:
        """Whether it follows from replies alone; a fault of the provider's leaves no reply."""
        return self.failure is None or self.failure.unread or self.failure.kind == "crash"


def line(cell: "Cell", outcome: Verdict | Failure) -> bytes:
    """The line of a cell, with its newline; equal bytes for equal outcomes."""
    row, side = cell.row, cell.problem.question.answers[cell.side].label
    names = (row.kind, row.agent, row.judge, cell.problem.id, side)
    if isinstance(outcome, Failure):
        return _line(cell.place, cell.id, names, cell.side, cell.draw, failure=outcome)
    captured = [judgement.captured for judgement in outcome.judgements]
    return _line(
        cell.place,
        cell.id,
        names,
        cell.side,
        cell.draw,
        probs=outcome.probs,
        measures=dict(outcome.measures),
        counts=counted(outcome),
        captured=min(captured, default=1.0),
        redraws=outcome.redraws,
        more=unread_in(outcome),
    )


def completed(cell: "Cell", end: "NotedOutcome", capture: "Capture") -> CompletedCell:
    """A cell that has ended, for the record and the run folder."""
    recorded = capture.cell(cell, end.outcome, end.notes)
    failed = isinstance(end.outcome, Failure) and end.outcome.kind != NOT_RUN
    return CompletedCell(cell.place, line(cell, end.outcome), failed, recorded)


def projected(record: RecordTables, places: Iterable[int] | None = None) -> Iterator[CompletedCell]:
    """The outcome lines of cells, made from the record of their run; cells that it does not hold
    are left out. places: None for all cells. RunFolderError."""
    query = (
        "SELECT place, cells.id, kind, agent, judge, problem, cells.side, cells.draw, probs,"
        " measures, counts, captured, redraws, failure, cause, unread"
        " FROM cells JOIN rows USING(row) LEFT JOIN conversations USING(conversation)"
    ).replace(" problem,", " cells.problem,")
    if places is None:
        rows = record.query(f"{query} ORDER BY place")
    else:
        rows = (row for place in places for row in record.query(f"{query} WHERE place=?", place))
    for place, id, kind, agent, judge, number, side, draw, probs, *more in rows:
        measures, counts, captured, redraws, failure, cause, unread = more
        problem = record.problems[number]
        names = (kind, agent, judge, problem.id, problem.question.answers[side].label)
        written = _line(
            place,
            id.hex(),
            names,
            side,
            draw,
            failure=_failure(failure, cause),
            probs=() if probs is None else unpack_floats(probs),
            measures=orjson.loads(measures or b"{}"),
            counts=orjson.loads(counts or b"{}"),
            captured=1.0 if captured is None else captured,
            redraws=orjson.loads(redraws or b"[]"),
            more=orjson.loads(unread or b"{}"),
        )
        yield CompletedCell(place, written, failure is not None)


def _line(
    place: int,
    id: str,
    names: tuple[str, str, str, str, str],
    side: int,
    draw: int,
    *,
    failure: Failure | None = None,
    probs: Sequence[float] = (),
    measures: Mapping[str, Scalar] = {},
    counts: Mapping[str, int] = {},
    captured: float = 1.0,
    redraws: Sequence[Sequence[float]] = (),
    more: Mapping[str, Any] = {},
) -> bytes:
    """names: of protocol, agent and judge, the problem's id and the side's label. more: further
    fields, written last."""
    fields: dict[str, Any] = {
        "place": place,
        "cell": id,
        **dict(zip(("protocol", "agent", "judge", "problem", "side"), names, strict=True)),
        "at": side,
        "draw": draw,
    }
    if failure is not None and failure.kind == NOT_RUN:
        fields["not_run"] = failure.message
    elif failure is not None:
        fields["failure"] = structs.asdict(failure)
    else:
        fields["probs"] = probs
        if measures:
            fields["measures"] = measures
        if counts:
            fields["counts"] = counts
        if captured < 1:
            fields["captured"] = captured
        if redraws:
            fields["redraws"] = redraws
        fields |= more
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def read_outcome(line: bytes) -> OutcomeRecord:
    """ValueError if the line is no outcome."""
    try:
        record = _records.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ValueError(f"no outcome of a cell: {exc}") from exc
    if (record.probs is not None) + (record.failure is not None) + bool(record.not_run) != 1:
        raise ValueError("no outcome of a cell: it has neither a verdict nor a failure, or both")
    for probs in (record.probs, *record.redraws):
        if probs is not None and not are_probabilities(probs):
            raise ValueError(f"no outcome of a cell: {list(probs)} are no probabilities")
    return record


def _failure(kind: str | None, cause: str | None) -> Failure | None:
    """What a cell of the record failed at, or why it was not run."""
    if kind is not None:
        return Failure(kind, *orjson.loads(cause or "[]"))
    return None if cause is None else Failure(NOT_RUN, cause)


_records = msgspec.json.Decoder(OutcomeRecord)
