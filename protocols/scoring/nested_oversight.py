"""Nested scalable oversight: a chain of models, each overseeing a slightly more capable one.

Engels et al. (2025, arXiv:2504.18530): from general capability E0 to E0 + D in n equal steps,
g_k = E0 + D k / n. At step k the Guard at g_k oversees the Houdini at g_(k+1); all must succeed:

    P_n = product over k = 0 … n - 1 of 1 / (1 + 10^((H(g_(k+1)) - G(g_k)) / 400))

with G and H the fitted lines. For large D more than one step helps if and only if the slope of G
is above that of H and H's is above 0.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from oversight.protocols.scoring.ratings import SCALE

Line: TypeAlias = Callable[[float], float]

STEPS = 20


@dataclass(frozen=True, slots=True)
class Nested:
    """Success probability of nested oversight by number of steps."""

    chances: tuple[float, ...]
    """P_n for n = 1, 2, …"""
    outside: bool
    """Whether a line was extrapolated beyond the capabilities it was fitted on."""

    @property
    def steps(self) -> int:
        """Number of steps with the largest probability; the fewest of those that tie."""
        return 1 + max(range(len(self.chances)), key=lambda n: (self.chances[n], -n))

    @property
    def best(self) -> float:
        return max(self.chances)


def straight_line(slope: float, intercept: float) -> Line:
    return lambda x: slope * x + intercept


def nested_oversight(
    guard: Line,
    houdini: Line,
    *,
    start: float,
    gap: float,
    steps: int = STEPS,
    seen: tuple[float, float] = (-math.inf, math.inf),
) -> Nested:
    """Probabilities of overseeing a model `gap` above `start` in 1 … `steps` steps. seen: the range
    of capabilities that the lines were fitted on."""
    chances = []
    for n in range(1, steps + 1):
        log_chance = 0.0
        for k in range(n):
            ahead = houdini(start + gap * (k + 1) / n) - guard(start + gap * k / n)
            log_chance -= float(np.logaddexp(0.0, SCALE * ahead))
        chances.append(math.exp(log_chance))
    low, high = sorted((start, start + gap))
    return Nested(tuple(chances), low < seen[0] or high > seen[1])


@dataclass(frozen=True, slots=True)
class NestedEstimate:
    """Nested oversight with its uncertainty over resampled problems."""

    estimate: Nested
    interval: tuple[float, float]
    """Interval of the best probability, each resample with its own best number of steps."""
    steps: dict[int, float]
    """Share of resamples by their best number of steps."""


def with_resamples(
    estimate: Nested, resampled: Sequence[Nested], level: float = 0.95
) -> NestedEstimate:
    """Add an interval to an estimate. resampled: from lines fitted to resampled ratings.

    ValueError without resamples.
    """
    if not resampled:
        raise ValueError("an interval needs resamples, and there is none")
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile([each.best for each in resampled], tails)
    counts: dict[int, float] = {}
    for n in sorted(each.steps for each in resampled):
        counts[n] = counts.get(n, 0.0) + 1 / len(resampled)
    return NestedEstimate(estimate, (float(low), float(high)), counts)
