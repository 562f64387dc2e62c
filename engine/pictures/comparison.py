"""Two runs beside each other: what differs, row by row, on the problems that both have."""

from dataclasses import dataclass

from oversight.engine.pictures.data import Axis, Span
from oversight.engine.reports.results import Results
from oversight.engine.sweeps.rows import Names
from oversight.protocols.scoring.contrasts import contrasts
from oversight.protocols.scoring.sample import Sample


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
    """In the family of all rows (step-down max-t)."""
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
    ours, theirs = _by_name(first), _by_name(second)
    names = [name for name in ours if name in theirs]
    samples: dict[str, Sample] = {}
    pairs: list[tuple[str, str]] = []
    compared: list[Names] = []
    for number, name in enumerate(names):
        a, b = first.samples[ours[name]], second.samples[theirs[name]]
        if a and b and _several(a.asd, b.asd):
            pair = (f"second {number}", f"first {number}")
            samples |= dict(zip(pair, (b.asd, a.asd), strict=True))
            pairs.append(pair)
            compared.append(name)
    lines = tuple(
        Compared(*name, c.estimate, c.interval, c.means[1], c.means[0], c.p_family, c.n)
        for name, c in zip(compared, contrasts(samples, pairs), strict=True)
    )
    most = max((line.n for line in lines), default=0)
    return Comparison(first.score, lines, most, len(ours.keys() ^ theirs.keys()))


def _by_name(results: Results) -> dict[Names, int]:
    return {(row.kind, row.agent, row.judge): n for n, row in enumerate(results.rows)}


def _several(a: Sample, b: Sample) -> bool:
    """Whether the problems that both have are of two clusters or more: of one, nothing follows."""
    theirs = set(b.questions)
    pairs = zip(a.questions, a.clusters, strict=True)
    return len({cluster for question, cluster in pairs if question in theirs}) > 1
