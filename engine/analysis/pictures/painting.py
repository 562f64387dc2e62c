"""Pictures as matplotlib figures: for papers, slides and notebooks."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ....cache.errors import install_command
from ...display.text import printable
from ...errors import UsageError
from ..findings.chart import FEW, Chart, Series
from ..reports.results import SCORE_NAMES
from .kinds import Forest, ForestLine, Picture, Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

PALETTE = (
    "#0067a5", "#a84300", "#00694a", "#8a3a9c", "#7a5200", "#b02a6e", "#3f6b00", "#5a52b8",
    "#006d77", "#59626b",
)  # fmt: skip
"""Colours of series, as the pages have them in the light: told apart by all kinds of colour vision,
and dark enough for text on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


NAME_WIDTH = 34
"""Characters after which a name goes on in another line."""
FACET_NAME = 30


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
    axes.use_sticky_edges = False
    lines = grouped(forest.lines)
    places = list(range(len(lines)))[::-1]
    for place, (_, line) in zip(places, lines, strict=True):
        if line is None:
            continue
        _beside(axes, place, line)
        if line.interval:
            axes.plot(line.interval, (place, place), color="#222222", linewidth=1.2, zorder=3)
        if line.mean is not None:
            inside = "white" if line.undecided else PALETTE[0]
            axes.plot(line.mean, place, "o", color=PALETTE[0], mfc=inside, markersize=4, zorder=4)
    axes.axvline(0, color="#888888", linewidth=0.6, zorder=0)
    axes.set_yticks(places, [plain_name(label) for label, _ in lines])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color="#e4e6e7", linewidth=0.5, zorder=0)
    axes.set_axisbelow(True)
    for tick, (_, line) in zip(axes.get_yticklabels(), lines, strict=True):
        if line is None:
            tick.set_fontweight("bold")
    axes.set_ylim(-0.7, len(lines) - 0.3)
    _key(figure, forest.lines)
    # From the right: a long name goes on under the labels of the rows, and not over the edge.
    measured = f"{forest.measure} ({SCORE_NAMES[forest.score]})"
    axes.set_xlabel(f"{measured}, 95% interval", loc="right")


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
    if any(line.undecided for line in lines):
        hollow = Line2D([], [], color=PALETTE[0], mfc="white", marker="o", ls="", markersize=4)
        hollow.set_label("undecided after the correction")
        keys.append(hollow)
    if keys:
        figure.legend(handles=keys, loc="outside upper right", ncols=3, frameon=False)


def facets(chart: Chart) -> dict[str, list[Series]]:
    """The series that share a set of axes; where each protocol has its own, by protocol, which
    their names begin with."""
    if not chart.split:
        return {"": list(chart.series)}
    groups: dict[str, list[Series]] = {}
    for series in chart.series:
        groups.setdefault(series.name.split(" · ")[0].split(": ")[0], []).append(series)
    return groups


def chart_axes(
    chart: Chart,
    groups: Mapping[str, Sequence[Series]],
    shape: tuple[int, int],
    figure: "FigureBase",
) -> None:
    """The axes of each group, down and across; its rows are told apart where there is one."""
    grid = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
    every, intervals = [axes for line in grid for axes in line], chart.with_intervals
    for axes, (name, several) in zip(every, groups.items(), strict=False):
        if chart.diagonal:
            axes.axline((0, 0), slope=1, color="#999999", linewidth=0.7, zorder=0)
        if chart.zero:
            axes.axhline(0, color="#999999", linewidth=0.7, zorder=0)
        axes.grid(color="#eceeef", linewidth=0.5)
        axes.set_axisbelow(True)
        looks = repeat((PALETTE[0], "o")) if name else _looks()
        for series, (colour, marker) in zip(several, looks, strict=False):
            _drawn(axes, series, colour, marker, intervals)
        rows = f"\n{len(several)} rows" * (len(several) > 1)
        axes.set_title(
            _named(name, FACET_NAME) + rows if name else "", fontsize="small", loc="left"
        )
        if chart.log_x:
            _log(axes)
        if chart.square:
            axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")
    for axes in every[len(groups) :]:
        axes.set_visible(False)
    figure.suptitle(plain_name(chart.title), fontsize="medium", ha="left", x=0.01)
    if len(groups) > 1:
        figure.supylabel(plain_name(chart.y), fontsize="medium")
        figure.supxlabel(plain_name(chart.x), fontsize="medium", ha="right", x=0.99)
        return
    every[0].set(xlabel=plain_name(chart.x), ylabel=plain_name(chart.y))
    if len(chart.series) > 1 or chart.series[0].note:
        handles, labels = every[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2, frameon=False)


def _looks() -> "Iterator[tuple[str, str]]":
    """A colour and a marker for each series, different for the first 64."""
    for turn in range(8):
        for n, colour in enumerate(PALETTE):
            yield colour, MARKERS[(n + turn) % 8]


def _drawn(axes: "Axes", series: Series, colour: str, marker: str, intervals: bool) -> None:
    """One series: its points with their intervals, joined or not, and its fitted line."""
    x = [point.x for point in series.points]
    y = [point.y for point in series.points]
    name = f"{series.name} ({series.note})" if series.note else series.name
    hull = series.name.startswith("frontier")
    if len(x) > FEW and not series.joined:
        heaps = Counter((round(p.x, 2), round(p.y, 2)) for p in series.points)
        areas = [6 + 60 * count / max(heaps.values()) for count in heaps.values()]
        at = [place[0] for place in heaps], [place[1] for place in heaps]
        look: dict[str, Any] = {"color": colour, "alpha": 0.55, "linewidths": 0, "zorder": 2}
        axes.scatter(*at, areas, label=_named(name), **look)
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


def _log(axes: "Axes") -> None:
    """A logarithmic axis with round numbers."""
    from matplotlib.ticker import EngFormatter, LogLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.minorticks_off()


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


FORMATS = ("pdf", "svg", "png")


@dataclass(frozen=True, slots=True)
class Style:
    """Sizes of a figure."""

    width: float
    """Inches."""
    line: float
    """Inches that a line of a forest takes."""
    font: float
    """Points."""


STYLES = {
    "paper": Style(6.75, 0.17, 8.0),
    "column": Style(3.25, 0.17, 7.0),
    "slides": Style(10.0, 0.30, 14.0),
}
"""`paper` spans two columns of a page, `column` one."""


def draw(picture: Picture, style: str = "paper", caption: str = "") -> "Figure":
    """The figure, over a caption. UsageError where matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise UsageError(f"plots need matplotlib: {install_command('plots')}") from None
    size = STYLES[style]
    words = wrap(caption, int(size.width * 130 / size.font))
    foot = (len(words) + 0.8) * 1.25 * size.font * 0.85 / 72 if words else 0.0
    with mpl.rc_context(_settings(size)):
        width, height, paint = _laid_out(picture, size)
        figure = _shown_figure()((width, height + foot), layout="constrained")
        above: FigureBase = figure
        if foot:
            # A part of its own: legends at the edges of the figure would lie on it.
            parts: Any = figure.subfigures(2, 1, height_ratios=(height, foot))
            above, below = parts
            told = plain_name("\n".join(words))
            below.text(0.01, 0.3, told, fontsize=size.font * 0.85, color="#444444")
        paint(above)
        # Draw now: text is laid out with the sizes of the style that is active while drawing.
        figure.canvas.draw()
    return figure


def _laid_out(picture: Picture, size: Style) -> "tuple[float, float, Callable[[FigureBase], None]]":
    """Width and height in inches, and what paints it."""
    match picture:
        case Forest():
            height = size.line * len(grouped(picture.lines)) + 8 * size.font / 72
            return size.width, height, partial(forest_axes, picture)
        case Chart():
            groups = facets(picture)
            across = min(4 if size.width > 5 else 2, len(groups))
            down = -(-len(groups) // across)
            each = 0.75 if picture.square else 0.62
            lines = -(-len(picture.series) // 2) * 1.3
            if len(groups) > 1:
                each, lines = 1.0 if picture.square else 0.8, 6.0
            height = size.width / across * each * down + lines * size.font / 72
            return size.width, height, partial(chart_axes, picture, groups, (down, across))


@cache
def _shown_figure() -> "type[Figure]":
    """The class of our figures, which a notebook shows; matplotlib is loaded with it."""
    import io

    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """A figure that a notebook shows by itself, whatever its backend is."""

        def _repr_png_(self) -> bytes:
            told = io.BytesIO()
            self.savefig(told, format="png", dpi=150)
            return told.getvalue()

    return ShownFigure


def save(figure: "Figure", path: Path, identity: str, style: str = "paper") -> None:
    """Write a figure as path's ending says; equal figures give equal bytes. UsageError.

    A folder that is missing is made.

    identity: of the sweep, and where its replies came from, for the file's description.
    """
    import matplotlib as mpl

    ending = path.suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise UsageError(
            f"{path}: {ending or 'no ending'!r} is not a supported format; use {', '.join(FORMATS)}"
        )
    told = f"oversight-bench, sweep {identity}"
    metadata: dict[str, dict[str, Any]] = {
        "pdf": {"CreationDate": None, "Subject": told},
        "svg": {"Date": None, "Description": told},
        "png": {"Description": told},
    }
    with mpl.rc_context(_settings(STYLES[style])):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, metadata=metadata[ending])
        except OSError as exc:
            raise UsageError(f"{path}: cannot be written: {exc.strerror or exc}") from exc


def _settings(style: Style) -> dict[Any, Any]:
    return {
        "font.size": style.font,
        "axes.titlesize": style.font * 1.1,
        "legend.fontsize": style.font * 0.85,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "oversight-bench",
        "savefig.dpi": 200,
        "figure.dpi": 100,
    }
