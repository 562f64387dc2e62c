"""Two runs beside each other: what differs, row by row, on the problems that both have."""

from collections.abc import Sequence
from dataclasses import dataclass

from oversight.engine.pictures.data import Axis, Span
from oversight.engine.reports.results import Results
from oversight.protocols.scoring.statistics import paired_differences


@dataclass(frozen=True, slots=True)
class Compared:
    """One row that two runs have: the second less the first."""

    protocol: str
    agent: str
    judge: str
    mean: float
    interval: Span | None
    first: float
    second: float
    p: float
    """Corrected for all rows (Holm)."""
    n: int

    @property
    def name(self) -> str:
        return " · ".join(filter(None, (self.protocol, self.agent, self.judge)))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows of two runs that have the same names."""

    score: str
    lines: tuple[Compared, ...]
    problems: int
    """The most that any row has in both."""
    alone: int
    """Rows that stand in one run alone."""

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


def compare(first: Results, second: Results) -> Comparison:
    """Paired differences of ASD, for rows whose protocol, agent and judge are called alike."""
    ours, theirs = (
        {(r.kind, r.agent, r.judge): n for n, r in enumerate(each.rows)} for each in (first, second)
    )
    common = []
    for name, at in ours.items():
        a = first.samples[at]
        b = second.samples[theirs[name]] if name in theirs else None
        if a and b and set(a.asd.questions) & set(b.asd.questions):
            common.append((name, a.asd, b.asd))
    found = paired_differences([(b, a) for _, a, b in common])
    lines = tuple(
        Compared(
            *name,
            each.estimate.mean,
            each.estimate.interval,
            *_means(a.questions, a.values, b.questions, b.values),
            each.p_holm,
            each.estimate.n,
        )
        for (name, a, b), each in zip(common, found, strict=True)
    )
    most = max((line.n for line in lines), default=0)
    return Comparison(first.score, lines, most, len(ours.keys() ^ theirs.keys()))


def _means(
    ours: Sequence[str], a: Sequence[float], theirs: Sequence[str], b: Sequence[float]
) -> tuple[float, float]:
    """Of either run, over the problems that both have."""
    first, second = dict(zip(ours, a, strict=True)), dict(zip(theirs, b, strict=True))
    both = first.keys() & second.keys()
    return (
        sum(first[id] for id in sorted(both)) / len(both),
        sum(second[id] for id in sorted(both)) / len(both),
    )
