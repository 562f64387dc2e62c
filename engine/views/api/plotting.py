"""Pictures of runs from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.pictures.kinds import caption, pictured
from ...run.listing import Parts, folder_named
from ...run.reader import RunReader
from .library import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(
    run: Report | Path | str,
    kind: str = "asd",
    *,
    other: Report | Path | str | None = None,
    score: str = "brier",
    style: str = "paper",
    protocol: str = "",
    agent: str = "",
    judge: str = "",
    by: Sequence[str] = (),
    captioned: bool = True,
    store: Path | str | None = None,
) -> "Figure":
    """A picture of a run as a matplotlib Figure, to be edited and saved.

    run: a report, or a run folder. kind: asd, lift, worlds, jse, calibration, trend,
    frontier, or compare with an `other` run.
    style: paper (two columns), column or slides. protocol, agent, judge: parts of the names of the
    rows to show. store: where the replies are, if not in the run's own store; only `frontier` reads
    it. by: with asd, lift and jse, what rows are averaged by. captioned: with a line that says n,
    the intervals and whether models are simulated. Raises: UsageError, with the remedy, for a
    picture that cannot be drawn.
    """
    from ...analysis.pictures.painting import draw

    parts = Parts(protocol, agent, judge)

    with _opened(run, store) as first:
        if other is None:
            picture = pictured(first, kind, score, None, parts, by)
            return draw(picture, style, caption(first, picture) if captioned else "")
        with _opened(other, store) as second:
            picture = pictured(first, kind, score, second)
            return draw(picture, style, caption(first, picture) if captioned else "")


def _opened(run: Report | Path | str, store: Path | str | None) -> RunReader:
    if isinstance(run, (str, Path)):
        return RunReader(folder_named(str(run)), store)
    return RunReader(run.folder, store or run.store)
