"""Nested scalable oversight: a chain of models, each overseeing a slightly more capable one.

Engels et al. (2025, arXiv:2504.18530): from general capability E0 to E0 + D in n equal steps,
g_k = E0 + D k / n. At step k the Guard at g_k oversees the Houdini at g_(k+1); all must succeed:

    P_n = product over k = 0 … n - 1 of 1 / (1 + 10^((H(g_(k+1)) - G(g_k)) / 400))

with G and H the fitted lines. For large D more than one step helps if and only if the slope of G
is above that of H and H's is above 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .arrays import Floats
from .quantiles import TAILS
from .ratings import SCALE, Rating, Ratings

Line: TypeAlias = Callable[[float], float]

STEPS = 20
"""Largest number of steps that is tried."""

MIN_MODELS = 3
"""Fewest ratings of a role: any two points lie on a line."""


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
    seen: tuple[float, float] = (-math.inf, math.inf),
) -> Nested:
    """Probabilities of overseeing a model `gap` above `start` in 1 … STEPS steps. seen: the range
    of capabilities that the lines were fitted on."""
    chances = []
    for n in range(1, STEPS + 1):
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


def with_resamples(estimate: Nested, resampled: Sequence[Nested]) -> NestedEstimate:
    """Add an interval to an estimate. resampled: from lines fitted to resampled ratings.

    ValueError without resamples.
    """
    if not resampled:
        raise ValueError("an interval needs resamples, and there is none")
    low, high = np.quantile([each.best for each in resampled], TAILS)
    counts: dict[int, float] = {}
    for n in sorted(each.steps for each in resampled):
        counts[n] = counts.get(n, 0.0) + 1 / len(resampled)
    return NestedEstimate(estimate, (float(low), float(high)), counts)


def nested_from_ratings(
    ratings: Ratings, capability: Mapping[str, float], *, start: float, gap: float
) -> NestedEstimate:
    """Success probabilities of nested oversight, with straight lines for Guard and Houdini.

    Each rating is weighted by the inverse of its variance over resamples. Ratings that are only
    bounds are left out. Both lines come from the same resample of problems, which keeps their
    dependence. ValueError for a model without a capability, or fewer than three ratings of a role.
    """
    guards = _Role("Guard", ratings.guards, capability)
    houdinis = _Role("Houdini", ratings.houdinis, capability)
    errors = ratings.resampled.std(axis=0)
    m = len(ratings.guards)
    seen = [*guards.at, *houdinis.at]

    def nested(row: Floats) -> Nested:
        return nested_oversight(
            straight_line(*guards.fit(row[:m], errors[:m])),
            straight_line(*houdinis.fit(row[m:], errors[m:])),
            start=start,
            gap=gap,
            seen=(min(seen), max(seen)),
        )

    whole = np.array([one.rating for one in (*ratings.guards, *ratings.houdinis)])
    return with_resamples(nested(whole), [nested(row) for row in ratings.resampled])


class _Role:
    def __init__(self, name: str, of: Sequence[Rating], capability: Mapping[str, float]) -> None:
        if missing := [one.model for one in of if one.model not in capability]:
            raise ValueError(f"no capability is given for {', '.join(missing)}")
        self.places = [n for n, one in enumerate(of) if not one.bounded]
        if len(self.places) < MIN_MODELS:
            raise ValueError(
                f"a line of {name} ratings needs {MIN_MODELS} models that won some and lost some, "
                f"and there are {len(self.places)}"
            )
        self.at = [capability[of[n].model] for n in self.places]
        if len(set(self.at)) < 2:
            raise ValueError(
                f"all {name} models have the same capability: no line goes through them"
            )

    def fit(self, ratings: Floats, errors: Floats) -> tuple[float, float]:
        weights = 1 / np.maximum(errors[self.places], 1e-9)
        slope, intercept = np.polyfit(self.at, ratings[self.places], 1, w=weights)
        return float(slope), float(intercept)
