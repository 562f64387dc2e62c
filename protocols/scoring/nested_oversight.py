"""Nested scalable oversight: a chain of models, each overseeing a slightly more capable one.

Engels et al. (2025, arXiv:2504.18530): from general capability E0 to E0 + D in n equal steps,
g_k = E0 + D k / n. At step k the Guard at g_k oversees the Houdini at g_(k+1); all must succeed:

    P_n = product over k = 0 … n - 1 of 1 / (1 + 10^((H(g_(k+1)) - G(g_k)) / 400))

with G and H the fitted lines. For large D more than one step helps if and only if the slope of G
is above that of H and H's is above 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from .arrays import Floats
from .estimate import Estimate
from .inference import jackknifed
from .ratings import SCALE, Rating, Ratings

Line: TypeAlias = tuple[float, float]
"""Slope and intercept of ratings over capability."""

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
        at = start + gap * np.arange(n + 1) / n
        ahead = np.polyval(houdini, at[1:]) - np.polyval(guard, at[:-1])
        chances.append(math.exp(-float(np.logaddexp(0.0, SCALE * ahead).sum())))
    low, high = sorted((start, start + gap))
    return Nested(tuple(chances), low < seen[0] or high > seen[1])


@dataclass(frozen=True, slots=True)
class NestedEstimate:
    """Nested oversight with its uncertainty over problems."""

    nested: Nested
    estimate: Estimate
    """The best probability; without a group of problems, each fit has its own best number of
    steps."""
    steps: tuple[int, int]
    """Fewest and most steps that are best without some group of problems."""


def nested_from_ratings(
    ratings: Ratings, capability: Mapping[str, float], *, start: float, gap: float
) -> NestedEstimate:
    """Success probabilities of nested oversight, with straight lines for Guard and Houdini.

    Each rating is weighted by the inverse of its variance. Ratings that are only bounds are
    left out. Both lines are fitted without the same problems, which keeps their dependence.
    ValueError for a model without a capability, or fewer than three ratings of a role.
    """
    guards = _Role("judge", ratings.guards, capability)
    houdinis = _Role("agent", ratings.houdinis, capability)
    errors = ratings.without.std(axis=0)
    m = len(ratings.guards)
    seen = [*guards.at, *houdinis.at]

    def nested(row: Floats) -> Nested:
        return nested_oversight(
            guards.fit(row[:m], errors[:m]),
            houdinis.fit(row[m:], errors[m:]),
            start=start,
            gap=gap,
            seen=(min(seen), max(seen)),
        )

    whole = nested(np.array([one.rating for one in (*ratings.guards, *ratings.houdinis)]))
    without = [nested(row) for row in ratings.without]
    # On the scale of log odds, where the interval stays between 0 and 1.
    moved = np.array([_log_odds(each.best) for each in without])
    estimate = jackknifed(_log_odds(whole.best), moved, ratings.guards[0].estimate.n)
    interval = estimate.interval
    stated = interval and (_share(interval[0]), _share(interval[1]))
    best = replace(estimate, value=whole.best, error=None, stated=stated, ends=(0.0, 1.0))
    steps = [each.steps for each in without]
    return NestedEstimate(whole, best, (min(steps), max(steps)))


def _log_odds(share: float) -> float:
    held = min(max(share, 1e-12), 1 - 1e-12)
    return math.log(held / (1 - held))


def _share(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


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

    def fit(self, ratings: Floats, errors: Floats) -> Line:
        weights = 1 / np.maximum(errors[self.places], 1e-9)
        slope, intercept = np.polyfit(self.at, ratings[self.places], 1, w=weights)
        return float(slope), float(intercept)
