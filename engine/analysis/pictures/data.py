"""The data behind pictures, as plain numbers and as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, TypeAlias

from ..findings.chart import Chart, TableRows

if TYPE_CHECKING:
    from ..reports.results import Results
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
    estimate: "Estimate | None"
    """None where no problem is complete."""
    bounds: Span | None = None
    """Range of the mean over all results that failed or doubtful worlds could have had."""
    lift: "Estimate | None" = None
    naive: float | None = None
    """The naive judge's figure, with the same judge."""
    cells: int = 0
    failed: int = 0
    missing: int = 0
    accuracy: "Estimate | None" = None
    """How often the judge was right."""
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

    @property
    def axis(self) -> "Axis":
        values = [0.0]
        for line in self.lines:
            lift = line.lift.value if line.lift else None
            ends = (line.mean, line.naive, lift, *(line.interval or ()), *(line.bounds or ()))
            values += [value for value in ends if value is not None]
        return Axis.around(values)


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


Picture: TypeAlias = "Forest | Chart | Heat"


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


def forest_of(results: "Results") -> Forest:
    """ASD by row, with lift and bounds."""
    from ..reports.report import finding

    return saved_forest(finding(results).plain())


def saved_forest(report: Mapping[str, Any]) -> Forest:
    """The forest plot of a report in JSON. KeyError for a report of another version."""
    from ..scoring.estimate import Estimate

    lines = tuple(
        ForestLine(
            number,
            row["protocol"],
            row["agent"],
            row["judge"],
            row["n"],
            row["asd"] and Estimate.read(row["asd"]),
            (row["bounds"]["worst"], row["bounds"]["best"]) if row["bounds"]["doubtful"] else None,
            row["lift"] and Estimate.read(row["lift"]),
            row["asd"]["value"] - row["lift"]["value"] if row["asd"] and row["lift"] else None,
            row["cells"],
            row["failed"],
            row["missing"],
            accuracy=row["accuracy"] and Estimate.read(row["accuracy"]),
        )
        for number, row in enumerate(report["rows"])
    )
    return Forest("agent score difference", report["score"], lines)
