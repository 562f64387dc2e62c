"""Looking while the run goes on: intervals that hold at every look, and when to stop paying.

The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024, Annals
of Statistics 52; arXiv:2103.06476): after t clusters

    mean ± s sqrt( 2 (t r^2 + 1) / (t^2 r^2) * log( sqrt(t r^2 + 1) / alpha ) )

covers the truth at all t at once with probability 1 - alpha, once t is large enough for the
standard deviation s to be known; so nobody looks before `FIRST_LOOK` clusters. r is tuned to be
narrowest near t*: r^2 = (-2 ln alpha + ln(-2 ln alpha) + 1) / t*.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from oversight.protocols.scoring.arrays import Floats

SequentialOutcome: TypeAlias = Literal["above", "below", "precise", "undecided"]

FIRST_LOOK = 20
"""Clusters before the first look."""


def tuned(at: float, alpha: float = 0.05) -> float:
    """r for the sequence that is narrowest after `at` clusters."""
    far = -2 * math.log(alpha)
    return math.sqrt((far + math.log(far) + 1) / at)


def half_widths(clusters: Floats, r: float, alpha: float = 0.05) -> Floats:
    """Half the width of the sequence after so many clusters, in standard deviations of one."""
    grown = clusters * r * r + 1
    found: Floats = np.sqrt(2 * grown / (clusters**2 * r * r) * np.log(np.sqrt(grown) / alpha))
    return found


def checkpoints(clusters: int, *, first: int = FIRST_LOOK, growth: float = 1.15) -> tuple[int, ...]:
    """After how many of the clusters one looks: the same on every resume and replay.

    From `first` on by 15 % more each time, and after the last. Fewer clusters than `first` are
    looked at once, at the end.
    """
    looks = []
    at = float(first)
    while round(at) < clusters:
        looks.append(round(at))
        at = max(at * growth, at + 1)
    return (*looks, clusters)


def order(clusters: Iterable[str], seed: int) -> tuple[str, ...]:
    """The clusters in the seeded order in which they are run, whatever order they come in."""
    names = sorted(set(clusters))
    return tuple(names[n] for n in np.random.default_rng(seed).permutation(len(names)))


@dataclass(frozen=True, slots=True)
class Rule:
    """What ends a run early: the sign of a difference is known, or its precision is reached.

    ValueError if neither is asked for.
    """

    threshold: float | None = None
    """Stop once the interval lies above or below this."""
    precision: float | None = None
    """Stop once half the interval is no wider than this."""
    alpha: float = 0.05
    tuned_at: int = 100
    """Clusters after which the sequence is to be narrowest."""

    def __post_init__(self) -> None:
        if self.threshold is None and self.precision is None:
            raise ValueError("a rule to stop needs a threshold or a precision")
        if self.precision is not None and self.precision <= 0:
            raise ValueError(f"a precision of {self.precision} is never reached; it is above 0")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; it lies between 0 and 1")


@dataclass(frozen=True, slots=True)
class Decision:
    """What is known at a look."""

    outcome: SequentialOutcome
    clusters: int
    """Clusters read when this was decided."""
    mean: float
    interval: tuple[float, float]
    """Holds at this look and at all others at once."""

    @property
    def stops(self) -> bool:
        return self.outcome != "undecided"


def decide(
    sums: Floats,
    sizes: Floats,
    rule: Rule,
    looks: Sequence[int],
    ends: tuple[float, float] | None = None,
) -> Decision:
    """The first look at which the rule is met, or the last one there is.

    sums, sizes: of the clusters so far, in the order in which they were run. The same clusters
    decide the same, however often the run was interrupted. The mean is by questions, and its
    standard deviation that of clusters around it. ends: the lowest and the highest difference; with
    them each look counts a pseudo-cluster at either, for where differences are rare the first
    dozens of clusters show too little deviation. ValueError before the first look.
    """
    there = [look for look in looks if look <= len(sums)]
    if not there:
        raise ValueError(f"{len(sums)} clusters: the first look is after {min(looks)}")
    for t in there:
        found = _look(sums[:t], sizes[:t], rule, ends)
        if found.stops:
            break
    return found


def _look(sums: Floats, sizes: Floats, rule: Rule, ends: tuple[float, float] | None) -> Decision:
    t = len(sums)
    if ends is not None:
        size = float(sizes.mean())
        sums = np.append(sums, [size * end for end in ends])
        sizes = np.append(sizes, [size, size])
    n, count = float(sizes.sum()), len(sums)
    mean = float(sums.sum()) / n
    # What each cluster adds to the mean, in units of a cluster of average size.
    shares = (sums - mean * sizes) * (count / n)
    deviation = math.sqrt(float(np.square(shares).sum()) / max(count - 1, 1))
    r = tuned(rule.tuned_at, rule.alpha)
    half = deviation * float(half_widths(np.array([t], np.float64), r, rule.alpha)[0])
    interval = (mean - half, mean + half)
    # Clusters that are all alike show no deviation, and decide nothing.
    outcome = _met(rule, interval, half) if deviation > 0 else "undecided"
    return Decision(outcome, t, mean, interval)


def _met(rule: Rule, interval: tuple[float, float], half: float) -> SequentialOutcome:
    if rule.threshold is not None:
        if interval[0] > rule.threshold:
            return "above"
        if interval[1] < rule.threshold:
            return "below"
    return "precise" if rule.precision is not None and half <= rule.precision else "undecided"
