"""A record as lines of JSON, in the order of the sweep: the form in which it is handed on.

`said` is what was said and believed, equal to the byte for two runs of one sweep; `took` is what
it cost, cell by cell, which need not be.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from ....cache.reply import Outcome, ToolCall
from ....protocols.doubts import Doubt
from ....protocols.question import Problem
from ....protocols.transcript import Failure, Judgement, Scalar, Transcript, Turn, Verdict
from ...errors import RunFolderError
from .values import CallCost, CellEnd, NotRun, RecordedCall, RecordedCell, RecordedJudgement


class SaidVerdict(msgspec.Struct, frozen=True, tag="verdict", omit_defaults=True):
    probs: tuple[float, ...]
    turns: tuple[Turn, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    measures: tuple[tuple[str, Scalar], ...] = ()
    redraws: tuple[tuple[float, ...], ...] = ()
    bounds: tuple[tuple[float, float], ...] = ()
    doubts: tuple[Doubt, ...] = ()


class SaidFailure(msgspec.Struct, frozen=True, tag="failed"):
    failure: Failure


class SaidNotRun(msgspec.Struct, frozen=True, tag="not run"):
    reason: str


class SaidCall(msgspec.Struct, frozen=True, omit_defaults=True):
    address: str
    model: str
    role: str = ""
    seat: str = ""
    heard: int = 0
    draw: tuple[int, ...] = ()
    text: str = ""
    outcome: Outcome = "ok"
    tool_calls: tuple[ToolCall, ...] = ()
    identity: str = ""
    reasoning: str = ""
    settings: str = ""


End: TypeAlias = SaidVerdict | SaidFailure | SaidNotRun


class SaidCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of what was said: one cell."""

    place: int
    id: str
    row: int
    problem: int
    side: int
    draw: int
    end: End
    calls: tuple[SaidCall, ...] = ()
    believed: tuple[RecordedJudgement, ...] = ()
    counts: Mapping[str, int] = {}
    unread: Mapping[str, int] = {}


class TookCell(msgspec.Struct, frozen=True):
    """A line of what it took: the calls of one cell, in the order of `SaidCell.calls`."""

    place: int
    calls: tuple[CallCost, ...]


_encoder = msgspec.json.Encoder()
_said = msgspec.json.Decoder(SaidCell)
_took = msgspec.json.Decoder(TookCell)


def said(cell: RecordedCell) -> bytes:
    """The line of what was said in a cell, with its newline."""
    calls = tuple(
        SaidCall(
            *(call.address, call.model, call.role, call.seat, call.heard, call.draw, call.text),
            *(call.outcome, call.tool_calls, call.cost.identity, call.reasoning, call.settings),
        )
        for call in cell.calls
    )
    line = SaidCell(
        *(cell.place, cell.id, cell.row, cell.problem, cell.side, cell.draw, _end(cell.outcome)),
        *(calls, cell.judgements, cell.counts, cell.unread),
    )
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
            yield _recorded(cell, spent, problems)
        except (msgspec.DecodeError, ValueError, IndexError) as exc:
            raise RunFolderError(f"line {number} of the record: {exc}") from exc


def _end(outcome: CellEnd) -> End:
    if isinstance(outcome, Failure):
        return SaidFailure(outcome)
    if isinstance(outcome, NotRun):
        return SaidNotRun(outcome.reason)
    return SaidVerdict(
        outcome.probs,
        outcome.transcript.turns,
        outcome.judgements,
        outcome.measures,
        outcome.redraws,
        outcome.bounds,
        outcome.doubts,
    )


def _recorded(cell: SaidCell, spent: TookCell, problems: tuple[Problem, ...]) -> RecordedCell:
    problem = problems[cell.problem]
    if not 0 <= cell.side < len(problem.values):
        raise ValueError(f"{problem.id} has no answer {cell.side}")
    end: CellEnd
    match cell.end:
        case SaidFailure(failure):
            end = failure
        case SaidNotRun(reason):
            end = NotRun(reason)
        case SaidVerdict(probs, turns, judgements, measures, redraws, bounds, doubts):
            if len(probs) != len(problem.values):
                raise ValueError(f"{len(probs)} probabilities of {len(problem.values)} answers")
            transcript = Transcript(problem.question, turns)
            end = Verdict(
                probs, transcript, judgements, measures, redraws, bounds=bounds, doubts=doubts
            )
    calls = tuple(
        RecordedCall(
            *(call.address, call.model, call.role, call.seat, call.heard, call.draw, call.text),
            *(call.outcome, call.tool_calls, cost, call.reasoning, call.settings),
        )
        for call, cost in zip(cell.calls, spent.calls, strict=True)
    )
    return RecordedCell(
        *(cell.place, cell.id, cell.row, cell.problem, cell.side, cell.draw, end, calls),
        *(cell.believed, cell.counts, cell.unread),
    )
