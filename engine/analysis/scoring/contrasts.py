"""Contrasts: the difference between two rows, its interval, and what is decided by inverting it.

A contrast is first minus second. Rows of one run are paired question by question; rows without
common questions are compared as two samples. Interval, p, equivalence, minimum
detectable effect and the family's p come from one error (`inference`).

Families are corrected by Holm's method over these p. It holds for any dependence between contrasts,
so also where rows differ in spread and shape; a test by sign flips of questions does not: it takes
a steady row and one of equal mean with rare disasters for different.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from .estimate import LEVEL, Estimate, Interval
from .inference import ErrorKind, Influences, estimates, together

Name = TypeVar("Name", str, int)

ContrastVerdict: TypeAlias = Literal["first better", "second better", "equivalent", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Contrast:
    """First minus second, over the questions that both have."""

    first: str
    second: str
    means: tuple[float, float]
    """Means of the first and second row on these questions."""
    estimate: Estimate
    p: float
    """Two-sided, in (0, 1], of this contrast alone."""
    p_family: float
    """p corrected for the family of all contrasts tested (Holm 1979)."""
    equivalent: bool
    """Whether the 90 % interval lies within the margin."""
    mde: float | None
    """Minimum detectable effect: the smallest difference found by these questions with power .8;
    None if they are too few to find any that is possible."""
    verdict: ContrastVerdict
    undone: bool = False
    """Whether errors too rare to have been seen could undo the verdict: the guard does not say
    it."""


def shared_samples(samples: Mapping[str, Influences]) -> dict[str, Influences]:
    """The rows over the questions that all of them have. ValueError without any."""
    shared = set(together(samples).questions)
    return {name: found for name, each in samples.items() if (found := each.on(shared))}


def contrasts(
    samples: Mapping[str, Influences],
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    equivalence: float = 0.05,
    error: ErrorKind = "cr3",
    interval: Interval = "t",
) -> tuple[Contrast, ...]:
    """Contrasts of rows by name, in the order of `pairs`; by default of all pairs.

    Each is over the questions that its two rows share; of rows that are no means over questions,
    over the judgements of both. equivalence: the margin within which two
    rows count as equivalent, in units of the score. ValueError for an unknown name, a row against
    itself, a margin of 0 or less, rows that share no question, or a single cluster.
    """
    chosen = list(itertools.combinations(samples, 2)) if pairs is None else list(pairs)
    for first, second in chosen:
        if unknown := [name for name in (first, second) if name not in samples]:
            raise ValueError(f"no row is called {unknown[0]!r}; there are {', '.join(samples)}")
        if first == second:
            raise ValueError(f"row {first!r} against itself: a contrast needs two rows")
    both = [samples[first].alike(samples[second]) for first, second in chosen]
    apart = [one - two for one, two in both]
    for (first, second), each in zip(chosen, apart, strict=True):
        if each.alone and len(set(each.ways["problem"].tolist())) == 1:
            raise ValueError(
                f"all questions that {first} and {second} share are of one group: a contrast "
                "needs two"
            )
    if equivalence <= 0:
        raise ValueError(f"a margin of equivalence is above 0, and this one is {equivalence}")
    found = estimates(apart, error, interval)
    ps = [each.p() for each in found]
    every = zip(chosen, both, found, ps, holm(ps), strict=True)
    return tuple(
        _decided(names, (one.value, two.value), each, p, p_family, equivalence)
        for names, (one, two), each, p, p_family in every
    )


def _decided(
    names: tuple[str, str],
    means: tuple[float, float],
    its: Estimate,
    p: float,
    p_family: float,
    equivalence: float,
) -> Contrast:
    equivalent = its.equivalent(equivalence)
    verdict: ContrastVerdict = "equivalent" if equivalent else "inconclusive"
    if p_family <= 1 - LEVEL and its.value:
        verdict = "first better" if its.value > 0 else "second better"
    undone = False
    if verdict != "inconclusive" and its.guard and not its.guarded:
        rare, alike = its.by("guarded"), verdict == "equivalent"
        undone = not (rare.equivalent(equivalence) if alike else rare.p() <= 1 - LEVEL)
    return Contrast(*names, means, its, p, p_family, equivalent, its.mde(), verdict, undone)


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """p-values corrected by Holm's step-down method (Holm 1979), in the given order.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none may fall below an
    earlier one, and none exceeds 1.
    """
    corrected = [1.0] * len(ps)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda n: ps[n])):
        least = max(least, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = least
    return tuple(corrected)


class RankSet(NamedTuple):
    """Range of ranks that a row may have; 1 is the highest mean."""

    best: int
    worst: int


def rank_sets(every: Sequence[Contrast]) -> dict[str, RankSet]:
    """Rank set of each row from the contrasts of all pairs; all hold at once with 95 %.

    Mogstad, Romano, Shaikh and Wilhelm (2024, Review of Economic Studies 91): a row ranks below
    every row that is better in the family of all differences, here by Holm's method.
    """
    names = list(dict.fromkeys(name for each in every for name in (each.first, each.second)))
    best, worst = dict.fromkeys(names, 1), dict.fromkeys(names, len(names))
    for each, p in zip(every, holm([each.p for each in every]), strict=True):
        if p <= 1 - LEVEL and each.estimate.value:
            pair = (each.first, each.second)
            above, below = pair if each.estimate.value > 0 else pair[::-1]
            best[below] += 1
            worst[above] -= 1
    return {name: RankSet(best[name], worst[name]) for name in names}
