"""Pictures of the ratings of judges and agents, and of the effect of selection by a reward."""

from ...protocols.scoring.ratings import Rating
from ..decisions.pressure import row_pressure
from ..decisions.rows import read_rows
from ..decisions.scaling import Scaling, scaling
from ..errors import UsageError
from .charts import Chart, ChartPoint, Series, drawable
from .data import Forest, ForestLine
from .scored_run import ScoredRun

MEAN = 1_000.0
"""Of all ratings of a protocol: they are relative to each other."""

LIES = "worlds that argue for a wrong answer"


def ratings_forest(run: ScoredRun) -> Forest:
    """Ratings of judges and agents of each protocol, in points above the mean of all of them."""
    lines = []
    for found in _ratings(run):
        guards, houdinis = found.ratings.guards, found.ratings.houdinis
        lines += [_line(found, each, judge=_named(each, "judge")) for each in guards]
        lines += [_line(found, each, agent=_named(each, "agent")) for each in houdinis]
    return Forest("rating, points above the mean", LIES, tuple(lines))


def scaling_chart(run: ScoredRun) -> Chart:
    """Ratings over capability: the log odds of each model's own accuracy, unaided."""
    series = []
    for found in _ratings(run):
        for role, ratings in (("judges", found.ratings.guards), ("agents", found.ratings.houdinis)):
            points = [
                ChartPoint(
                    each.model,
                    found.capability[each.model],
                    each.rating - MEAN,
                    each.estimate.moved(-MEAN).interval,
                )
                for each in ratings
                if each.model in found.capability
            ]
            if points:
                points.sort(key=lambda point: point.x)
                name = f"{found.protocol}: {role}"
                series.append(Series(name, tuple(points)))
    return Chart(
        run.title("scaling"),
        "capability: log odds of the model's own accuracy",
        "rating, points above the mean",
        drawable(
            "scaling", series, "no agent or judge has a naive judge of its own model in the sweep"
        ),
        zero=True,
    )


def pressure_chart(run: ScoredRun) -> Chart:
    """Mean value of what best-of-n chooses by the reward; below 0, selection rewards lies."""
    rows = read_rows(run.run)
    series, why = [], "no row has an agent"
    for number, row in run.rows:
        if not row.agent:
            continue
        try:
            curve = row_pressure(rows, number, score=run.score)
        except UsageError as exc:
            why = str(exc)
            continue
        points = tuple(
            ChartPoint(f"{each.strength:g}", each.strength, each.value.value, each.value.interval)
            for each in curve.points
        )
        series.append(Series(run.label(row), points, joined=True))
    return Chart(
        run.title("pressure"),
        "n of best-of-n, by the judge's reward",
        "mean value of what is chosen",
        drawable("pressure", series, why),
        zero=True,
        log_x=True,
    )


def _ratings(run: ScoredRun) -> list[Scaling]:
    """Of every protocol that is shown and has agents. UsageError if there is none."""
    rows = read_rows(run.run)
    kinds = dict.fromkeys(row.kind for _, row in run.rows if row.agent)
    if not kinds:
        raise UsageError(f"ratings: no row of {run.run.folder} that fits has an agent")
    return [scaling(rows, kind) for kind in kinds]


def _line(found: Scaling, rating: Rating, *, agent: str = "", judge: str = "") -> ForestLine:
    above = rating.estimate.moved(-MEAN)
    return ForestLine(0, found.protocol, agent, judge, found.problems, above)


def _named(rating: Rating, role: str) -> str:
    """A model in its role; of one that won or lost all, that its rating is a bound."""
    return f"{rating.model} ({role}{', a bound alone' * rating.bounded})"
