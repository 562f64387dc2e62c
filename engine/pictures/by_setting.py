"""Pictures of a row's score over rounds, n of best-of-n, agent strength and cost."""

from collections.abc import Sequence

from ...protocols.scoring.inference import estimates
from ...protocols.scoring.trend import Configuration, Slope, trend
from ..decisions.calls import calls_of_run, sample_of
from ..decisions.costs import frontier, row_costs
from ..decisions.rows import read_rows
from ..errors import UsageError
from .charts import Chart, ChartPoint, Series, drawable
from .scored_run import ScoredRun


def rounds(run: ScoredRun) -> Chart:
    """ASD over rounds or turns, for rows that differ in nothing else."""
    return _over(run, "rounds", ("rounds", "turns"), "rounds or turns")


def bestof(run: ScoredRun) -> Chart:
    """ASD over the n of best-of-n, for rows that differ in nothing else."""
    return _over(run, "bestof", ("n",), "n of best-of-n", log_x=True)


def trend_chart(run: ScoredRun) -> Chart:
    """ASD over expected agent score, one point per agent, with the fitted line."""
    beta = 1.0 if 1.0 in run.results.betas else run.results.betas[0]
    place = run.results.betas.index(beta)
    lines: dict[tuple[str, str], list[Configuration]] = {}
    for number, row in run.rows:
        samples = run.results.samples[number]
        if row.agent and samples:
            its = Configuration(row.agent, samples.eas[place], samples.asd)
            lines.setdefault((row.kind, row.judge), []).append(its)
    series = []
    for (kind, judge), agents in lines.items():
        slope = trend(agents, same_elicitations=True)
        if isinstance(slope, Slope):
            points = sorted((_scattered(each) for each in agents), key=lambda point: point.x)
            fit = slope.slope, slope.intercept
            note = f"slope {slope.slope:+.2f} ± {slope.error:.2f}"
            series.append(Series(f"{kind} · {judge}", tuple(points), note=note, fit=fit))
    return Chart(
        run.title("trend"),
        f"expected agent score (beta {beta:g})",
        "agent score difference",
        drawable("trend", series, "it takes three agents or more under one protocol and judge"),
    )


def frontier_chart(run: ScoredRun) -> Chart:
    """What `oversight measure frontier` prints: lift, or ASD, over the cost of a problem, from the
    costs of a sample of problems."""
    rows, opened = read_rows(run.run), run.run
    calls = calls_of_run(opened, sample_of(opened.sweep))
    try:
        found = frontier(rows, row_costs(rows, calls, opened.prices), score=run.score)
    except UsageError as exc:
        raise UsageError(f"frontier: there is nothing to draw: {exc}") from exc
    by_protocol: dict[str, list[ChartPoint]] = {}
    best = []
    shown = {rows.names[number]: row for number, row in run.rows}
    for each in found.points:
        if row := shown.get(each.name):
            name = " · ".join(filter(None, (row.agent, row.judge)))
            point = ChartPoint(name, each.cost, each.worth.value, each.worth.interval)
            by_protocol.setdefault(row.kind, []).append(point)
            best += [ChartPoint(name, point.x, point.y)] if each.on_frontier else []
    series = [Series(kind, tuple(points)) for kind, points in by_protocol.items()]
    if best:
        series.append(Series("frontier", tuple(best), joined=True))
    unit = "$ a problem" if found.axis == "dollars" else "tokens a problem"
    what = "lift" if found.measure == "lift" else "agent score difference"
    shapes = drawable("frontier", series)
    return Chart(run.title("frontier"), unit, what, shapes, zero=True, log_x=True)


def _over(
    run: ScoredRun, kind: str, settings: Sequence[str], x: str, *, log_x: bool = False
) -> Chart:
    """ASD over a setting of the protocol or of its agent."""
    lines: dict[tuple[str, ...], list[ChartPoint]] = {}
    for number, row in run.rows:
        result = run.results.rows[number]
        if result.asd is None:
            continue
        for owner in (row.settings, row.agent_settings):
            for setting in settings:
                value = owner.get(setting)
                if isinstance(value, int) and not isinstance(value, bool):
                    name = run.without(row, setting, value)
                    point = ChartPoint(
                        f"{value}", float(value), result.asd.value, result.asd.interval
                    )
                    lines.setdefault(name, []).append(point)
        if kind == "bestof" and "n" not in row.agent_settings:
            point = ChartPoint("1", 1.0, result.asd.value, result.asd.interval)
            lines.setdefault((row.kind, row.agent, row.judge), []).append(point)
    series = [
        Series(
            " · ".join(filter(None, name)), tuple(sorted(points, key=lambda p: p.x)), joined=True
        )
        for name, points in lines.items()
        if len({point.x for point in points}) > 1
    ]
    return Chart(
        run.title(kind),
        x,
        "agent score difference",
        drawable(kind, series, f"no two rows differ in {' or '.join(settings)} alone"),
        zero=True,
        log_x=log_x,
    )


def _scattered(agent: Configuration) -> ChartPoint:
    x, y = estimates((agent.eas, agent.asd))
    return ChartPoint(agent.agent, x.value, y.value, y.interval, x.interval)
