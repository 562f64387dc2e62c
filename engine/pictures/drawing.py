"""The kinds of pictures of a run, by name: their figures for a painter or a table."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ...protocols.scoring.worlds import BETAS
from ..display.table import as_csv
from ..errors import UsageError
from ..runs.lookup import Parts
from ..runs.reader import RunReader
from .by_role import pressure_chart, ratings_forest, scaling_chart
from .by_row import asd, asd_jse, gap, jse, lift
from .by_setting import bestof, frontier_chart, rounds, trend_chart
from .by_verdict import calibration_chart, heat, worlds_chart
from .charts import Chart, Heat
from .comparison import ComparisonForest, comparison_forest
from .data import Forest
from .scored_run import ScoredRun

Picture: TypeAlias = Forest | Chart | Heat | ComparisonForest

KINDS: Mapping[str, Callable[[ScoredRun], Picture]] = {
    "asd": asd,
    "lift": lift,
    "worlds": worlds_chart,
    "jse": jse,
    "asd-jse": asd_jse,
    "calibration": calibration_chart,
    "rounds": rounds,
    "trend": trend_chart,
    "gap": gap,
    "bestof": bestof,
    "frontier": frontier_chart,
    "heat": heat,
    "ratings": ratings_forest,
    "scaling": scaling_chart,
    "pressure": pressure_chart,
}
"""By the name that `oversight plot --kind` takes. `compare` stands beside them: it takes two."""

ALL_KINDS = (*KINDS, "compare")

ALL = Parts()

CURVE = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Betas of the curve of JSE."""


def pictured(
    run: RunReader,
    kind: str,
    score: str = "brier",
    other: RunReader | None = None,
    parts: Parts = ALL,
) -> Picture:
    """The figures of a picture. other: the second run, for `compare`. UsageError with a remedy."""
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
