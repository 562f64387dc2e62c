"""The kinds of figures of a run, by name, as values for a painter or a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import TypeAlias

from ....protocols.settings import unknown
from ...display.table import as_csv
from ...display.text import counted_between
from ...errors import UsageError
from ...providers.simulated import PREFIX
from ...run.listing import Parts
from ...run.reader import RunReader
from ..catalogue import analysis
from ..comparison import BY_DEFAULT, compare_rows
from ..findings.chart import Chart, Series, TableRows, point
from ..findings.finding import brackets, estimated
from ..reports.groups import grouping, pivot, trends
from ..reports.results import SCORE_NAMES, Results
from ..rows import RunRows, read_rows
from ..scoring.asd import BETAS
from ..scoring.estimate import Estimate, Interval
from ..scoring.inference import estimates

Span: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ForestLine:
    row: int
    """Its number in the sweep, from 0."""
    protocol: str
    agent: str
    judge: str
    estimate: Estimate | None
    """None where no problem is complete."""
    bounds: Span | None = None
    """Range of the mean over all results that failed or doubtful worlds could have had."""
    naive: float | None = None
    """The naive judge's figure, with the same judge."""
    apart: tuple[float, float, float | None] | None = None
    """For a comparison: (first mean, second mean, p adjusted for all rows); else None."""
    undecided: bool = False
    """Whether its contrast does not hold after the correction: its dot is hollow."""

    @property
    def n(self) -> int:
        """Problems that the figure is of."""
        return self.estimate.n if self.estimate else 0

    @property
    def mean(self) -> float | None:
        return self.estimate.value if self.estimate else None

    @property
    def interval(self) -> Span | None:
        """95%."""
        return self.estimate.interval if self.estimate else None


@dataclass(frozen=True, slots=True)
class Forest:
    """One measure with its intervals, one line per row."""

    measure: str
    """Axis label."""
    score: str
    lines: tuple[ForestLine, ...]

    def table(self) -> tuple[tuple[str, ...], TableRows]:
        compared = any(line.apart for line in self.lines)
        last = ("first", "second", "p") if compared else ("worst", "best", "naive")
        mean = "difference" if compared else "mean"
        return ("protocol", "agent", "judge", "n", mean, "low", "high", *last), [
            (
                *(line.protocol, line.agent, line.judge, line.n, line.mean),
                *(line.interval or (None, None)),
                *(line.apart or (*(line.bounds or (None, None)), line.naive)),
            )
            for line in self.lines
        ]


Picture: TypeAlias = Forest | Chart


@dataclass
class ScoredRun:
    """One run under one score, and the rows of it that a picture shows."""

    run: RunReader
    score: str = "brier"
    betas: tuple[float, ...] = BETAS
    parts: Parts = field(default_factory=Parts)
    interval: Interval | None = None

    @cached_property
    def rows(self) -> RunRows:
        return read_rows(self.run)

    @cached_property
    def results(self) -> Results:
        return self.rows.results(self.score, self.betas, self.interval)

    @cached_property
    def numbers(self) -> list[int]:
        """The rows that the picture shows, by their numbers in the sweep. UsageError if none."""
        rows = self.run.sweep.rows
        numbers = [n for n, row in enumerate(rows) if self.parts.fit(row)]
        if not numbers:
            names = "\n  ".join(" · ".join(row.shown_names) for row in rows[:20])
            raise UsageError(f"no row of {self.run.folder} fits: choose from\n  {names}")
        return numbers

    def titled(
        self, kind: str, chart: Chart, why: str = "no problem has a verdict in every world yet"
    ) -> Chart:
        """The chart with its score in the title. UsageError, with `why`, for an empty one."""
        if not chart.series:
            raise UsageError(f"{kind}: nothing to draw: {why}")
        return replace(chart, title=f"{chart.title} ({SCORE_NAMES[self.score]})")


UNSCORED = ("monitoring", "coverage", "proposals")
"""Analyses without a scoring rule."""


def _analysis(kind: str, run: ScoredRun) -> Chart:
    """The chart of an analysis; of its rows those that are shown."""
    names, source = {run.rows.names[n] for n in run.numbers}, analysis(kind)()
    try:
        parts = source.at_once(run.rows, run.numbers, run.score).parts
    except UsageError as exc:
        raise UsageError(f"{kind}: nothing to draw: {exc}") from exc
    (chart,) = (part.chart for part in parts if part.chart)
    series = chart.series
    if kind == "frontier":
        points = (tuple(p for p in one.points if p.label in names) for one in series)
        series = tuple(
            replace(one, points=dots) for one, dots in zip(series, points, strict=True) if dots
        )
    chart = replace(chart, title=source.title, series=series)
    if kind in UNSCORED and not series:
        raise UsageError(f"{kind}: nothing to draw: no row has verdicts on both kinds of problems")
    return chart if kind in UNSCORED else run.titled(kind, chart)


def asd(run: ScoredRun) -> Forest:
    rows = [(n, run.results.rows[n]) for n in run.numbers]
    lines = tuple(
        ForestLine(
            n,
            *row.row.shown_names,
            row.asd,
            (row.bounds.worst, row.bounds.best) if row.bounds and row.bounds.doubtful else None,
            row.samples.baseline,
            undecided=row.verdict == "undecided",
        )
        for n, row in rows
        # Of a row without a problem to measure, the bounds are the whole range.
        if row.n or not row.unmeasured
    )
    if not lines:
        raise UsageError("asd: nothing to draw: no row was measured")
    return Forest("agent score difference", run.score, lines)


def lift(run: ScoredRun) -> Forest:
    rows = [(n, run.results.rows[n]) for n in run.numbers]
    lines = tuple(
        ForestLine(n, *row.row.shown_names, row.lift, undecided=row.verdict == "undecided")
        for n, row in rows
        if row.lift is not None and not row.row.naive
    )
    if not lines:
        raise UsageError(
            "lift: no row has a naive judge with the same judge; add naive_judge to the sweep"
        )
    return Forest("lift over the naive judge", run.score, lines)


AVERAGED: Mapping[str, str] = {
    "asd": "agent score difference",
    "lift": "lift over the naive judge",
    "jse": "judge score expected",
}
"""Figures that can be drawn by group."""


def averaged(kind: str, by: Sequence[str], run: ScoredRun) -> Forest:
    """A figure, averaged over the rows of each group that a picture shows."""
    rows = tuple(run.results.rows[n] for n in run.numbers)
    lines = []
    for line in pivot(replace(run.results, rows=rows), by):
        estimate: Estimate | None = getattr(line, kind)
        if estimate is not None:
            values = dict(zip(by, (value or "–" for value in line.group), strict=True))
            judge = values.pop("judge", "") if len(by) > 1 else ""
            name, *others = values.values()
            names = name, " · ".join(others), judge
            undecided = line.verdict == "undecided"
            lines.append(ForestLine(line.rows[0], *names, estimate, undecided=undecided))
    if not lines:
        raise UsageError(f"{kind}: no group of rows by {', '.join(by)} has a figure yet")
    beta = f" (beta {run.results.beta:g})" if kind == "jse" else ""
    return Forest(f"{AVERAGED[kind]}{beta}, mean of rows", run.score, tuple(lines))


def jse(run: ScoredRun) -> Chart:
    """Judge score expected (JSE) over beta."""
    series = []
    for n in run.numbers:
        jse = run.results.rows[n].jse
        points = tuple(point(f"{beta:g}", beta, one) for beta, one in jse.items() if beta != inf)
        series += [Series(run.rows.names[n], points, joined=True)] if points else []
    x, y = "softmax temperature of the agent", "judge score expected"
    return run.titled("jse", Chart("Judge score expected", x, y, tuple(series)))


def trend_chart(run: ScoredRun) -> Chart:
    """ASD over expected agent score, one point per agent, with the fitted line."""
    results = run.results
    rows = tuple(results.rows[n] for n in run.numbers)
    series = []
    for line in trends(replace(results, rows=rows)):
        figures = partial(estimates, interval=results.interval)
        points = [point(agent.agent, *figures((agent.eas, agent.asd))) for agent in line.agents]
        points.sort(key=lambda point: point.x)
        slope = line.whole
        if slope.estimate.interval is None:
            # A line through so few agents would say more than is known.
            continue
        note = f"slope {estimated(slope.estimate, 2)}"
        fit = slope.slope, slope.intercept
        series.append(Series(f"{line.protocol} · {line.judge}", tuple(points), note=note, fit=fit))
    why = "it takes three agents or more under one protocol and judge, and a slope with an interval"
    x = f"expected agent score (beta {results.beta:g})"
    chart = Chart("Agent score difference", x, "agent score difference", tuple(series))
    return run.titled("trend", chart, why)


def compared(
    first: RunReader, second: RunReader, score: str, interval: Interval | None = None
) -> Forest:
    """The rows that two runs share, the first minus the second, as `oversight compare` has them."""
    how = replace(BY_DEFAULT, interval=interval)
    comparison = compare_rows(read_rows(first), read_rows(second), how, score)
    lines = []
    for line in comparison.contrasts:
        (_, a), (_, b) = line.places
        pairs = zip(first.sweep.rows[a].shown_names, second.sweep.rows[b].shown_names, strict=True)
        protocol, agent, judge = (x if x == y else f"{x or '–'} − {y or '–'}" for x, y in pairs)
        contrast, names = line.contrast, (protocol, agent, judge)
        apart = (*contrast.means, contrast.p_family)
        undecided = contrast.verdict == "undecided"
        lines.append(ForestLine(a, *names, contrast.estimate, apart=apart, undecided=undecided))
    return Forest(f"ASD, {first.name} − {second.name}", score, tuple(lines))


KINDS: Mapping[str, Callable[[ScoredRun], Picture]] = {
    "asd": asd,
    "lift": lift,
    "worlds": partial(_analysis, "worlds"),
    "jse": jse,
    "calibration": partial(_analysis, "calibration"),
    "trend": trend_chart,
    **{name: partial(_analysis, name) for name in ("frontier", *UNSCORED)},
}
"""By the name that `oversight export plot --kind` takes. `compare` is apart: it takes two runs."""

ALL_KINDS = (*KINDS, "compare")

ALL = Parts()

CURVE = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Betas of the curve of JSE."""

MAX_LINES = 60
"""Rows of `asd` and `lift` that are drawn; of more, the averages of their groups."""


def pictured(
    run: RunReader,
    kind: str,
    score: str = "brier",
    other: RunReader | None = None,
    parts: Parts = ALL,
    by: Sequence[str] = (),
    interval: Interval | None = None,
) -> Picture:
    """The figures of a picture. other: the second run, for `compare`. by: dimensions of rows, of
    whose groups the averages are drawn. UsageError with a remedy."""
    if by and kind not in AVERAGED:
        raise UsageError(f"{kind}: --by is for {', '.join(AVERAGED)}")
    if kind not in ALL_KINDS:
        raise UsageError(unknown("kind of figure", kind, ALL_KINDS))
    if score not in run.scores:
        raise UsageError(unknown("score", score, run.scores))
    if kind == "compare":
        if other is None:
            raise UsageError("compare: it takes two runs")
        return compared(run, other, score, interval)
    scored = ScoredRun(run, score, CURVE if kind == "jse" else BETAS, parts, interval)
    if not by and kind in ("asd", "lift") and len(scored.numbers) > MAX_LINES:
        by = grouping(scored.results)
    return averaged(kind, by, scored) if by else KINDS[kind](scored)


def caption(run: RunReader, picture: Picture) -> str:
    """A caption for a paper: problems, intervals, correction, and whether models are simulated."""
    lines = picture.lines if isinstance(picture, Forest) else read_rows(run).asd("brier").values()
    every = {one.n for one in lines if one.n} or {0}
    sentences = [f"n = {counted_between(min(every), max(every), 'problem')}"]
    if isinstance(picture, Forest):
        sentences.append(brackets(line.estimate for line in picture.lines))
        if any(line.undecided for line in picture.lines):
            sentences.append("Hollow: undecided after Holm's correction")
    elif picture.with_intervals:
        points = [point for series in picture.series for point in series.points]
        sentences.append(brackets(one for point in points for one in (point.of_x, point.of_y)))
    if any(model.startswith(PREFIX) for model in run.sweep.models):
        sentences.append("Simulated models")
    return ". ".join(sentences) + "."


def data_of(picture: Picture, origin: Sequence[str] = ()) -> str:
    """The figures of a picture as CSV. origin: the texts of a last column."""
    head, rows = picture.table()
    last = "; ".join(origin)
    lines = [["" if cell is None else cell for cell in (*row, last)] for row in rows]
    return as_csv((*head, "origins"), lines)
