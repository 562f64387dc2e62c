"""The data of charts and heat maps, as plain values and as tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from .data import Span, TableRows


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A point with its intervals."""

    label: str
    x: float
    y: float
    interval: Span | None = None
    """Of y."""
    x_interval: Span | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together, in order if `joined`."""

    name: str
    points: tuple[ChartPoint, ...]
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

    def table(self) -> tuple[tuple[str, ...], TableRows]:
        return self.HEAD, [
            (
                *(series.name, point.label, point.x, point.y),
                *(point.x_interval or (None, None)),
                *(point.interval or (None, None)),
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
    """Problems x rows; None if unknown."""
    most: float
    """Absolute value at both ends of the colour scale."""

    def table(self) -> tuple[tuple[str, ...], TableRows]:
        rows: TableRows = [
            (problem, *line) for problem, line in zip(self.problems, self.values, strict=True)
        ]
        return ("problem", *self.rows), rows


def drawable(
    kind: str, series: Sequence[Series], why: str = "no problem has a verdict in every world yet"
) -> tuple[Series, ...]:
    """The series of a chart. UsageError, with `why`, if there is none."""
    if not series:
        raise UsageError(f"{kind}: there is nothing to draw: {why}")
    return tuple(series)
