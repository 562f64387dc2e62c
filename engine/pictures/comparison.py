"""Comparison of two runs, row by row, on the problems that both have."""

from dataclasses import dataclass

from ...protocols.scoring.contrasts import contrasts
from ...protocols.scoring.estimate import Estimate
from ...protocols.scoring.sample import Sample
from ..decisions.rows import matched
from ..decisions.sample_pairs import comparable
from ..runs.reader import RunReader
from ..sweeps.grid import GridRow
from ..sweeps.rows import Names
from .completed import tallied
from .data import Axis, Span


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """A row that two runs share: the first run minus the second."""

    protocol: str
    agent: str
    judge: str
    estimate: Estimate
    first: float
    second: float
    p: float
    """In the family of all rows (Holm)."""

    @property
    def n(self) -> int:
        return self.estimate.n

    @property
    def mean(self) -> float:
        return self.estimate.value

    @property
    def interval(self) -> Span | None:
        return self.estimate.interval

    @property
    def name(self) -> str:
        return " · ".join(filter(None, (self.protocol, self.agent, self.judge)))


@dataclass(frozen=True, slots=True)
class ComparisonForest:
    """The rows that two runs share."""

    score: str
    lines: tuple[ComparedLine, ...]
    problems: int
    """The most that any row has in both."""
    alone: int
    """Number of rows in one run only."""

    HEAD = ("protocol", "agent", "judge", "n", "difference", "low", "high", "first", "second", "p")

    def table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        return self.HEAD, [
            (
                *(line.protocol, line.agent, line.judge, line.n, line.mean),
                *(line.interval or (None, None)),
                *(line.first, line.second, line.p),
            )
            for line in self.lines
        ]

    @property
    def axis(self) -> Axis:
        ends = [0.0, *(line.mean for line in self.lines)]
        return Axis.around([*ends, *(end for line in self.lines for end in line.interval or ())])


def comparison_forest(
    first: RunReader, second: RunReader, score: str = "brier"
) -> ComparisonForest:
    """Paired differences of ASD, for the rows that `oversight compare` pairs."""
    ours, theirs = (tallied(run, score).results.samples for run in (first, second))
    rows = first.sweep.rows, second.sweep.rows
    pairs = matched(*rows)
    samples: dict[str, Sample] = {}
    names: list[Names] = []
    for one, two in pairs.items():
        a, b = ours[one], theirs[two]
        if a and b and comparable(a.asd, b.asd):
            samples |= {f"first {len(names)}": a.asd, f"second {len(names)}": b.asd}
            names.append(_names(rows[0][one], rows[1][two]))
    told = contrasts(samples, [(f"first {n}", f"second {n}") for n in range(len(names))])
    lines = tuple(
        ComparedLine(*name, c.estimate, *c.means, c.p_family)
        for name, c in zip(names, told, strict=True)
    )
    most = max((line.n for line in lines), default=0)
    return ComparisonForest(score, lines, most, sum(map(len, rows)) - 2 * len(pairs))


def _names(one: GridRow, two: GridRow) -> Names:
    """Protocol, agent and judge; both where the rows differ in them."""

    def told(first: str, second: str) -> str:
        return first if first == second else f"{first or '–'} less {second or '–'}"

    return told(one.kind, two.kind), told(one.agent, two.agent), told(one.judge, two.judge)
