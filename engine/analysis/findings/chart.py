"""What is drawn beside the table of a finding: points with their intervals, and lines."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ..scoring.estimate import Ends, Estimate

TableRows: TypeAlias = list[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Point:
    """A point with its intervals."""

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


def point(label: str, x: float | Estimate, y: float | Estimate) -> Point:
    """A point; an estimate brings its interval."""
    (x, of_x), (y, of_y) = (
        (each.value, each) if isinstance(each, Estimate) else (each, None) for each in (x, y)
    )
    return Point(label, x, y, of_x, of_y)


def by_protocol(points: Iterable[Point]) -> tuple[Series, ...]:
    """Points of rows as a series a protocol, with which the name of a row begins."""
    found: dict[str, list[Point]] = {}
    for each in points:
        found.setdefault(each.label.split(" · ")[0], []).append(each)
    return tuple(Series(name, tuple(its)) for name, its in found.items())
