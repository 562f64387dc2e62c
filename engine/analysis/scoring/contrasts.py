"""Contrasts of two rows, decided by inverting an interval, and the trend of ASD over EAS.

A contrast is first minus second. Rows of one run are paired question by question; rows without
common questions are compared as two samples. Interval, p, equivalence, minimum
detectable effect and the family's p come from one error (`inference`).

Families are corrected by Holm's method over these p, which holds for any dependence between
contrasts; a test by sign flips does not, where rows differ in spread and shape.

The trend says whether a better agent helps the truth more: an ordinary least-squares line through
one point per agent configuration, for one protocol, score, judge and beta (Sudhir, Kaunismaa and
Panickssery 2025, arXiv:2504.03731): x is its mean expected agent score, y its mean agent score
difference. A slope above 0 says that oversight gets better as agents do.

ASD and EAS are functions of the same agent scores: they would have a trend even if every verdict
were noise. And an x that is itself an estimate pulls the slope toward 0."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ....protocols.settings import unknown
from .estimate import LEVEL, Estimate, Interval, ends_apart
from .inference import (
    BLOCK,
    ErrorKind,
    Influences,
    codes_of,
    estimates,
    means,
    rounded_apart,
    together,
)

MIN_POINTS = 3
"""Any two points lie on a line: a slope with an error needs a third."""

SAME_EAS = 1e-9
"""Values of EAS closer than this differ by rounding alone."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One agent with its settings, measured under one protocol."""

    agent: str
    eas: Influences
    asd: Influences


@dataclass(frozen=True, slots=True)
class Slope:
    """A regression line with its caveats."""

    slope: float
    """Change of ASD per unit of EAS."""
    error: float
    """Standard error of the slope, from the residuals, with n - 2 degrees of freedom."""
    intercept: float
    n: int
    """Agent configurations, one point each."""

    @property
    def estimate(self) -> Estimate:
        """The slope with its interval; of points on one line, without."""
        error, degrees = self.error or None, self.n - 2
        return Estimate(self.slope, self.n, self.n, error, degrees, method="t of the residuals")


def trend(configurations: Sequence[Configuration]) -> Slope | None:
    """Least-squares line of mean ASD on mean EAS, one point per configuration; None for fewer than
    three, or if all have the same EAS."""
    if len(configurations) < MIN_POINTS:
        return None
    eas = np.array([one.eas.value for one in configurations])
    asd = np.array([one.asd.value for one in configurations])
    x, y, n = eas - eas.mean(), asd - asd.mean(), len(eas)
    if np.ptp(x) < SAME_EAS:
        return None
    squares = (x * x).sum()
    slope = float((x * y).sum() / squares)
    residuals = y - slope * x
    error = float(np.sqrt((residuals * residuals).sum() / (n - 2) / squares))
    return Slope(slope, error, float(asd.mean() - slope * eas.mean()), n)


Verdict: TypeAlias = Literal["better", "worse", "identical", "equivalent", "undecided"]

ENOUGH = 60
"""Clusters that must agree before two rows count as identical."""

AGREED = 1e-9
"""Largest difference between values that agree."""

MARGIN = 0.05
"""Default margin within which two rows count as equivalent, in units of the score."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """First minus second, over the questions that both have."""

    first: str
    second: str
    estimate: Estimate
    """Without an interval if the rows are identical."""
    p: float | None
    """Two-sided, in (0, 1], of this contrast alone; None if the rows are identical."""
    p_family: float | None
    """p corrected for the family of all contrasts tested (Holm 1979)."""
    equivalent: bool
    """Whether the 90 % interval lies within the margin."""
    mde: float | None
    """Minimum detectable effect: the smallest difference found by these questions with power .8;
    None if they are too few to find any that is possible."""
    verdict: Verdict
    """About the first row."""
    undone: bool = False
    """Whether unseen rare errors could undo the verdict: the conservative interval disagrees."""
    agree: int = 0
    """Questions of rows that are identical."""
    means: tuple[float, float] = (0.0, 0.0)
    """Means of the first and second row on these questions."""

    @property
    def decided(self) -> bool:
        """Whether one row is better, after the correction."""
        return self.verdict in ("better", "worse")


def comparable(first: Influences | None, second: Influences | None) -> bool:
    """Whether two rows share at least two clusters of questions."""
    if first is None or second is None:
        return False
    try:
        one, two = first.alike(second)
    except ValueError:
        return False
    return all(len(set(sample.ways["problem"].tolist())) > 1 for sample in (one, two))


def shared_samples(samples: Mapping[str, Influences]) -> dict[str, Influences]:
    """The rows over the questions that all of them have. ValueError without any."""
    shared = set(together(samples).questions)
    return {name: part for name, sample in samples.items() if (part := sample.on(shared))}


def contrasts(
    samples: Mapping[str, Influences],
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    equivalence: float = MARGIN,
    error: ErrorKind = "cr3",
    interval: Interval = "t",
) -> tuple[Contrast, ...]:
    """Contrasts of rows by name, in the order of `pairs`; by default of all pairs. Each is over the
    questions that its two rows share; of rows that are not means over questions, over the
    judgements of both. equivalence: the margin within which two rows count as equivalent, in units
    of the score. ValueError for an unknown name, a row against itself, a margin of 0 or less, rows
    that share no question, or a single cluster."""
    chosen = list(itertools.combinations(samples, 2)) if pairs is None else list(pairs)
    if equivalence <= 0:
        raise ValueError(f"a margin of equivalence is above 0, and this one is {equivalence}")
    figures, agree, each_means = _measured_pairs(samples, chosen, error, interval)
    decided = family(chosen, agree, figures, equivalence)
    return tuple(replace(one, means=two) for one, two in zip(decided, each_means, strict=True))


_Measured: TypeAlias = tuple[Sequence[Estimate], Sequence[bool], Sequence[tuple[float, float]]]
"""By pair: the difference, whether the rows agree on all questions, and the means of both."""


def better_pairs(
    samples: Mapping[str, Influences], pairs: Sequence[tuple[str, str]], interval: Interval = "t"
) -> list[tuple[str, str]]:
    """The pairs whose first row is better by `contrasts`, without the rest of its figures, which
    take most of the time of thousands of pairs. ValueError as there."""
    figures, agree, _ = _measured_pairs(samples, pairs, "cr3", interval)
    corrected = holm([figure.p() for figure in figures])
    return [
        pair
        for pair, same, figure, p in zip(pairs, agree, figures, corrected, strict=True)
        if figure.value > 0 and _told_apart(figure, p) and not _identical(same, figure)
    ]


def _identical(agree: bool, figure: Estimate) -> bool:
    """Whether so many clusters agree that two rows count as one."""
    return agree and figure.clusters >= ENOUGH


def _told_apart(figure: Estimate, p_family: float) -> bool:
    """Whether a difference is not 0, after the correction."""
    return p_family <= 1 - LEVEL and bool(figure.value)


def _measured_pairs(
    samples: Mapping[str, Influences],
    chosen: Sequence[tuple[str, str]],
    error: ErrorKind,
    interval: Interval,
) -> _Measured:
    for first, second in chosen:
        if wrong := [name for name in (first, second) if name not in samples]:
            raise ValueError(unknown("row", wrong[0], samples))
        if first == second:
            raise ValueError(f"row {first!r} against itself: a contrast needs two rows")
    if not chosen:
        return (), (), ()
    first_row, *rows = (samples[name] for name in dict.fromkeys(itertools.chain(*chosen)))
    alike = first_row.alone and all(map(first_row.same_questions, rows))
    return (_alike if alike else _pairwise)(samples, chosen, error, interval)


def _alike(
    samples: Mapping[str, Influences],
    chosen: Sequence[tuple[str, str]],
    error: ErrorKind,
    interval: Interval,
) -> _Measured:
    """Contrasts of rows on the same questions, from the matrix of rows × questions."""
    number = {name: n for n, name in enumerate(dict.fromkeys(itertools.chain(*chosen)))}
    rows = [samples[name] for name in number]
    codes = codes_of(rows[0].ways["problem"].tolist())
    if not codes.any():
        raise ValueError(ONE_GROUP.format(*chosen[0]))
    matrix = np.array([row.values for row in rows])
    size = np.abs(matrix).max(axis=1)
    figures, agree = list[Estimate](), list[bool]()
    step = max(1, BLOCK // len(codes))
    for start in range(0, len(chosen), step):
        pairs = chosen[start : start + step]
        one, two = (np.array([number[pair[side]] for pair in pairs]) for side in (0, 1))
        apart = rounded_apart(matrix[one], matrix[two], np.maximum(size[one], size[two]))
        ends = [ends_apart(rows[a].ends, rows[b].ends) for a, b in zip(one, two, strict=True)]
        figures += means(apart, codes, ends, error, interval)
        agree += (np.abs(apart).max(axis=1) <= AGREED).tolist()
    return figures, agree, [(samples[one].value, samples[two].value) for one, two in chosen]


def _pairwise(
    samples: Mapping[str, Influences],
    chosen: Sequence[tuple[str, str]],
    error: ErrorKind,
    interval: Interval,
) -> _Measured:
    """Contrasts of any rows, each pair over the questions that both have."""
    both = [samples[first].alike(samples[second]) for first, second in chosen]
    apart = [one - two for one, two in both]
    for pair, sample in zip(chosen, apart, strict=True):
        if sample.alone and len(set(sample.ways["problem"].tolist())) == 1:
            raise ValueError(ONE_GROUP.format(*pair))
    figures = estimates(apart, error, interval)
    return figures, agreement(apart), [(one.value, two.value) for one, two in both]


ONE_GROUP = "all questions that {} and {} share are of one group: a contrast needs two"


def agreement(apart: Sequence[Influences]) -> list[bool]:
    """Whether each of these differences is 0 on every question."""
    return [one.alone and bool(np.abs(one.values).max() <= AGREED) for one in apart]


def family(
    names: Sequence[tuple[str, str]],
    agree: Sequence[bool],
    figures: Sequence[Estimate],
    equivalence: float = MARGIN,
) -> tuple[Contrast, ...]:
    """Contrasts that are tested together. agree: as `agreement` has it; figures: differences.
    Identical rows stay in the family: its size must not depend on the data."""
    corrected = holm([figure.p() for figure in figures])
    every = zip(names, agree, figures, corrected, strict=True)
    return tuple(_decided(*one, equivalence) for one in every)


def _decided(
    names: tuple[str, str], agree: bool, figure: Estimate, p_family: float, equivalence: float
) -> Contrast:
    if _identical(agree, figure):
        bare = Estimate(0.0, figure.n, figure.clusters, ways=figure.ways)
        return Contrast(*names, bare, None, None, False, None, "identical", agree=figure.n)
    equivalent = figure.equivalent(equivalence)
    verdict: Verdict = "equivalent" if equivalent else "undecided"
    if _told_apart(figure, p_family):
        verdict = "better" if figure.value > 0 else "worse"
    undone = False
    if verdict != "undecided" and figure.guard and not figure.conservative:
        rare, alike = figure.by("conservative"), verdict == "equivalent"
        undone = not (rare.equivalent(equivalence) if alike else rare.p() <= 1 - LEVEL)
    p, mde = figure.p(), figure.mde()
    return Contrast(*names, figure, p, p_family, equivalent, mde, verdict, undone)


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """p-values corrected by Holm's step-down method (Holm 1979), in the given order. The smallest
    of m is multiplied by m, the next by m - 1 and so on; none may fall below an earlier one, and
    none exceeds 1."""
    corrected = [1.0] * len(ps)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda n: ps[n])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = least
    return tuple(corrected)


class RankSet(NamedTuple):
    """Range of ranks that a row may have; 1 is the highest mean."""

    row: str
    best: int
    worst: int


def rank_sets(every: Sequence[Contrast]) -> tuple[RankSet, ...]:
    """Rank set of each row from the contrasts of all pairs; all hold at once with 95 %. Mogstad,
    Romano, Shaikh and Wilhelm (2024, Review of Economic Studies 91): a row ranks below every row
    that is better in the family of all differences, here by Holm's method."""
    names = list(dict.fromkeys(name for one in every for name in (one.first, one.second)))
    best, worst = dict.fromkeys(names, 1), dict.fromkeys(names, len(names))
    for one, p in zip(every, holm([one.p or 1.0 for one in every]), strict=True):
        if p <= 1 - LEVEL and one.estimate.value:
            pair = (one.first, one.second)
            above, below = pair if one.estimate.value > 0 else pair[::-1]
            best[below] += 1
            worst[above] -= 1
    return tuple(RankSet(name, best[name], worst[name]) for name in names)
