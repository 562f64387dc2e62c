"""The kinds of pictures of a run, and the figures of each, for whichever painter."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import TypeAlias

import numpy as np

from oversight.engine.errors import UsageError
from oversight.engine.pictures.comparison import Comparison
from oversight.engine.pictures.data import Forest, Line, Rows, Span, forest_of
from oversight.engine.pictures.looked import Looked
from oversight.engine.reports.aggregate import RowSamples
from oversight.engine.sweeps.rows import Row
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.scoring.calibration import calibration as calibrated
from oversight.protocols.scoring.ratios import fieller, wilson
from oversight.protocols.scoring.sample import Sample
from oversight.protocols.scoring.statistics import estimates
from oversight.protocols.scoring.trend import Configuration, Slope, trend


@dataclass(frozen=True, slots=True)
class Point:
    """A point with what is not known of it."""

    label: str
    x: float
    y: float
    x_interval: Span | None = None
    y_interval: Span | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together, in order if `joined`."""

    name: str
    points: tuple[Point, ...]
    joined: bool = False
    note: str = ""
    """What the legend says beside the name."""
    fit: tuple[float, float] | None = None
    """(slope, intercept) of the line through the points."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Points and lines over two axes."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    diagonal: bool = False
    """Whether the line x = y means something."""
    zero: bool = False
    """Whether y = 0 means something."""
    log_x: bool = False
    square: bool = False
    """Whether both axes are probabilities."""

    HEAD = ("series", "point", "x", "y", "x low", "x high", "y low", "y high")

    def table(self) -> tuple[tuple[str, ...], Rows]:
        return self.HEAD, [
            (
                *(series.name, point.label, point.x, point.y),
                *(point.x_interval or (None, None)),
                *(point.y_interval or (None, None)),
            )
            for series in self.series
            for point in series.points
        ]


@dataclass(frozen=True, slots=True)
class Heat:
    """ASD of every problem under every row."""

    title: str
    problems: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    """Problems x rows; None where it is not known."""
    most: float
    """The end of the scale of colours to either side."""

    def table(self) -> tuple[tuple[str, ...], Rows]:
        rows: Rows = [
            (problem, *line) for problem, line in zip(self.problems, self.values, strict=True)
        ]
        return ("problem", *self.rows), rows


Picture: TypeAlias = Forest | Chart | Heat | Comparison


def asd(run: Looked) -> Forest:
    forest = forest_of(run.results)
    fit = {number for number, _ in run.rows}
    return replace(forest, lines=tuple(line for line in forest.lines if line.row in fit))


def lift(run: Looked) -> Forest:
    forest = asd(run)
    lines = tuple(
        Line(each.row, each.protocol, each.agent, each.judge, each.n, each.lift, each.lift_interval)
        for each in forest.lines
        if each.lift is not None and not isinstance(run.row(each.row).protocol, NaiveJudge)
    )
    if not lines:
        raise UsageError("lift: no row has a naive judge beside it; add naive_judge to the sweep")
    return Forest("lift over the naive judge", forest.score, lines)


def worlds(run: Looked) -> Chart:
    """P(argued answer) where the truth is argued, against where the lie is: a point a problem."""
    series = []
    for number, row in run.rows:
        points = tuple(
            Point(problem.id, false, true)
            for problem, probs in run.verdicts(number)
            if len(probs) == 2
            for true, false in [_argued(probs, problem.values)]
        )
        if points:
            series.append(Series(_name(run, row), points))
    return _chart(
        run,
        "worlds",
        "P(argued answer) where a lie is argued",
        "… where the truth is argued",
        series,
        diagonal=True,
        square=True,
    )


def jse(run: Looked) -> Chart:
    """Judge score expected over beta."""
    series = []
    for number, _ in run.rows:
        row = run.results.rows[number]
        points = tuple(
            Point(f"{beta:g}", beta, each.mean, None, each.interval)
            for beta, each in row.jse.items()
            if beta != float("inf")
        )
        if points:
            series.append(Series(_name(run, run.row(number)), points, joined=True))
    return _chart(run, "jse", "beta: inverse greed of the agent", "judge score expected", series)


def asd_jse(run: Looked) -> Chart:
    by_protocol: dict[str, list[Point]] = {}
    for number, _ in run.rows:
        row = run.results.rows[number]
        if row.asd and 1.0 in row.jse:
            its = row.jse[1.0]
            name = " · ".join(filter(None, (row.agent, row.judge)))
            point = Point(name, row.asd.mean, its.mean, row.asd.interval, its.interval)
            by_protocol.setdefault(run.row(number).kind, []).append(point)
    series = [Series(kind, tuple(points)) for kind, points in by_protocol.items()]
    return _chart(run, "asd-jse", "agent score difference", "judge score expected (beta 1)", series)


def calibration(run: Looked) -> Chart:
    """How often an answer is right of which the judge says so: ten bins, Wilson's intervals."""
    stated: dict[str, list[tuple[float, bool]]] = {}
    for number, row in run.rows:
        for problem, probs in run.verdicts(number):
            best = max(problem.values)
            for verdict in probs:
                stated.setdefault(row.judge, []).append((verdict[0], problem.values[0] == best))
    series = []
    for judge, pairs in stated.items():
        points = []
        for low in range(BINS):
            inside = [(p, right) for p, right in pairs if min(int(p * BINS), BINS - 1) == low]
            if inside:
                n, right = len(inside), sum(right for _, right in inside)
                mean = sum(p for p, _ in inside) / n
                points.append(Point(f"n = {n}", mean, right / n, None, wilson(right / n, n)))
        stated_by, was = np.array(pairs, dtype=np.float64).T
        error = calibrated(stated_by, was).debiased_error
        series.append(Series(judge, tuple(points), note=f"debiased error {error:.3f}"))
    return _chart(
        run,
        "calibration",
        "stated probability of answer A",
        "share of A that is right",
        series,
        diagonal=True,
        square=True,
    )


def rounds(run: Looked) -> Chart:
    """ASD over rounds or turns, for rows that differ in nothing else."""
    return _over(run, "rounds", ("rounds", "turns"), "rounds or turns")


def bestof(run: Looked) -> Chart:
    """ASD over the n of best-of-n, for rows that differ in nothing else."""
    return _over(run, "bestof", ("n",), "n of best-of-n", log_x=True)


def trend_chart(run: Looked) -> Chart:
    """ASD over expected agent score, a point an agent, with the line through them."""
    beta = 1.0 if 1.0 in run.results.betas else run.results.betas[0]
    place = run.results.betas.index(beta)
    lines: dict[tuple[str, str], list[Configuration]] = {}
    for number, row in run.rows:
        samples = run.results.samples[number]
        if row.agent and isinstance(samples, RowSamples):
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
    return _chart(
        run,
        "trend",
        f"expected agent score (beta {beta:g})",
        "agent score difference",
        series,
        why="it takes three agents or more under one protocol and judge",
    )


def gap(run: Looked) -> Forest:
    """Share of the gap between the naive judge and one who reads the passage that is recovered."""
    naive, open_book = run.baselines()
    lines = []
    for number, row in run.rows:
        samples = run.results.samples[number]
        judge = run.judge_key(row)
        if samples is None or judge not in naive or judge not in open_book:
            continue
        if isinstance(row.protocol, NaiveJudge):
            continue
        if recovered := _recovered(samples.asd, naive[judge], open_book[judge]):
            mean, interval, n = recovered
            lines.append(Line(number, row.kind, row.agent, row.judge, n, mean, interval))
    if not lines:
        raise UsageError(
            "gap: it takes two naive judges that differ in reads_passage alone; with both, the "
            "sweep tells how much of the gap between them a protocol recovers"
        )
    return Forest("share of the gap recovered", run.results.score, tuple(lines))


def frontier(run: Looked) -> Chart:
    """ASD against what a problem costs; without any price, against its output tokens."""
    every = run.costs()
    costs = [(every[number], run.results.rows[number]) for number, _ in run.rows]
    priced = any(cost.dollars for cost, _ in costs)
    by_protocol: dict[str, list[Point]] = {}
    for cost, row in costs:
        x = cost.dollars if priced else cost.output
        if row.asd and x:
            name = " · ".join(filter(None, (row.agent, row.judge)))
            point = Point(name, x, row.asd.mean, None, row.asd.interval)
            by_protocol.setdefault(row.kind, []).append(point)
    series = [Series(kind, tuple(points)) for kind, points in by_protocol.items()]
    points = sorted((p for s in series for p in s.points), key=lambda p: (p.x, -p.y))
    hull: list[Point] = []
    for point in points:
        if not hull or point.y > hull[-1].y:
            hull.append(Point(point.label, point.x, point.y))
    if hull:
        series.append(Series("frontier", tuple(hull), joined=True))
    unit = "$ a problem" if priced else "output tokens a problem"
    return _chart(run, "frontier", unit, "agent score difference", series, zero=True, log_x=True)


def heat(run: Looked) -> Heat:
    values = run.differences()
    order = np.argsort([_mean(line) for line in values], kind="stable")
    across = sorted((n for n, _ in run.rows), key=lambda n: -_mean(values[:, n]))
    return Heat(
        f"{run.name}: agent score difference by problem and row",
        tuple(run.sweep.problems[n].id for n in order),
        tuple(_name(run, run.sweep.rows[n]) for n in across),
        tuple(
            tuple(None if isnan(values[p, r]) else float(values[p, r]) for r in across)
            for p in order
        ),
        run.span,
    )


BINS = 10

KINDS: Mapping[str, Callable[[Looked], Picture]] = {
    "asd": asd,
    "lift": lift,
    "worlds": worlds,
    "jse": jse,
    "asd-jse": asd_jse,
    "calibration": calibration,
    "rounds": rounds,
    "trend": trend_chart,
    "gap": gap,
    "bestof": bestof,
    "frontier": frontier,
    "heat": heat,
}
"""By the name that `oversight plot --kind` takes. `compare` stands beside them: it takes two."""


def _chart(
    run: Looked,
    kind: str,
    x: str,
    y: str,
    series: Sequence[Series],
    *,
    diagonal: bool = False,
    square: bool = False,
    zero: bool = False,
    log_x: bool = False,
    why: str = "no problem has a verdict in every world yet",
) -> Chart:
    if not series:
        raise UsageError(f"{kind}: there is nothing to draw: {why}")
    return Chart(
        f"{run.name}: {kind} ({run.results.score})",
        x,
        y,
        tuple(series),
        diagonal,
        zero,
        log_x,
        square,
    )


def _over(run: Looked, kind: str, settings: Sequence[str], x: str, *, log_x: bool = False) -> Chart:
    """ASD over a setting of the protocol or of its agent."""
    lines: dict[tuple[str, ...], list[Point]] = {}
    for number, row in run.rows:
        result = run.results.rows[number]
        if result.asd is None:
            continue
        for owner in (row.protocol, getattr(row.protocol, "agent", None)):
            for setting in settings:
                value = getattr(owner, setting, None)
                if isinstance(value, int) and not isinstance(value, bool):
                    name = run.without(row, setting, value)
                    point = Point(
                        f"{value}", float(value), result.asd.mean, None, result.asd.interval
                    )
                    lines.setdefault(name, []).append(point)
        if kind == "bestof" and not hasattr(getattr(row.protocol, "agent", None), "n"):
            point = Point("1", 1.0, result.asd.mean, None, result.asd.interval)
            lines.setdefault((row.kind, row.agent, row.judge), []).append(point)
    series = [
        Series(
            " · ".join(filter(None, name)), tuple(sorted(points, key=lambda p: p.x)), joined=True
        )
        for name, points in lines.items()
        if len({point.x for point in points}) > 1
    ]
    return _chart(
        run,
        kind,
        x,
        "agent score difference",
        series,
        zero=True,
        log_x=log_x,
        why=f"no two rows differ in {' or '.join(settings)} alone",
    )


def _argued(probs: Sequence[tuple[float, ...]], values: Sequence[float]) -> tuple[float, float]:
    """P(argued answer) in the world of the better answer, and in the other one."""
    best = values.index(max(values))
    return probs[best][best], probs[1 - best][1 - best]


def _scattered(agent: Configuration) -> Point:
    x, y = estimates((agent.eas, agent.asd))
    return Point(agent.agent, x.mean, y.mean, x.interval, y.interval)


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


RESAMPLES = 10_000


def _mean(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("inf")


def _name(run: Looked, row: Row) -> str:
    return " · ".join(filter(None, run.told(row)))
