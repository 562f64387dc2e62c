"""Pictures of a run by name, for a painter or a table."""

from collections.abc import Sequence
from dataclasses import replace

from ...display.table import as_csv
from ...errors import UsageError
from ...run.listing import Parts
from ...run.reader import RunReader
from ...run.sources import origins
from ..findings.chart import Chart
from ..findings.finding import brackets
from ..reports.groups import grouping
from ..scoring.estimate import Interval
from ..scoring.worlds import BETAS
from .data import Forest, ForestLine, Picture
from .kinds import AVERAGED, KINDS, ScoredRun, averaged, compared
from .painting import has_intervals

ALL_KINDS = (*KINDS, "compare")

ALL = Parts()

CURVE = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Betas of the curve of JSE."""

FEW_PROBLEMS = 30
"""Problems below which means without intervals are not drawn."""

MAX_LINES = 60
"""Rows of `asd` and `lift` that are drawn; of more, the averages of their groups."""


def pictured(
    run: RunReader,
    kind: str,
    score: str = "brier",
    other: RunReader | None = None,
    parts: Parts = ALL,
    by: Sequence[str] = (),
    interval: Interval | None = None,
) -> Picture:
    """The figures of a picture. other: the second run, for `compare`. by: dimensions of rows, of
    whose groups the averages are drawn. UsageError with a remedy."""
    if by and kind not in AVERAGED:
        raise UsageError(f"{kind}: --by is for {', '.join(AVERAGED)}")
    if kind not in ALL_KINDS:
        raise UsageError(f"{kind!r} is no kind of picture; there are {', '.join(ALL_KINDS)}")
    if score not in run.scores:
        raise UsageError(f"{score!r} is no score of this run; there are {', '.join(run.scores)}")
    if kind == "compare":
        if other is None:
            raise UsageError("compare: it takes two runs")
        return compared(run, other, score, interval)
    scored = ScoredRun(run, score, CURVE if kind == "jse" else BETAS, parts, interval)
    if not by and kind in ("asd", "lift") and len(scored.numbers) > MAX_LINES:
        by = grouping(scored.results)
    return _saying(kind, averaged(kind, by, scored) if by else KINDS[kind](scored))


def _saying(kind: str, picture: Picture) -> Picture:
    """The picture. UsageError for one that says nothing."""
    why = ""
    if isinstance(picture, Chart) and not picture.square:
        across = {point.x for series in picture.series for point in series.points}
        if len(across) < 2:
            why = f"all of its points stand at {picture.x} {min(across, default=0.0):g}"
    elif isinstance(picture, Forest) and not any(line.interval for line in picture.lines):
        most = max((line.n for line in picture.lines), default=0)
        if most < FEW_PROBLEMS:
            why = f"no line has an interval, at n = {most}"
    if why:
        raise UsageError(f"{kind}: the picture would say nothing: {why}")
    return picture


def ordered(picture: Picture, order: str) -> Picture:
    """A picture with its lines by `mean`, from the highest, or by `name`; else as they stand."""
    if not isinstance(picture, Forest) or order not in ("mean", "name"):
        return picture

    def key(line: ForestLine) -> tuple[float, str]:
        name = f"{line.protocol} {line.agent} {line.judge}"
        return (-(line.mean if line.mean is not None else -99.0) if order == "mean" else 0.0, name)

    return replace(picture, lines=tuple(sorted(picture.lines, key=key)))


def caption(run: RunReader, picture: Picture) -> str:
    """What a reader of a paper has to know: how many problems, which intervals, whose verdicts."""
    told = [f"{run.manifest.name}, n = {len(run.problems):,} problems"]
    if isinstance(picture, Forest):
        told.append(brackets(line.estimate for line in picture.lines))
    elif isinstance(picture, Chart) and has_intervals(picture):
        points = [point for series in picture.series for point in series.points]
        told.append(brackets(its for point in points for its in (point.of_x, point.of_y)))
    told += origins(run.sweep, run.folder)
    return ". ".join(told) + "."


def data_of(picture: Picture, come: Sequence[str] = ()) -> str:
    """The figures of a picture as CSV. come: where they come from, in a last column."""
    head, rows = picture.table()
    last = "; ".join(come)
    lines = [["" if cell is None else cell for cell in (*row, last)] for row in rows]
    return as_csv((*head, "origins"), lines)
