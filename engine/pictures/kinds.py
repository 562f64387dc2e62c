"""The kinds of pictures of a run, by name, for whichever painter."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from oversight.engine.pictures.by_role import pressure_chart, ratings_forest, scaling_chart
from oversight.engine.pictures.by_row import asd, asd_jse, gap, jse, lift
from oversight.engine.pictures.by_setting import bestof, frontier_chart, rounds, trend_chart
from oversight.engine.pictures.by_verdict import calibration_chart, heat, worlds_chart
from oversight.engine.pictures.charts import Chart, Heat
from oversight.engine.pictures.comparison import ComparisonForest
from oversight.engine.pictures.data import Forest
from oversight.engine.pictures.scored_run import ScoredRun

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
