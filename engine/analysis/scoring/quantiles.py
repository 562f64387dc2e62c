"""Quantiles of Student's t, without importing scipy or numpy, which are slow to import."""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from .arrays import Floats

Number = TypeVar("Number", float, "Floats")

NORMAL = NormalDist()

LEVEL = 0.95
"""Confidence level of the intervals of reports."""

MANY = 10_000
"""Degrees of freedom above which t is normal, within 0.01 %."""


def t_cdf(t: float, degrees: int) -> float:
    """P(T <= t) of Student's t. ValueError for fewer than 1 degree of freedom."""
    if degrees < 1:
        raise ValueError(f"t with {degrees} degrees of freedom; it needs at least 1")
    if degrees > MANY:
        return NORMAL.cdf(t)
    angle = math.atan2(t, math.sqrt(degrees))
    return (1 + between(angle, math.sin(angle), math.cos(angle), degrees)) / 2


def between(angle: Number, sin: Number, cos: Number, degrees: int) -> Number:
    """P(-t <= T <= t) by the finite series of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4."""
    odd = degrees % 2
    # The terms of the series shrink: each is at most cos^2 < 1 times the one before.
    term = cos if odd else cos * 0 + 1
    total, square = term, cos * cos
    for m in range(2 + odd, degrees - 1, 2):
        term = term * (square * ((m - 1) / m))
        total = total + term
    if degrees == 1:
        return angle * (2 / math.pi)
    return (angle + sin * total) * (2 / math.pi) if odd else sin * total


@lru_cache(maxsize=4096)
def t_quantile(p: float, degrees: int) -> float:
    """Quantile of Student's t at probability p in (0, 1), to 12 digits.

    Above 10,000 degrees of freedom the normal quantile, within 0.01 %. ValueError for another p.
    """
    if not 0 < p < 1:
        raise ValueError(f"a quantile at probability {p}, which is not between 0 and 1")
    if degrees > MANY:
        return NORMAL.inv_cdf(p)
    if p < 0.5:
        return -t_quantile(1 - p, degrees)
    low, high = 0.0, 1.0
    while t_cdf(high, degrees) < p:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, degrees) < p else (low, middle)
    return (low + high) / 2


def t_of(level: float, degrees: int) -> float:
    """Half the width of a two-sided t interval of this level, in standard errors."""
    return t_quantile((1 + level) / 2, degrees)
