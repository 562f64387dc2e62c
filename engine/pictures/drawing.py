"""One picture of a run: by the name of its kind, as a figure and as a table."""

from pathlib import Path
from typing import TYPE_CHECKING

from oversight.engine.display.table import as_csv
from oversight.engine.errors import UsageError
from oversight.engine.pictures.comparison import compare
from oversight.engine.pictures.kinds import KINDS, Picture
from oversight.engine.pictures.looked import Looked
from oversight.engine.pictures.opened import OpenedRun
from oversight.engine.runs.listing import folder_named
from oversight.engine.runs.lookup import Parts
from oversight.protocols.scoring.worlds import BETAS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from oversight.engine.api.library import Report

ALL_KINDS = (*KINDS, "compare")

ALL = Parts()

CURVE = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Betas of the curve of JSE."""


def pictured(
    run: OpenedRun,
    kind: str,
    score: str = "brier",
    other: OpenedRun | None = None,
    parts: Parts = ALL,
) -> Picture:
    """The figures of a picture. other: the second run, for `compare`. UsageError, with the mend."""
    if kind == "compare":
        if other is None:
            raise UsageError("compare: it takes two runs")
        found = compare(run.landed(score).results, other.landed(score).results)
        if not found.lines:
            raise UsageError(
                f"compare: no row with the same protocol, agent and judge has a problem both in "
                f"{run.folder} and in {other.folder}"
            )
        return found
    if kind not in KINDS:
        raise UsageError(f"{kind!r} is no kind of picture; there are {', '.join(ALL_KINDS)}")
    if score not in run.scores:
        raise UsageError(f"{score!r} is no score of this run; there are {', '.join(run.scores)}")
    looked = Looked(run, score, CURVE if kind == "jse" else BETAS, parts)
    return KINDS[kind](looked)


def data_of(picture: Picture) -> str:
    """The figures of a picture as CSV."""
    head, rows = picture.table()
    return as_csv(head, [["" if cell is None else cell for cell in row] for row in rows])


def plot(
    run: "Report | Path | str",
    kind: str = "asd",
    *,
    other: "Report | Path | str | None" = None,
    score: str = "brier",
    style: str = "paper",
    protocol: str = "",
    agent: str = "",
    judge: str = "",
    store: Path | None = None,
) -> "Figure":
    """A picture of a run as a matplotlib Figure, which may be changed and saved.

    run: a report, or a run folder. kind: asd, lift, worlds, jse, asd-jse, calibration, rounds,
    trend, gap, bestof, frontier, heat, or compare with an `other` run. style: paper (two columns),
    column or slides. protocol, agent, judge: parts of the names of the rows to show. store: of the
    replies, where it is not the run's own; `frontier` alone reads it. UsageError, with the mend,
    for what cannot be drawn.
    """
    from oversight.engine.pictures.figures import draw

    parts = Parts(protocol, agent, judge)

    with _opened(run, store) as first:
        if other is None:
            return draw(pictured(first, kind, score, None, parts), style)
        with _opened(other, store) as second:
            return draw(pictured(first, kind, score, second), style)


def _opened(run: "Report | Path | str", store: Path | None) -> OpenedRun:
    if isinstance(run, (str, Path)):
        return OpenedRun(folder_named(str(run)), store)
    return OpenedRun(run.folder, store or run.store, run.opened)
