"""Pictures with one line, curve or point per row of the report."""

from dataclasses import replace

import numpy as np

from ...protocols.scoring.ratios import fieller
from ...protocols.scoring.sample import Sample
from ...protocols.scoring.statistics import RESAMPLES
from ..errors import UsageError
from .charts import Chart, ChartPoint, Series, drawable
from .data import Forest, ForestLine, Span, forest_of
from .scored_run import ScoredRun


def asd(run: ScoredRun) -> Forest:
    forest = forest_of(run.results)
    fit = {number for number, _ in run.rows}
    return replace(forest, lines=tuple(line for line in forest.lines if line.row in fit))


def lift(run: ScoredRun) -> Forest:
    forest = asd(run)
    lines = tuple(
        ForestLine(
            each.row, each.protocol, each.agent, each.judge, each.n, each.lift, each.lift_interval
        )
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
        if recovered := _recovered(samples.asd, naive[judge], open_book[judge]):
            mean, interval, n = recovered
            lines.append(ForestLine(number, row.kind, row.agent, row.judge, n, mean, interval))
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
            ChartPoint(f"{beta:g}", beta, each.mean, each.interval)
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
            point = ChartPoint(name, row.asd.mean, its.mean, its.interval, row.asd.interval)
            by_protocol.setdefault(row.kind, []).append(point)
    series = [Series(kind, tuple(points)) for kind, points in by_protocol.items()]
    return Chart(
        run.title("asd-jse"),
        "agent score difference",
        "judge score expected (beta 1)",
        drawable("asd-jse", series),
    )


def _recovered(
    protocol: Sample, naive: Sample, open_book: Sample
) -> tuple[float, Span | None, int] | None:
    """(protocol - naive) / (open book - naive), with Fieller's interval: both means are over the
    same resampled problems."""
    shared = [q for q in protocol.questions if q in naive.questions and q in open_book.questions]
    if not shared:
        return None
    columns = []
    for sample in (protocol, naive, open_book):
        value = dict(zip(sample.questions, sample.values, strict=True))
        columns.append([value[q] for q in shared])
    group = dict(zip(protocol.questions, protocol.clusters, strict=True))
    clusters = sorted({group[q] for q in shared})
    number = {key: n for n, key in enumerate(clusters)}
    members = np.array([number[group[q]] for q in shared])
    table = np.array(columns)
    sums = np.stack([np.bincount(members, weights=line, minlength=len(clusters)) for line in table])
    total = sums.sum(axis=1)
    if abs(total[2] - total[1]) < 1e-9 * len(shared):
        return None
    mean = float((total[0] - total[1]) / (total[2] - total[1]))
    drawn = np.random.default_rng(0).integers(len(clusters), size=(RESAMPLES, len(clusters)))
    resampled = sums[:, drawn].sum(axis=2)
    if len(clusters) < 2:
        return mean, None, len(shared)
    over, gap = resampled[0] - resampled[1], resampled[2] - resampled[1]
    sizes = np.bincount(members, minlength=len(clusters))[drawn].sum(axis=1)
    ratio = fieller(
        float(total[0] - total[1]) / len(shared),
        float(total[2] - total[1]) / len(shared),
        np.cov(np.stack((over / sizes, gap / sizes))),
        degrees=len(clusters) - 1,
    )
    return mean, ratio.interval, len(shared)
