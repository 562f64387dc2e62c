"""Pictures with one line, curve or point per row of the report."""

from dataclasses import replace

from ...protocols.scoring.ratios import gap_recovered
from ..errors import UsageError
from .charts import Chart, ChartPoint, Series, drawable
from .data import Forest, ForestLine, forest_of
from .scored_run import ScoredRun


def asd(run: ScoredRun) -> Forest:
    forest = forest_of(run.results)
    fit = {number for number, _ in run.rows}
    return replace(forest, lines=tuple(line for line in forest.lines if line.row in fit))


def lift(run: ScoredRun) -> Forest:
    forest = asd(run)
    lines = tuple(
        ForestLine(each.row, each.protocol, each.agent, each.judge, each.n, each.lift)
        for each in forest.lines
        if each.lift is not None and not run.sweep.rows[each.row].naive
    )
    if not lines:
        raise UsageError("lift: no row has a naive judge beside it; add naive_judge to the sweep")
    return Forest("lift over the naive judge", forest.score, lines)


def gap(run: ScoredRun) -> Forest:
    """Share of the gap between the naive judge and one who reads the passage that is recovered."""
    naive, open_book = run.baselines()
    lines = []
    for number, row in run.rows:
        samples = run.results.samples[number]
        judge = row.judge_apart
        if samples is None or row.naive:
            continue
        if judge not in naive or judge not in open_book:
            continue
        if recovered := gap_recovered(samples.asd, naive[judge], open_book[judge]):
            lines.append(ForestLine(number, row.kind, row.agent, row.judge, recovered.n, recovered))
    if not lines:
        raise UsageError(
            "gap: it takes two naive judges that differ in reads_passage alone; with both, the "
            "sweep tells how much of the gap between them a protocol recovers"
        )
    return Forest("share of the gap recovered", run.results.score, tuple(lines))


def jse(run: ScoredRun) -> Chart:
    """Judge score expected (JSE) over beta."""
    series = []
    for number, row in run.rows:
        points = tuple(
            ChartPoint(f"{beta:g}", beta, each.value, each.interval)
            for beta, each in run.results.rows[number].jse.items()
            if beta != float("inf")
        )
        if points:
            series.append(Series(run.label(row), points, joined=True))
    return Chart(
        run.title("jse"),
        "beta: inverse greed of the agent",
        "judge score expected",
        drawable("jse", series),
    )


def asd_jse(run: ScoredRun) -> Chart:
    by_protocol: dict[str, list[ChartPoint]] = {}
    for number, _ in run.rows:
        row = run.results.rows[number]
        if row.asd and 1.0 in row.jse:
            its = row.jse[1.0]
            name = " · ".join(filter(None, (row.agent, row.judge)))
            point = ChartPoint(name, row.asd.value, its.value, its.interval, row.asd.interval)
            by_protocol.setdefault(row.kind, []).append(point)
    series = [Series(kind, tuple(points)) for kind, points in by_protocol.items()]
    return Chart(
        run.title("asd-jse"),
        "agent score difference",
        "judge score expected (beta 1)",
        drawable("asd-jse", series),
    )
