"""Cells as lines of JSON, in the order of the sweep: the form in which a run is handed on.

`said` is what was said and believed, equal to the byte for two runs of one sweep; `took` is what
it cost, cell by cell, which need not be.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from ....protocols.doubts import Doubt
from ....protocols.question import Problem
from ....protocols.transcript import Failure, Judgement, Scalar, Transcript, Turn, Verdict
from ...errors import RunFolderError
from ...run.record.values import (
    CallCost,
    CellEnd,
    NotRun,
    RecordedCall,
    RecordedCell,
    RecordedJudgement,
)


class SaidCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of what was said: one cell, without its question, and without what its calls took."""

    place: int
    id: str
    row: int
    problem: int
    side: int
    draw: int
    calls: tuple[RecordedCall, ...] = ()
    believed: tuple[RecordedJudgement, ...] = ()
    counts: Mapping[str, int] = {}
    unread: Mapping[str, int] = {}
    failure: Failure | None = None
    not_run: str | None = None
    probs: tuple[float, ...] = ()
    """Of a verdict, as is all that follows."""
    turns: tuple[Turn, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    measures: tuple[tuple[str, Scalar], ...] = ()
    redraws: tuple[tuple[float, ...], ...] = ()
    bounds: tuple[tuple[float, float], ...] = ()
    doubts: tuple[Doubt, ...] = ()


class TookCell(msgspec.Struct, frozen=True):
    """A line of what it took: the calls of one cell, in the order of `SaidCell.calls`."""

    place: int
    calls: tuple[CallCost, ...]


_encoder = msgspec.json.Encoder()
_said = msgspec.json.Decoder(SaidCell)
_took = msgspec.json.Decoder(TookCell)
_OF_A_VERDICT = ("probs", "judgements", "measures", "redraws", "bounds", "doubts")


def said(cell: RecordedCell) -> bytes:
    """The line of what was said in a cell, with its newline."""
    end = cell.outcome
    calls = tuple(replace(call, cost=CallCost(call.cost.identity)) for call in cell.calls)
    line = SaidCell(
        *(cell.place, cell.id, cell.row, cell.problem, cell.side, cell.draw),
        *(calls, cell.judgements, cell.counts, cell.unread),
    )
    if isinstance(end, Failure):
        line = replace(line, failure=end)
    elif isinstance(end, NotRun):
        line = replace(line, not_run=end.reason)
    else:
        told = {name: getattr(end, name) for name in _OF_A_VERDICT}
        line = replace(line, turns=end.transcript.turns, **told)
    return _encoder.encode(line) + b"\n"


def took(cell: RecordedCell) -> bytes:
    """The line of what a cell took, with its newline."""
    return _encoder.encode(TookCell(cell.place, tuple(call.cost for call in cell.calls))) + b"\n"


def read_cells(
    said_lines: Iterable[bytes], took_lines: Iterable[bytes], problems: tuple[Problem, ...]
) -> Iterator[RecordedCell]:
    """Cells from both kinds of lines, which are of the same cells in the same order.

    RunFolderError, naming the line, for one that is none, and where they do not fit.
    """
    for number, (line, cost) in enumerate(zip(said_lines, took_lines, strict=True), 1):
        try:
            cell, spent = _said.decode(line), _took.decode(cost)
            if cell.place != spent.place or len(cell.calls) != len(spent.calls):
                raise ValueError("what was said and what it took are of different cells")
            took_each = zip(cell.calls, spent.calls, strict=True)
            yield RecordedCell(
                *(cell.place, cell.id, cell.row, cell.problem, cell.side, cell.draw),
                _end(cell, problems[cell.problem]),
                tuple(replace(call, cost=cost) for call, cost in took_each),
                *(cell.believed, cell.counts, cell.unread),
            )
        except (msgspec.DecodeError, ValueError, IndexError) as exc:
            raise RunFolderError(f"line {number} of the record: {exc}") from exc


def _end(cell: SaidCell, problem: Problem) -> CellEnd:
    if not 0 <= cell.side < len(problem.values):
        raise ValueError(f"{problem.id} has no answer {cell.side}")
    if cell.failure is not None:
        return cell.failure
    if cell.not_run is not None:
        return NotRun(cell.not_run)
    if len(cell.probs) != len(problem.values):
        raise ValueError(f"{len(cell.probs)} probabilities of {len(problem.values)} answers")
    told = {name: getattr(cell, name) for name in _OF_A_VERDICT}
    return Verdict(transcript=Transcript(problem.question, cell.turns), **told)
