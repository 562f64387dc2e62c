"""Forests, charts and facets, painted into matplotlib figures."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from statistics import fmean
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ...display.printable import printable
from ..findings.chart import Chart, Series
from ..reports.results import SCORE_NAMES
from .data import Forest, ForestLine, Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

PALETTE = (
    "#0067a5", "#a84300", "#00694a", "#8a3a9c", "#7a5200", "#b02a6e", "#3f6b00", "#5a52b8",
    "#006d77", "#59626b",
)  # fmt: skip
"""Colours of series, as the pages have them in the light: told apart by all kinds of colour vision,
and dark enough for text on white."""
SHADES = (
    "#b84a00", "#dc7d2e", "#efb07a", "#f8dcc2", "#f3f3f0", "#cfe2f0", "#8dbbdb", "#3f8abd",
    "#00588f",
)  # fmt: skip
"""Shades of the map from the worst to the best, likewise."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


MAX_TICKS = 5
MAX_TOGETHER = 8
"""Lines, or clouds of points, in one set of axes; more are split by protocol into their own."""
NAME_WIDTH = 34
"""Characters after which a name goes on in another line."""
FACET_NAME = 30
FEW = 20
"""Points of which each is drawn for itself; of more, those that fall together are one mark, whose
area is their number."""


def grouped(
    lines: Sequence[ForestLine],
) -> list[tuple[str, ForestLine | None]]:
    """The lines with their labels, under a heading a protocol where one has several."""
    agents = len({line.agent for line in lines} - {""}) > 1
    judges = len({line.judge for line in lines}) > 1
    several = max(Counter(line.protocol for line in lines).values(), default=0) > 1
    found: list[tuple[str, ForestLine | None]] = []
    before = ""
    for line in lines:
        roles = " · ".join(filter(None, (line.agent * agents, line.judge * judges)))
        if several and line.protocol != before:
            found.append((line.protocol, None))
            before = line.protocol
        label = roles or line.agent or line.judge if several else ""
        found.append((label or line.protocol, line))
    return found


def forest_axes(forest: Forest, figure: "FigureBase") -> None:
    axes = figure.add_subplot()
    lines = grouped(forest.lines)
    places = list(range(len(lines)))[::-1]
    for place, (_, line) in zip(places, lines, strict=True):
        if line is None:
            continue
        _beside(axes, place, line)
        if line.interval:
            axes.plot(line.interval, (place, place), color="#222222", linewidth=1.2, zorder=3)
        if line.mean is not None:
            axes.plot(line.mean, place, "o", color=PALETTE[0], markersize=4, zorder=4)
    _on_lines(axes, places, [label for label, _ in lines])
    for tick, (_, line) in zip(axes.get_yticklabels(), lines, strict=True):
        if line is None:
            tick.set_fontweight("bold")
    axes.set_ylim(-0.7, len(lines) - 0.3)
    _key(figure, forest.lines)
    # From the right: a long name goes on under the labels of the rows, and not over the edge.
    axes.set_xlabel(f"{_measured(forest)}, 95% interval", loc="right")


def _on_lines(axes: "Axes", places: Sequence[int], labels: Sequence[str]) -> None:
    """Axes with a labelled line at each place, and a rule at 0."""
    axes.axvline(0, color="#888888", linewidth=0.6, zorder=0)
    axes.set_yticks(places, [plain_name(label) for label in labels])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color="#e4e6e7", linewidth=0.5, zorder=0)
    axes.set_axisbelow(True)


def _beside(axes: "Axes", place: int, line: ForestLine) -> None:
    """Bounds and the naive judge, beside the mean of a row."""
    if line.bounds:
        low, high = line.bounds
        axes.barh(place, high - low, 0.55, low, color="#d4d9dc", zorder=1)
    if line.naive is not None:
        ends = (place - 0.45, place + 0.45)
        dashed = (0, (2, 1.5))
        axes.plot([line.naive] * 2, ends, color=PALETTE[1], lw=1, ls=dashed, zorder=2)


def _key(figure: "FigureBase", lines: Sequence[ForestLine]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys: list[Any] = []
    if any(line.bounds for line in lines):
        keys.append(Patch(color="#d4d9dc", label="bounds"))
    if any(line.naive is not None for line in lines):
        keys.append(Line2D([], [], color=PALETTE[1], ls=(0, (2, 1.5)), label="naive judge"))
    if keys:
        figure.legend(handles=keys, loc="outside upper right", ncols=3, frameon=False)


def _looks() -> "Iterator[tuple[str, str]]":
    """A colour and a marker for each series, different for the first 64."""
    for turn in range(8):
        for n, colour in enumerate(PALETTE):
            yield colour, MARKERS[(n + turn) % 8]


def chart_axes(chart: Chart, figure: "FigureBase") -> None:
    axes = figure.add_subplot()
    _framed(axes, chart)
    for series, (colour, marker) in zip(chart.series, _looks(), strict=False):
        _drawn(axes, chart, series, colour, marker, has_intervals(chart))
    _limits(axes, chart)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.set_title(plain_name(chart.title), loc="left")
    if len(chart.series) > 1 or chart.series[0].note:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False)


def has_intervals(chart: Chart) -> bool:
    """Whether the intervals of a chart's points are drawn: in crowded axes they would hide them."""
    apart = sum(len(each.points) for each in chart.series if not each.joined)
    known = any(point.interval for each in chart.series for point in each.points)
    return known and apart <= FEW and not is_split(chart)


def is_split(chart: Chart) -> bool:
    """Whether each protocol has axes of its own."""
    crowded = chart.square or all(each.joined for each in chart.series)
    return crowded and len(chart.series) > MAX_TOGETHER


def _framed(axes: "Axes", chart: Chart) -> None:
    if chart.diagonal:
        axes.axline((0, 0), slope=1, color="#999999", linewidth=0.7, zorder=0)
    if chart.zero:
        axes.axhline(0, color="#999999", linewidth=0.7, zorder=0)
    axes.grid(color="#eceeef", linewidth=0.5)
    axes.set_axisbelow(True)


def _limits(axes: "Axes", chart: Chart) -> None:
    if chart.log_x:
        _log(axes, sorted({point.x for series in chart.series for point in series.points}))
    if chart.square:
        axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")


def _drawn(
    axes: "Axes", chart: Chart, series: Series, colour: str, marker: str, intervals: bool = True
) -> None:
    """One series: its points with their intervals, joined or not, and its fitted line."""
    x = [point.x for point in series.points]
    y = [point.y for point in series.points]
    name = f"{series.name} ({series.note})" if series.note else series.name
    hull = series.name.startswith("frontier")
    crowded = len(x) > FEW and not series.joined
    if chart.square and crowded and len(_heaps([series])) < 0.9 * len(x):
        _heaped(axes, [series], colour, label=_named(name))
        return
    axes.errorbar(
        x,
        y,
        xerr=_errors(x, [point.x_interval for point in series.points]) if intervals else None,
        yerr=_errors(y, [point.interval for point in series.points]) if intervals else None,
        label=_named(name),
        color="#888888" if series.name == "frontier" else colour,
        marker="" if hull else marker,
        markersize=4,
        markeredgecolor="white",
        markeredgewidth=0.4,
        linestyle=":" if hull else "-" if series.joined else "",
        linewidth=1,
        elinewidth=0.6,
        zorder=1 if hull else 2,
    )
    if series.fit:
        slope, intercept = series.fit
        ends = [min(x), max(x)]
        axes.plot(ends, [slope * each + intercept for each in ends], color=colour, linewidth=1)


def _heaps(several: Sequence[Series]) -> Counter[tuple[float, float]]:
    """How many points fall together, at a hundredth."""
    return Counter((round(p.x, 2), round(p.y, 2)) for series in several for p in series.points)


def _heaped(axes: "Axes", several: Sequence[Series], colour: str, label: str = "") -> None:
    """Points that fall together as one mark, whose area is their number."""
    heaps = _heaps(several)
    most = max(heaps.values())
    x, y = zip(*heaps, strict=True)
    areas = [6 + 60 * count / most for count in heaps.values()]
    axes.scatter(
        x, y, s=areas, color=colour, alpha=0.55, linewidths=0, label=label or None, zorder=2
    )


def facets(chart: Chart) -> dict[str, list[Series]]:
    """Series by their protocol, which their names begin with."""
    groups: dict[str, list[Series]] = {}
    for series in chart.series:
        groups.setdefault(series.name.split(" · ")[0].split(": ")[0], []).append(series)
    return groups


def facet_axes(
    chart: Chart,
    groups: Mapping[str, Sequence[Series]],
    shape: tuple[int, int],
    figure: "FigureBase",
) -> None:
    """Axes for each protocol: every row in grey, and the mean of the rows over it."""
    grid = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
    every = [axes for line in grid for axes in line]
    for axes, (name, several) in zip(every, groups.items(), strict=False):
        _framed(axes, chart)
        if any(series.joined for series in several):
            for series in several:
                x, y = [p.x for p in series.points], [p.y for p in series.points]
                axes.plot(x, y, color="#9aa3a9", linewidth=0.5, alpha=0.6, zorder=1)
            mean = _mean_line(several)
            axes.plot(*zip(*mean, strict=True), "o-", color=PALETTE[0], ms=3, lw=1.4, zorder=3)
        else:
            _heaped(axes, several, PALETTE[0])
        rows = f"\n{len(several)} rows" if len(several) > 1 else ""
        axes.set_title(_named(name, FACET_NAME) + rows, fontsize="small", loc="left")
        _limits(axes, chart)
    for axes in every[len(groups) :]:
        axes.set_visible(False)
    figure.supylabel(plain_name(chart.y), fontsize="medium")
    figure.supxlabel(plain_name(chart.x), fontsize="medium", ha="right", x=0.99)
    figure.suptitle(plain_name(chart.title), fontsize="medium", ha="left", x=0.01)


def _mean_line(several: Sequence[Series]) -> list[tuple[float, float]]:
    """Mean of the rows at each x that most of them have."""
    at: dict[float, list[float]] = {}
    for series in several:
        for point in series.points:
            at.setdefault(point.x, []).append(point.y)
    enough = max(len(each) for each in at.values()) / 2
    return [(x, fmean(each)) for x, each in sorted(at.items()) if len(each) >= enough]


def _measured(forest: Forest) -> str:
    return f"{forest.measure} ({SCORE_NAMES[forest.score]})"


def _log(axes: "Axes", x: Sequence[float]) -> None:
    """A logarithmic axis, with a tick at each value where they are few whole numbers, and else at
    round numbers."""
    axes.set_xscale("log")
    if len(x) > MAX_TICKS or any(value != int(value) for value in x):
        x = _round_numbers(x[0], x[-1])
    axes.set_xticks(x, [f"{value:g}" if value < 1000 else f"{value / 1000:g}k" for value in x])
    axes.minorticks_off()


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each power of ten between both, or the powers alone where they are many."""
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [
            step * 10.0**power
            for power in range(floor(log10(low)), ceil(log10(high)) + 1)
            for step in steps
            if low <= step * 10.0**power <= high
        ]
        if len(found) <= MAX_TICKS:
            break
    return found or [low]


def _errors(values: Sequence[float], intervals: Sequence[Span | None]) -> Any:
    """Distances to both ends, in matplotlib's format; None if there is no interval."""
    if not any(intervals):
        return None
    ends = [each or (value, value) for value, each in zip(values, intervals, strict=True)]
    pairs = list(zip(values, ends, strict=True))
    return (
        [max(0.0, value - low) for value, (low, _) in pairs],
        [max(0.0, high - value) for value, (_, high) in pairs],
    )


def _named(text: str, width: int = NAME_WIDTH) -> str:
    """A name in lines of at most so many characters."""
    return plain_name("\n".join(wrap(text, width)) or text)


def plain_name(text: str) -> str:
    """A name as it can be painted: without controls, for which no font has a glyph, and with the
    dollar signs escaped that matplotlib would take for formulas."""
    return printable(text).replace("$", r"\$")
