"""Pictures as matplotlib figures: for papers, slides and notebooks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ....cache.extras import install_command
from ...errors import UsageError
from ..findings.chart import Chart
from .data import Forest, Heat, Picture
from .painting import (
    SHADES,
    chart_axes,
    facet_axes,
    facets,
    forest_axes,
    grouped,
    is_split,
    plain_name,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure, FigureBase

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

MAX_COLUMNS = 60
"""Columns of a heat map that are named."""


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
        case Heat():
            return *_heat_size(picture, size), partial(_heat, picture)
        case Chart() if is_split(picture):
            groups = facets(picture)
            across = min(4 if size.width > 5 else 2, len(groups))
            down = -(-len(groups) // across)
            each = size.width / across * (1.0 if picture.square else 0.8)
            height = down * each + 6 * size.font / 72
            return size.width, height, partial(facet_axes, picture, groups, (down, across))
        case Chart():
            height = size.width * (0.75 if picture.square else 0.62)
            height += -(-len(picture.series) // 2) * 1.3 * size.font / 72
            return size.width, height, partial(chart_axes, picture)


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
        "savefig.dpi": style.dpi,
        "figure.dpi": 100,
    }


def _heat(heat: Heat, figure: "FigureBase") -> None:
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    axes = figure.add_subplot()
    table = np.array(
        [[np.nan if value is None else value for value in line] for line in heat.values]
    )
    named = len(heat.rows) <= MAX_COLUMNS
    shades = LinearSegmentedColormap.from_list("orange-blue", SHADES).with_extremes(bad="#ffffff")
    image = axes.pcolormesh(
        np.ma.masked_invalid(table)[::-1], cmap=shades, vmin=-heat.most, vmax=heat.most,
        edgecolors="white", linewidth=0.4 if named else 0,
    )  # fmt: skip
    rows = [plain_name(name) for name in heat.rows] if named else []
    axes.set_xticks(np.arange(len(rows)) + 0.5, rows, rotation=90)
    axes.set_yticks(
        np.arange(len(heat.problems)) + 0.5, [plain_name(p) for p in heat.problems[::-1]]
    )
    axes.tick_params(length=0, labelsize="small")
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.colorbar(image, ax=axes, aspect=25, pad=0.01, label="agent score difference")


def _heat_size(heat: Heat, size: Style) -> tuple[float, float]:
    unit, letter = size.font / 72, 0.5 * size.font / 72
    many = len(heat.rows) > MAX_COLUMNS
    below = 0 if many else letter * max(map(len, heat.rows), default=0)
    beside = letter * max(map(len, heat.problems), default=0)
    height = 1.35 * unit * len(heat.problems) + below + 4 * unit
    if many:
        return 1.4 * size.width, height
    return max(size.width, 1.35 * unit * len(heat.rows) + beside + 1.0), height
