"""The data behind pictures, as plain numbers and as tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TypeAlias

from ..findings.chart import Chart, TableRows
from ..scoring.estimate import Estimate

Span: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ForestLine:
    """One row of a forest plot."""

    row: int
    """Its number in the sweep, from 0."""
    protocol: str
    agent: str
    judge: str
    n: int
    """Problems."""
    estimate: Estimate | None
    """None where no problem is complete."""
    bounds: Span | None = None
    """Range of the mean over all results that failed or doubtful worlds could have had."""
    naive: float | None = None
    """The naive judge's figure, with the same judge."""
    apart: tuple[float, float, float] | None = None
    """For a comparison: (first mean, second mean, p adjusted for all rows); else None."""

    @property
    def mean(self) -> float | None:
        return self.estimate.value if self.estimate else None

    @property
    def interval(self) -> Span | None:
        """95%."""
        return self.estimate.interval if self.estimate else None


@dataclass(frozen=True, slots=True)
class Forest:
    """One measure with its intervals, a line a row."""

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
