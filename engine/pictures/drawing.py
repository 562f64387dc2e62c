"""One picture of a run, by kind, as a figure and as a table."""

from oversight.engine.display.table import as_csv
from oversight.engine.errors import UsageError
from oversight.engine.pictures.comparison import comparison_forest
from oversight.engine.pictures.kinds import KINDS, Picture
from oversight.engine.pictures.opened import OpenedRun
from oversight.engine.pictures.scored_run import ScoredRun
from oversight.engine.runs.lookup import Parts
from oversight.protocols.scoring.worlds import BETAS

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
        found = comparison_forest(run, other, score)
        if not found.lines:
            raise UsageError(
                f"compare: no row is in both {run.folder} and {other.folder}, with two problems "
                "that have a verdict in every world"
            )
        return found
    if kind not in KINDS:
        raise UsageError(f"{kind!r} is no kind of picture; there are {', '.join(ALL_KINDS)}")
    if score not in run.scores:
        raise UsageError(f"{score!r} is no score of this run; there are {', '.join(run.scores)}")
    scored = ScoredRun(run, score, CURVE if kind == "jse" else BETAS, parts)
    return KINDS[kind](scored)


def data_of(picture: Picture) -> str:
    """The figures of a picture as CSV."""
    head, rows = picture.table()
    return as_csv(head, [["" if cell is None else cell for cell in row] for row in rows])
