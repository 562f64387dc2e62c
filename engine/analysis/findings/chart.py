"""Charts of a finding: points with their intervals, and lines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TypeAlias

from ..scoring.estimate import Ends, Estimate

MAX_TOGETHER = 8
"""Lines, or clouds of points, in one set of axes; more are split by protocol into their own."""
FEW = 20
"""Up to this many points are drawn singly; above it, equal ones are one mark, sized by number."""

TableRows: TypeAlias = list[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Point:
    label: str
    x: float
    y: float
    of_x: Estimate | None = None
    of_y: Estimate | None = None
    """What `y` is the value of, with its interval."""

    @property
    def interval(self) -> Ends | None:
        """Interval of `y`."""
        return self.of_y.interval if self.of_y else None

    @property
    def x_interval(self) -> Ends | None:
        return self.of_x.interval if self.of_x else None


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together, in order if `joined`."""

    name: str
    points: tuple[Point, ...]
    joined: bool = False
    note: str = ""
    """Text of the legend after the name."""
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

    @property
    def split(self) -> bool:
        """Whether each protocol is drawn in separate axes."""
        crowded = self.square or all(series.joined for series in self.series)
        return crowded and len(self.series) > MAX_TOGETHER

    @property
    def with_intervals(self) -> bool:
        """Whether intervals of points are painted: in crowded axes they would hide them."""
        apart = sum(len(series.points) for series in self.series if not series.joined)
        bars = any(point.interval for series in self.series for point in series.points)
        return bars and apart <= FEW and not self.split

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


def point(label: str, x: float | Estimate, y: float | Estimate) -> Point:
    """A point; an estimate brings its interval."""
    (x, of_x), (y, of_y) = (
        (value.value, value) if isinstance(value, Estimate) else (value, None) for value in (x, y)
    )
    return Point(label, x, y, of_x, of_y)


def by_protocol(points: Iterable[Point]) -> tuple[Series, ...]:
    """Points of rows as a series a protocol, with which the name of a row begins."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(point.label.split(" · ")[0], []).append(point)
    return tuple(Series(name, tuple(members)) for name, members in groups.items())


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of numbers with round ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def around(cls, values: Sequence[float], most: int = 7) -> "Axis":
        """An axis that shows all values, with no more than `most` ticks."""
        low, high = min(values), max(values)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
        step = next(
            size * scale
            for scale in (10.0**n for n in range(-6, 12))
            for size in (1.0, 2.0, 5.0)
            if (high - low) / (size * scale) <= most - 1
        )
        # In binary 0.05 is a little more than five times 0.01.
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        ticks = tuple(round(n * step, 9) for n in range(first, last + 1))
        return cls(ticks[0], ticks[-1], ticks)

    def label(self, tick: float) -> str:
        """A tick in words: all of an axis have as many decimals."""
        digits = max(0, -floor(log10(self.ticks[1] - self.ticks[0]) + 1e-9))
        return f"{tick:.{digits}f}".replace("-", "−")

    def at(self, value: float) -> float:
        """Where a value is, in percent of the axis."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)
