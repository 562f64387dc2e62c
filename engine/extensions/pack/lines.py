"""Cells as lines of JSON, in the order of the sweep: the form in which a run is handed on."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ....protocols.doubts import UnreadReply
from ....protocols.question import Problem
from ....protocols.transcript import Failure, Judgement, Scalar, Transcript, Turn, Verdict
from ...errors import RunFolderError
from ...run.reader import RunReader
from ...run.record.values import CellEnd, NotRun, RecordedCall, RecordedCell, RecordedJudgement


class CellLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cell without its question, which stands among the problems."""

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
    doubts: tuple[UnreadReply, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(CellLine)
_OF_A_CELL = ("place", "id", "row", "problem", "side", "draw", "calls", "counts", "unread")
_OF_A_VERDICT = ("probs", "judgements", "measures", "redraws", "bounds", "doubts")


def cells_of(run: RunReader) -> Iterator[RecordedCell]:
    """Every cell that has an outcome, in the order of the sweep; none that a person took back."""
    for number in range(len(run.problems)):
        # As recorded: what a checker has found since is not part of the record.
        cells = {cell.place: cell for cell in run.tables.cells(run.sweep.span(number))}
        yield from (cells[place] for place in sorted(run.records(cells)))


def cell_line(cell: RecordedCell) -> bytes:
    """The line of a cell, with its newline."""
    end = cell.outcome
    told = {name: getattr(cell, name) for name in _OF_A_CELL} | {"believed": cell.judgements}
    if isinstance(end, Failure):
        told["failure"] = end
    elif isinstance(end, NotRun):
        told["not_run"] = end.reason
    else:
        told |= {name: getattr(end, name) for name in _OF_A_VERDICT}
        told["turns"] = end.transcript.turns
    return _encoder.encode(CellLine(**told)) + b"\n"


def read_cells(lines: Iterable[bytes], problems: tuple[Problem, ...]) -> Iterator[RecordedCell]:
    """Cells from their lines. RunFolderError, naming the line, for one that is none."""
    for number, line in enumerate(lines, 1):
        try:
            cell = _decoder.decode(line)
            told = {name: getattr(cell, name) for name in _OF_A_CELL}
            end = _end(cell, problems[cell.problem])
            yield RecordedCell(outcome=end, judgements=cell.believed, **told)
        except (msgspec.DecodeError, ValueError, IndexError) as exc:
            raise RunFolderError(f"line {number} of the record: {exc}") from exc


def _end(cell: CellLine, problem: Problem) -> CellEnd:
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
