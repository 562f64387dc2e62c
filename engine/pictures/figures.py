"""Pictures as matplotlib figures: for papers, slides and notebooks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..reports.report import SCORE_NAMES
from .charts import Chart, Heat
from .comparison import ComparedLine, ComparisonForest
from .data import Forest, ForestLine, Span
from .drawing import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OKABE_ITO = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800",
)  # fmt: skip
"""Palette for all kinds of colour vision (Okabe and Ito 2008), with a darker yellow for white
backgrounds."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

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
    dpi: int = 200


STYLES = {
    "paper": Style(6.75, 0.17, 8.0),
    "column": Style(3.25, 0.17, 7.0),
    "slides": Style(10.0, 0.30, 14.0),
}
"""`paper` spans two columns of a page, `column` one."""

MAX_INNER_LEGEND = 4
"""Series that a legend within the axes names."""
MAX_TICKS = 10
MAX_LEGEND = 16
"""Series that a legend names; more would fill the picture."""


def draw(picture: Picture, style: str = "paper") -> "Figure":
    """The figure. UsageError where matplotlib is not installed."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("plots need matplotlib: pip install 'oversight-bench[plots]'") from None
    size = STYLES[style]
    with mpl.rc_context(_settings(size)):
        match picture:
            case Forest() | ComparisonForest():
                height = size.line * len(_grouped(picture.lines)) + 8 * size.font / 72
                figure = Figure((size.width, height), layout="constrained")
                _forest(figure, picture)
            case Heat():
                unit, letter = size.font / 72, 0.5 * size.font / 72
                below = letter * max(map(len, picture.rows), default=0)
                beside = letter * max(map(len, picture.problems), default=0)
                height = 1.35 * unit * len(picture.problems) + below + 4 * unit
                width = max(size.width, 1.35 * unit * len(picture.rows) + beside + 1.0)
                figure = Figure((width, height), layout="constrained")
                _heat(figure, picture)
            case Chart():
                height = size.width * (0.75 if picture.square else 0.62)
                figure = Figure(
                    (size.width, height), layout="compressed" if picture.square else "constrained"
                )
                _chart(figure, picture)
        # Draw now: text is laid out with the sizes of the style that is active while drawing.
        figure.canvas.draw()
    return figure


def save(figure: "Figure", path: Path, identity: str, style: str = "paper") -> None:
    """Write a figure as path's ending says; equal figures give equal bytes. UsageError.

    A folder that is missing is made.

    identity: of the sweep, which goes into the file's description.
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
        "savefig.dpi": style.dpi,
        "figure.dpi": 100,
    }


def _grouped(
    lines: Sequence[ForestLine | ComparedLine],
) -> list[tuple[str, ForestLine | ComparedLine | None]]:
    """The lines with their labels, under a heading a protocol where one has several."""
    agents = len({line.agent for line in lines} - {""}) > 1
    judges = len({line.judge for line in lines}) > 1
    several = max(Counter(line.protocol for line in lines).values(), default=0) > 1
    found: list[tuple[str, ForestLine | ComparedLine | None]] = []
    before = ""
    for line in lines:
        roles = " · ".join(filter(None, (line.agent * agents, line.judge * judges)))
        if several and line.protocol != before:
            found.append((line.protocol, None))
            before = line.protocol
        label = roles or line.agent or line.judge if several else ""
        found.append((label or line.protocol, line))
    return found


def _forest(figure: "Figure", forest: Forest | ComparisonForest) -> None:
    axes = figure.add_subplot()
    lines = _grouped(forest.lines)
    places = list(range(len(lines)))[::-1]
    for place, (_, line) in zip(places, lines, strict=True):
        if line is None:
            continue
        if isinstance(line, ForestLine):
            _beside(axes, place, line)
        if line.interval:
            axes.plot(line.interval, (place, place), color="#222222", linewidth=1.2, zorder=3)
        if line.mean is not None:
            axes.plot(line.mean, place, "o", color=OKABE_ITO[0], markersize=4, zorder=4)
    axes.axvline(0, color="#888888", linewidth=0.6, zorder=0)
    axes.set_yticks(places, [_plain(label) for label, _ in lines])
    for tick, (_, line) in zip(axes.get_yticklabels(), lines, strict=True):
        if line is None:
            tick.set_fontweight("bold")
    axes.set_ylim(-0.7, len(lines) - 0.3)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color="#e4e6e7", linewidth=0.5, zorder=0)
    axes.set_axisbelow(True)
    if isinstance(forest, Forest):
        # Ratings name their worlds where others name a score.
        name = f"{forest.measure} ({SCORE_NAMES.get(forest.score, forest.score)})"
        _key(figure, forest.lines)
    else:
        name = f"ASD of the first less the second ({SCORE_NAMES[forest.score]})"
    # From the right: a long name goes on under the labels of the rows, and not over the edge.
    axes.set_xlabel(f"{name}, 95% interval", loc="right")


def _beside(axes: "Axes", place: int, line: ForestLine) -> None:
    """Bounds, the naive judge and lift, beside the mean of a row."""
    if line.bounds:
        low, high = line.bounds
        axes.barh(place, high - low, 0.55, low, color="#d4d9dc", zorder=1)
    if line.naive is not None:
        ends = (place - 0.45, place + 0.45)
        dashed = (0, (2, 1.5))
        axes.plot([line.naive] * 2, ends, color=OKABE_ITO[1], lw=1, ls=dashed, zorder=2)
    if line.lift is not None:
        axes.plot(line.lift.value, place, "o", mfc="none", mec="#222222", ms=3.5, mew=0.8, zorder=3)


def _key(figure: "Figure", lines: Sequence[ForestLine]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys: list[Any] = []
    if any(line.bounds for line in lines):
        keys.append(Patch(color="#d4d9dc", label="bounds"))
    if any(line.naive is not None for line in lines):
        keys.append(Line2D([], [], color=OKABE_ITO[1], ls=(0, (2, 1.5)), label="naive judge"))
    if any(line.lift is not None for line in lines):
        keys.append(
            Line2D([], [], ls="", marker="o", mec="#222222", mfc="none", ms=4, label="lift")
        )
    if keys:
        figure.legend(handles=keys, loc="outside upper right", ncols=3, frameon=False)


def _chart(figure: "Figure", chart: Chart) -> None:
    axes = figure.add_subplot()
    looks = cycle(
        [
            (colour, MARKERS[(n + turn) % 8])
            for turn in range(8)
            for n, colour in enumerate(OKABE_ITO)
        ]
    )
    if chart.diagonal:
        axes.axline((0, 0), slope=1, color="#999999", linewidth=0.7, zorder=0)
    if chart.zero:
        axes.axhline(0, color="#999999", linewidth=0.7, zorder=0)
    for series, (colour, marker) in zip(chart.series, looks, strict=False):
        x = [point.x for point in series.points]
        y = [point.y for point in series.points]
        label = _plain(f"{series.name} ({series.note})" if series.note else series.name)
        hull = series.name == "frontier"
        axes.errorbar(
            x,
            y,
            xerr=_errors(x, [point.x_interval for point in series.points]),
            yerr=_errors(y, [point.interval for point in series.points]),
            label=label,
            color="#888888" if hull else colour,
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
    if chart.log_x:
        _log(axes, sorted({point.x for series in chart.series for point in series.points}))
    if chart.square:
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.set_title(_plain(chart.title), loc="left")
    axes.grid(color="#eceeef", linewidth=0.5)
    axes.set_axisbelow(True)
    if len(chart.series) > 1 or chart.series[0].note:
        handles, labels = axes.get_legend_handles_labels()
        more = len(handles) - MAX_LEGEND
        if len(handles) <= MAX_INNER_LEGEND:
            # It may lie on intervals, which the search for the best place does not heed.
            axes.legend(loc="best", framealpha=0.85, edgecolor="none")
            return
        legend = figure.legend(
            handles[:MAX_LEGEND], labels[:MAX_LEGEND], loc="outside right upper", frameon=False,
        )  # fmt: skip
        if more > 0:
            legend.set_title(f"{MAX_LEGEND} of {len(handles)}: choose some by name")


def _log(axes: "Axes", x: Sequence[float]) -> None:
    """A logarithmic axis, with a tick at each value where they are few whole numbers."""
    axes.set_xscale("log")
    if len(x) <= MAX_TICKS and all(value == int(value) for value in x):
        axes.set_xticks(x, [f"{value:g}" for value in x])
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


def _heat(figure: "Figure", heat: Heat) -> None:
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    axes = figure.add_subplot()
    table = np.array(
        [[np.nan if value is None else value for value in line] for line in heat.values]
    )
    shades = LinearSegmentedColormap.from_list(
        "orange-blue", ["#b84a00", "#efb07a", "#f6f6f3", "#8dbbdb", "#00588f"]
    ).with_extremes(bad="#ffffff")
    image = axes.pcolormesh(
        np.ma.masked_invalid(table)[::-1], cmap=shades, vmin=-heat.most, vmax=heat.most,
        edgecolors="white", linewidth=0.4,
    )  # fmt: skip
    rows = [_plain(name) for name in heat.rows]
    axes.set_xticks(np.arange(len(rows)) + 0.5, rows, rotation=90)
    axes.set_yticks(np.arange(len(heat.problems)) + 0.5, [_plain(p) for p in heat.problems[::-1]])
    axes.tick_params(length=0, labelsize="small")
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.colorbar(image, ax=axes, aspect=25, pad=0.01, label="agent score difference")


def _plain(text: str) -> str:
    """A name with the dollar signs escaped that matplotlib would take for formulas."""
    return text.replace("$", r"\$")
