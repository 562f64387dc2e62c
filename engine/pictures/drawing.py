"""The kinds of pictures of a run, by name: their figures for a painter or a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from ...protocols.scoring.worlds import BETAS
from ..decisions.pivot import pivot
from ..decisions.rows import read_rows
from ..display.table import as_csv
from ..errors import UsageError
from ..runs.lookup import Parts
from ..runs.reader import RunReader
from .by_role import pressure_chart, ratings_forest, scaling_chart
from .by_row import asd, asd_jse, gap, jse, lift
from .by_setting import bestof, frontier_chart, rounds, trend_chart
from .by_verdict import calibration_chart, heat, worlds_chart
from .charts import Chart, Heat
from .comparison import ComparedLine, ComparisonForest, comparison_forest
from .data import Forest, ForestLine
from .scored_run import ScoredRun

Picture: TypeAlias = Forest | Chart | Heat | ComparisonForest
Line = TypeVar("Line", ForestLine, ComparedLine)

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


AVERAGED = ("asd", "lift")
"""Kinds that can be drawn by group in place of by row."""


def pictured(
    run: RunReader,
    kind: str,
    score: str = "brier",
    other: RunReader | None = None,
    parts: Parts = ALL,
    by: Sequence[str] = (),
) -> Picture:
    """The figures of a picture. other: the second run, for `compare`. by: dimensions of rows, of
    whose groups the averages are drawn. UsageError with a remedy."""
    if by:
        if kind not in AVERAGED:
            raise UsageError(f"{kind}: --by is for {' and '.join(AVERAGED)}")
        return averaged(run, kind, score, by)
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


def averaged(run: RunReader, kind: str, score: str, by: Sequence[str]) -> Forest:
    """ASD or lift, averaged over the rows of each group."""
    lines = []
    for line in pivot(read_rows(run), by, score):
        estimate = line.asd if kind == "asd" else line.lift
        if estimate is not None:
            name, *others = (value or "–" for value in line.group)
            lines.append(
                ForestLine(line.rows[0], name, " · ".join(others), "", estimate.n, estimate)
            )
    if not lines:
        raise UsageError(f"{kind}: no group of rows by {', '.join(by)} has a figure yet")
    what = "agent score difference" if kind == "asd" else "lift over the naive judge"
    return Forest(f"{what}, mean of rows", score, tuple(lines))


def relabelled(picture: Picture, labels: Mapping[str, str]) -> Picture:
    """A picture whose names are written as `labels` says: of protocols, agents, judges and rows."""

    def new(name: str) -> str:
        if name in labels:
            return labels[name]
        return " · ".join(labels.get(part, part) for part in name.split(" · "))

    if isinstance(picture, Chart):
        series = (replace(each, name=new(each.name)) for each in picture.series)
        return replace(picture, series=tuple(series))
    if isinstance(picture, Heat):
        return replace(picture, rows=tuple(map(new, picture.rows)))

    def renamed(line: Line) -> Line:
        return replace(
            line, protocol=new(line.protocol), agent=new(line.agent), judge=new(line.judge)
        )

    if isinstance(picture, Forest):
        return replace(picture, lines=tuple(map(renamed, picture.lines)))
    return replace(picture, lines=tuple(map(renamed, picture.lines)))


def ordered(picture: Picture, order: str) -> Picture:
    """A picture with its lines by `mean`, from the highest, or by `name`; else as they stand."""
    if not isinstance(picture, Forest | ComparisonForest) or order not in ("mean", "name"):
        return picture

    def key(line: ForestLine | ComparedLine) -> tuple[float, str]:
        name = f"{line.protocol} {line.agent} {line.judge}"
        return (-(line.mean if line.mean is not None else -99.0) if order == "mean" else 0.0, name)

    if isinstance(picture, Forest):
        return replace(picture, lines=tuple(sorted(picture.lines, key=key)))
    return replace(picture, lines=tuple(sorted(picture.lines, key=key)))


def caption(run: RunReader, picture: Picture) -> str:
    """What a reader of a paper has to know: how many problems, which intervals, whose verdicts."""
    told = [f"{run.manifest.name}, n = {len(run.problems):,} problems"]
    if isinstance(picture, Forest | ComparisonForest):
        estimates = [line.estimate for line in picture.lines if line.estimate]
        method = next((each.method for each in estimates if each.method), "")
        told.append("95% intervals over problems" + (f" ({method})" if method else ""))
    elif isinstance(picture, Chart) and any(p.interval for s in picture.series for p in s.points):
        told.append("95% intervals over problems")
    models = [model for model, _ in run.sweep.roles]
    if any(model.startswith("sim/") for model in models):
        every = all(model.startswith("sim/") for model in models)
        told.append("SIMULATED models" if every else "some models are SIMULATED")
    return ". ".join(told) + "."


def data_of(picture: Picture) -> str:
    """The figures of a picture as CSV."""
    head, rows = picture.table()
    return as_csv(head, [["" if cell is None else cell for cell in row] for row in rows])
