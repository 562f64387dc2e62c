"""Sequential intervals that are valid at every look, and a rule for stopping early.

The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024, Annals
of Statistics 52; arXiv:2103.06476): after t clusters

    mean ± s sqrt( 2 (t r^2 + 1) / (t^2 r^2) * log( sqrt(t r^2 + 1) / alpha ) )

covers the truth at all t at once with probability 1 - alpha, once t is large enough to estimate
the standard deviation s; so the first look comes after `FIRST_LOOK` clusters. r is tuned to make
the interval narrowest near t*: r^2 = (-2 ln alpha + ln(-2 ln alpha) + 1) / t*.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from .arrays import Floats
from .estimate import Ends

SequentialOutcome: TypeAlias = Literal["above", "below", "precise", "undecided"]

FIRST_LOOK = 20
"""Clusters before the first look."""


def tuned(at: float, alpha: float = 0.05) -> float:
    """The r whose sequence is narrowest after `at` clusters."""
    far = -2 * math.log(alpha)
    return math.sqrt((far + math.log(far) + 1) / at)


def half_widths(clusters: Floats, r: float, alpha: float = 0.05) -> Floats:
    """Half the width of the sequence after `clusters` clusters, in standard deviations of one."""
    grown = clusters * r * r + 1
    return np.sqrt(2 * grown / (clusters**2 * r * r) * np.log(np.sqrt(grown) / alpha))


def checkpoints(clusters: int, *, first: int = FIRST_LOOK, growth: float = 1.15) -> tuple[int, ...]:
    """Numbers of clusters after which to look, the same on every resume and replay.

    From `first` on in steps of 15 %, and after the last cluster. With fewer clusters than `first`
    there is one look, at the end.
    """
    looks = []
    at = float(first)
    while round(at) < clusters:
        looks.append(round(at))
        at = max(at * growth, at + 1)
    return (*looks, clusters)


def order(clusters: Iterable[str], seed: int) -> tuple[str, ...]:
    """Seeded run order of the clusters, independent of the order in which they are given."""
    names = sorted(set(clusters))
    return tuple(names[n] for n in np.random.default_rng(seed).permutation(len(names)))


@dataclass(frozen=True, slots=True)
class Rule:
    """Stopping rule: the sign of a difference is known, or its precision is reached.

    ValueError without threshold and precision, or for values out of range.
    """

    threshold: float | None = None
    """Stop once the interval lies above or below this."""
    precision: float | None = None
    """Stop once half the width of the interval is at most this."""
    alpha: float = 0.05
    tuned_at: int = 100
    """Number of clusters after which the sequence is narrowest."""

    def __post_init__(self) -> None:
        if self.threshold is None and self.precision is None:
            raise ValueError("a rule to stop needs a threshold or a precision")
        if self.precision is not None and self.precision <= 0:
            raise ValueError(f"a precision of {self.precision} is never reached; it is above 0")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; it lies between 0 and 1")


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a look."""

    outcome: SequentialOutcome
    clusters: int
    """Clusters run at this look."""
    mean: float
    interval: tuple[float, float]
    """Valid at this look and all others at once."""

    @property
    def stops(self) -> bool:
        return self.outcome != "undecided"


def decide(
    sums: Floats,
    sizes: Floats,
    rule: Rule,
    looks: Sequence[int],
    ends: Ends | None = None,
) -> Decision | None:
    """Decision at the first look at which the rule is met, or at the last possible look; None
    before the first one.

    sums, sizes: of the clusters so far, in run order. The decision depends only on these, not on
    interruptions of the run. The mean is over questions, its standard deviation over clusters.
    Clusters of size 0 failed and carry no information: until enough others have completed there is
    no look but the last. ends: the lowest and the highest possible difference; with them each look
    adds a pseudo-cluster at each end, because the first dozens of clusters show too little
    deviation if differences are rare.
    """
    decision = None
    for t in looks:
        there = sizes[:t] > 0
        count = int(there.sum())
        early = count < min(FIRST_LOOK, looks[-1]) and t < looks[-1]
        if t > len(sums) or count < 2 or early:
            continue
        decision = _look(t, sums[:t][there], sizes[:t][there], rule, ends)
        if decision.stops:
            break
    return decision


def _look(at: int, sums: Floats, sizes: Floats, rule: Rule, ends: Ends | None) -> Decision:
    t, mean = len(sums), float(sums.sum() / sizes.sum())
    if ends is not None:
        size = float(sizes.mean())
        sums = np.append(sums, [size * end for end in ends])
        sizes = np.append(sizes, [size, size])
    r = tuned(rule.tuned_at, rule.alpha)
    half = float(half_widths(np.array([t], np.float64), r, rule.alpha)[0])
    interval = _unexcluded(sums, sizes, half)
    # Identical clusters have an interval of width 0, which must not decide.
    if interval is None or interval[1] - interval[0] <= 1e-12 * max(1.0, abs(mean)):
        return Decision("undecided", at, mean, interval or (-math.inf, math.inf))
    outcome = _met(rule, interval, (interval[1] - interval[0]) / 2)
    return Decision(outcome, at, mean, interval)


def _unexcluded(sums: Floats, sizes: Floats, half: float) -> Ends | None:
    """All means x for which the clusters' sums less x times their sizes may have the mean 0; None
    if there is no end to them.

    Under x these differences have the mean 0 exactly, also where a cluster's size goes with its
    score, which biases the ratio of the sums to the sizes in the first dozens of clusters.
    """
    covariance = np.cov(np.stack((sums, sizes))) * half**2
    (v11, v12), (_, v22) = covariance.tolist()
    m1, m2 = float(sums.mean()), float(sizes.mean())
    a, b, c = m2**2 - v22, m1 * m2 - v12, m1**2 - v11
    if a <= 0:
        return None
    root = math.sqrt(max(0.0, b * b - a * c))
    return (b - root) / a, (b + root) / a


def _met(rule: Rule, interval: tuple[float, float], half: float) -> SequentialOutcome:
    if rule.threshold is not None:
        if interval[0] > rule.threshold:
            return "above"
        if interval[1] < rule.threshold:
            return "below"
    return "precise" if rule.precision is not None and half <= rule.precision else "undecided"
