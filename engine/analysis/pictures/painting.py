"""Pictures as matplotlib figures: for papers, slides and notebooks."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from itertools import cycle, repeat
from math import ceil
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from warnings import catch_warnings, simplefilter

from ....cache.errors import install_command
from ...display.text import printable
from ...errors import UsageError
from ...system.files import replace_file, unwritable
from ..findings.chart import FEW, Chart, Series
from ..reports.results import SCORE_NAMES
from .kinds import Forest, ForestLine, Picture, Span

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

PALETTE = (
    "#0067a5", "#a84300", "#00694a", "#8a3a9c", "#7a5200", "#b02a6e", "#3f6b00", "#5a52b8",
    "#006d77", "#59626b",
)  # fmt: skip
"""Colours of series, as on light pages: for all kinds of colour vision, dark enough for text."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FIRST = (PALETTE[0], MARKERS[0])


MOST_KEYS = 6
"""Entries of a legend in a column; wider figures have three times as many."""
MOST_MARKS = 3
"""Judges that are drawn on one line of a forest."""
LABELS = 0.45
"""Largest share of a figure's width that the names of a forest take."""
GREY = "#d4d9dc"
DASHES = (0, (2, 1.5))
LINES = ("-", "--", "-.", ":")


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One line of a forest: a heading, or a name with a mark for each judge."""

    label: str
    marks: tuple[ForestLine, ...] = ()


def forest_rows(lines: Sequence[ForestLine]) -> list[ForestRow]:
    """Each mechanism once, with its judges as marks. Several agents, or more judges than fit on a
    line, stand below the mechanism as a heading."""
    agents = len({line.agent for line in lines} - {""}) > 1
    judges = len({line.judge for line in lines}) > MOST_MARKS
    rows: dict[str, dict[str, list[ForestLine]]] = {}
    for line in lines:
        name = " · ".join(filter(None, (line.agent * agents, line.judge * judges)))
        rows.setdefault(line.protocol, {}).setdefault(name, []).append(line)
    headed = max(map(len, rows.values()), default=0) > 1
    forest = list[ForestRow]()
    for protocol, parts in rows.items():
        forest += [ForestRow(protocol)] * headed
        for name, marks in parts.items():
            # Several lines of one judge and name, for example of several settings, stay apart.
            counts = Counter[str]()
            layers: dict[int, list[ForestLine]] = {}
            for mark in marks:
                layers.setdefault(counts[mark.judge], []).append(mark)
                counts[mark.judge] += 1
            label = (name or "all") if headed else protocol
            forest += [ForestRow(label, tuple(layer)) for layer in layers.values()]
    return forest


class Legend(NamedTuple):
    """The entries of a legend, their names in lines that fit, and the number of its columns."""

    keys: "Sequence[Artist]"
    names: Sequence[str]
    columns: int

    def draw(self, figure: "FigureBase", side: Literal["lower", "upper"] = "lower") -> None:
        """Draw it below or above the axes, within the figure."""
        if self.keys:
            place: Any = f"outside {side} center"
            figure.legend(self.keys, self.names, loc=place, ncols=self.columns, frameon=False)


class ForestLayout(NamedTuple):
    """The lines of a forest with their labels and heights (points), and its legend."""

    rows: Sequence[ForestRow]
    labels: Sequence[str]
    heights: Sequence[float]
    looks: Mapping[str, tuple[str, str]]
    legend: Legend
    below: float
    """Points that the axis and the legend take."""


def forest_layout(forest: Forest, size: "Style") -> ForestLayout:
    rows, looks = forest_rows(forest.lines), judge_looks(forest.lines)
    labels = [wrapped(row.label, LABELS * size.width * 72, size.font) for row in rows]
    legend = legend_of(forest_keys(forest.lines, looks), size)
    below = (6.0 + 1.5 * ceil(len(legend.keys) / legend.columns)) * size.font
    lines = [1 + label.count("\n") for label in labels]
    fit = (MOST_HEIGHT - below) / max(sum(lines), 1) if size.bounded else size.line
    pitch = max(min(size.line, fit), 1.2 * size.font)
    heights = [max(pitch, 1.2 * size.font * count + 3) for count in lines]
    return ForestLayout(rows, labels, heights, looks, legend, below)


def forest_axes(forest: Forest, layout: ForestLayout, size: "Style", figure: "FigureBase") -> None:
    axes = figure.add_subplot()
    axes.use_sticky_edges = False
    top, ticks = 0.0, list[float]()
    for row, height in zip(layout.rows, layout.heights, strict=True):
        middle = top - height / 2
        step = min(0.8 * height / max(len(row.marks), 1), 0.6 * size.font)
        for n, line in enumerate(row.marks):
            at = middle + ((len(row.marks) - 1) / 2 - n) * step
            _draw_mark(axes, at, step, line, *layout.looks[line.judge])
        ticks.append(middle)
        top -= height
    # A dashed line at the naive judge's figure, for each judge that has one.
    for judge, naive in dict.fromkeys((line.judge, line.naive) for line in forest.lines):
        if naive is not None:
            axes.axvline(naive, color=layout.looks[judge][0], lw=0.9, ls=DASHES, zorder=2)
    axes.axvline(0, color="#888888", linewidth=0.6, zorder=0)
    axes.set_yticks(ticks, layout.labels, linespacing=1.0)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color="#e4e6e7", linewidth=0.5, zorder=0)
    axes.set_axisbelow(True)
    for tick, row in zip(axes.get_yticklabels(), layout.rows, strict=True):
        if not row.marks:
            tick.set_fontweight("bold")
    axes.set_ylim(top, 0)
    layout.legend.draw(figure)
    # From the right: a long name goes on under the labels of the rows, and not over the edge.
    axes.set_xlabel(plain_name(f"{forest.measure} ({SCORE_NAMES[forest.score]})"), loc="right")


def judge_looks(lines: Iterable[ForestLine]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each judge; all alike where they do not stand on one line."""
    judges = list(dict.fromkeys(line.judge for line in lines))
    looks = zip(PALETTE, MARKERS, strict=False)
    return dict(zip(judges, looks if len(judges) <= MOST_MARKS else repeat(FIRST), strict=False))


def _draw_mark(
    axes: "Axes", at: float, step: float, line: ForestLine, colour: str, marker: str
) -> None:
    if line.bounds:
        low, high = line.bounds
        axes.barh(at, high - low, 0.8 * step, low, color=GREY, zorder=1)
    if line.interval:
        axes.plot(line.interval, (at, at), color=colour, linewidth=1.2, zorder=3)
    if line.mean is not None:
        inside = "white" if line.undecided else colour
        axes.plot(line.mean, at, marker, color=colour, mfc=inside, markersize=4, zorder=4)


def forest_keys(
    lines: Sequence[ForestLine], looks: Mapping[str, tuple[str, str]]
) -> "list[Artist]":
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    mark = partial(Line2D, [], [], ls="", markersize=4)
    keys: list[Any] = []
    if 1 < len(looks) <= MOST_MARKS:
        keys += [
            mark(color=colour, marker=marker, label=judge or "–")
            for judge, (colour, marker) in looks.items()
        ]
    if any(line.naive is not None for line in lines):
        colour = "#444444" if len(set(looks.values())) > 1 else PALETTE[0]
        keys.append(Line2D([], [], color=colour, lw=0.9, ls=DASHES, label="naive judge"))
    if any(line.bounds for line in lines):
        keys.append(Patch(color=GREY, label="bounds"))
    if any(line.undecided for line in lines):
        hollow = mark(color="#444444", mfc="white", marker="o", label="undecided after correction")
        keys.append(hollow)
    return keys


def legend_of(keys: "Sequence[Artist]", size: "Style") -> Legend:
    """A legend as wide as the figure at most. UsageError if it has too many entries."""
    if len(keys) > size.most_keys:
        raise UsageError(
            f"{len(keys)} lines do not fit into a legend of {size.most_keys}: choose rows with "
            "--protocol, draw averages of asd, lift and jse with --by"
            f"{', or use --style paper' * size.bounded}"
        )
    width = size.width * 72 - 10
    labels = [str(key.get_label()) for key in keys]
    names = [wrapped(label, width - 4 * size.font, size.font) for label in labels]
    widest = max((text_width(name, size.font) for name in names), default=0) + 5 * size.font
    return Legend(keys, names, max(1, min(3, len(names), int(width // widest))))


def text_width(text: str, font: float) -> float:
    """Points that the longest line of a text takes."""
    from matplotlib.textpath import TextPath

    paths = (TextPath((0, 0), x, size=font) for x in text.split("\n") if x.strip())
    return max((float(path.get_extents().width) for path in paths), default=0)


def wrapped(text: str, width: float, font: float) -> str:
    """A name to paint, in lines of at most `width` points; words stay whole if they fit."""
    name = plain_name(text)
    characters = len(name)
    while text_width(name, font) > width and characters > 4:
        characters = min(characters - 1, int(characters * 0.95))
        name = plain_name("\n".join(wrap(text, characters)))
    return name


def facets(chart: Chart) -> dict[str, list[Series]]:
    """The series that share a set of axes; where each protocol has its own, by protocol, which
    their names begin with."""
    if not chart.split:
        return {"": list(chart.series)}
    groups: dict[str, list[Series]] = {}
    for series in chart.series:
        groups.setdefault(_protocol(series), []).append(series)
    return groups


def _protocol(series: Series) -> str:
    return series.name.split(" · ")[0].split(": ")[0]


def _within(series: Series) -> str:
    """The name of a series within the axes of its protocol."""
    return series.name.removeprefix(_protocol(series)).lstrip(" ·:")


def looks_within(chart: Chart, size: "Style") -> dict[str, tuple[str, str, str]]:
    """Colour, marker and dash of each line in the axes of a protocol, by its name there. Empty if
    each protocol has one line, or if a legend has no room for the names."""
    names = dict.fromkeys(map(_within, chart.series)) if chart.split and not chart.square else {}
    if not 1 < len(names) <= size.most_keys:
        return {}
    looks = zip(names, _looks(), cycle(LINES), strict=False)
    return {name: (*look, line) for name, look, line in looks}


def legend_within(chart: Chart, size: "Style") -> Legend:
    """The legend of these lines."""
    from matplotlib.lines import Line2D

    line = partial(Line2D, [], [], lw=1, markersize=4)
    looks = looks_within(chart, size).items()
    keys = [line(color=c, marker=m, ls=dash, label=name or "–") for name, (c, m, dash) in looks]
    return legend_of(keys, size)


def chart_axes(
    chart: Chart,
    groups: Mapping[str, Sequence[Series]],
    shape: tuple[int, int],
    size: "Style",
    figure: "FigureBase",
) -> None:
    """The axes of each group, down and across; a single group tells its rows apart."""
    grid = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
    every, intervals = [axes for line in grid for axes in line], chart.with_intervals
    named = looks_within(chart, size)
    for axes, (name, several) in zip(every, groups.items(), strict=False):
        if chart.diagonal:
            axes.axline((0, 0), slope=1, color="#999999", linewidth=0.7, zorder=0)
        if chart.zero:
            axes.axhline(0, color="#999999", linewidth=0.7, zorder=0)
        axes.grid(color="#eceeef", linewidth=0.5)
        axes.set_axisbelow(True)
        looks = repeat(FIRST) if name else _looks()
        for series, look in zip(several, looks, strict=False):
            _draw_series(axes, series, *named.get(_within(series), (*look, "-")), intervals)
        if name:
            title = wrapped(name, 0.9 * size.width * 72 / shape[1], size.font)
            axes.set_title(title, fontsize=size.font, loc="left")
        if chart.log_x:
            _log(axes)
        if chart.square:
            axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")
    for axes in every[len(groups) :]:
        axes.set_visible(False)
    x = wrapped(chart.x, 0.85 * size.width * 72, size.font)
    y = wrapped(chart.y, 0.5 * size.width * 72, size.font)
    if len(groups) > 1:
        figure.supylabel(y, fontsize=size.font)
        figure.supxlabel(x, fontsize=size.font, ha="right", x=0.99)
        # Below the axes, the label has its place.
        legend_within(chart, size).draw(figure, "upper")
        return
    every[0].set(xlabel=x, ylabel=y)
    if len(chart.series) > 1 or chart.series[0].note:
        legend_of(every[0].get_legend_handles_labels()[0], size).draw(figure)


def _looks() -> "Iterator[tuple[str, str]]":
    """A colour and a marker for each series, different for the first 64."""
    for turn in range(8):
        for n, colour in enumerate(PALETTE):
            yield colour, MARKERS[(n + turn) % 8]


def _draw_series(
    axes: "Axes", series: Series, colour: str, marker: str, line: str, intervals: bool
) -> None:
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
        axes.scatter(*at, areas, label=name, **look)
        return
    axes.errorbar(
        x,
        y,
        xerr=_errors(x, [point.x_interval for point in series.points]) if intervals else None,
        yerr=_errors(y, [point.interval for point in series.points]) if intervals else None,
        label=name,
        color="#888888" if series.name == "frontier" else colour,
        marker="" if hull else marker,
        markersize=4,
        markeredgecolor="white",
        markeredgewidth=0.4,
        linestyle=":" if hull else line if series.joined else "",
        linewidth=1,
        elinewidth=0.6,
        zorder=1 if hull else 2,
    )
    if series.fit:
        slope, intercept = series.fit
        ends = [min(x), max(x)]
        axes.plot(ends, [slope * x + intercept for x in ends], color=colour, linewidth=1)


def _log(axes: "Axes") -> None:
    """A logarithmic axis with round numbers."""
    from matplotlib.ticker import EngFormatter, FormatStrFormatter, LogLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    below_two = axes.get_xlim()[1] <= 2
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g") if below_two else EngFormatter(sep=""))
    axes.minorticks_off()


def _errors(values: Sequence[float], intervals: Sequence[Span | None]) -> Any:
    """Distances to both ends, in matplotlib's format; None without intervals."""
    if not any(intervals):
        return None
    pairs = [(value, bar or (value, value)) for value, bar in zip(values, intervals, strict=True)]
    below = [max(0.0, value - low) for value, (low, _) in pairs]
    return below, [max(0.0, high - value) for value, (_, high) in pairs]


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
    """Points that a line of a forest takes."""
    font: float
    """Points; no text is smaller."""
    bounded: bool = False
    """Whether `MOST_HEIGHT` limits its height."""

    @property
    def most_keys(self) -> int:
        return MOST_KEYS if self.bounded else 3 * MOST_KEYS


MOST_HEIGHT = 250.0
"""Points that a figure in a column may be high."""

STYLES = {
    "column": Style(3.17, 12.0, 7.0, bounded=True),
    "paper": Style(6.75, 12.0, 8.0),
    "slides": Style(10.0, 21.0, 14.0),
}
"""`column` is one column of an article, `paper` spans two."""


def draw(picture: Picture, style: str = "column", caption: str = "") -> "Figure":
    """The figure, over a caption. UsageError where matplotlib is not installed, and for a picture
    that does not fit."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise UsageError(f"plots need matplotlib: {install_command('plots')}") from None
    size = STYLES[style]
    words = wrapped(caption, 0.96 * size.width * 72, size.font) if caption else ""
    foot = (words.count("\n") + 1.8) * 1.25 * size.font / 72 if words else 0.0
    with mpl.rc_context(_settings(size)), complete():
        width, height, paint = _laid_out(picture, size)
        figure = _shown_figure()((width, height + foot), layout="constrained")
        above: FigureBase = figure
        if foot:
            # A separate part: legends at the edges of the figure would lie on it.
            parts: Any = figure.subfigures(2, 1, height_ratios=(height, foot))
            above, below = parts
            below.text(0.01, 0.3, words, fontsize=size.font, color="#444444")
        paint(above)
        # Draw now: text is laid out with the sizes of the style that is active while drawing.
        figure.canvas.draw()
    return figure


@contextmanager
def complete() -> Iterator[None]:
    """Turns warnings of matplotlib, such as of axes without room or of a missing glyph, into
    errors: the picture would not show what it should."""
    with catch_warnings():
        simplefilter("error", UserWarning)
        try:
            yield
        except UserWarning as exc:
            raise UsageError(
                f"the picture cannot be drawn whole: {exc}. Choose fewer rows with --protocol, "
                "averages with --by, or the wider --style paper"
            ) from exc


def _laid_out(picture: Picture, size: Style) -> "tuple[float, float, Callable[[FigureBase], None]]":
    """Width and height in inches, and what paints it."""
    match picture:
        case Forest():
            layout = forest_layout(picture, size)
            points = sum(layout.heights) + layout.below
            paint: Callable[[FigureBase], None] = partial(forest_axes, picture, layout, size)
        case Chart():
            groups = facets(picture)
            most = 3 if size.bounded else 4
            across = next((n for n in range(1, most) if n * n >= len(groups)), most)
            down = -(-len(groups) // across)
            share = 0.75 if picture.square else 0.62
            lines = 1.5 * min(len(picture.series), MOST_KEYS)
            if len(groups) > 1:
                share, legend = 1.0 if picture.square else 0.8, legend_within(picture, size)
                lines = 6.0 + 1.5 * ceil(len(legend.keys) / legend.columns)
            points = 72 * size.width / across * share * down + lines * size.font
            if size.bounded and down <= across:
                points = min(points, MOST_HEIGHT)
            paint = partial(chart_axes, picture, groups, (down, across), size)
    if size.bounded and points > MOST_HEIGHT + 0.5:
        raise UsageError(
            f"the picture would be {points:.0f} pt high, and a figure in a column has at most "
            f"{MOST_HEIGHT:.0f}: choose rows with --protocol, averages with --by, or --style paper"
        )
    return size.width, points / 72, paint


@cache
def _shown_figure() -> "type[Figure]":
    """The class of our figures, which a notebook shows; matplotlib is loaded with it."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """A figure that a notebook shows by itself, whatever its backend is."""

        def _repr_png_(self) -> bytes:
            png = BytesIO()
            self.savefig(png, format="png", dpi=150)
            return png.getvalue()

    return ShownFigure


def save(figure: "Figure", path: Path, identity: str, style: str = "column") -> None:
    """Write a figure as path's ending says, whole or not at all; equal figures give equal bytes.
    UsageError, RunFolderError. A missing folder is made. identity: of the sweep and its replies."""
    import matplotlib as mpl

    ending = path.suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise UsageError(
            f"{path}: {ending or 'no ending'!r} is not a supported format; use {', '.join(FORMATS)}"
        )
    about = f"oversight-bench, sweep {identity}"
    metadata: dict[str, dict[str, Any]] = {
        "pdf": {"CreationDate": None, "Subject": about},
        "svg": {"Date": None, "Description": about},
        "png": {"Description": about},
    }
    written = BytesIO()
    with mpl.rc_context(_settings(STYLES[style])), complete():
        figure.savefig(written, format=ending, metadata=metadata[ending])
    write(path, written.getvalue())


def write(file: Path, content: bytes) -> None:
    """Write a file, whole or not at all. A missing folder is made. RunFolderError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise unwritable(file, exc) from exc
    replace_file(file, [content], durable=False)


def _settings(style: Style) -> dict[Any, Any]:
    return {
        "font.size": style.font,
        "axes.titlesize": style.font,
        "legend.fontsize": style.font,
        "xtick.labelsize": style.font,
        "ytick.labelsize": style.font,
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
