"""Quantiles of the normal distribution and of Student's t, without importing scipy.

Reports need only these two, and scipy is slow to import.
"""

import math
from functools import lru_cache
from statistics import NormalDist

NORMAL = NormalDist()

LEVEL = 0.95
"""Confidence level of the intervals of reports."""
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
"""Probabilities at the ends of a percentile interval of this level."""


def t_cdf(t: float, degrees: int) -> float:
    """P(T <= t) of Student's t with a whole number of degrees of freedom.

    The finite series of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4. ValueError for fewer than
    1 degree of freedom.
    """
    if degrees < 1:
        raise ValueError(f"t with {degrees} degrees of freedom; it needs at least 1")
    angle = math.atan2(t, math.sqrt(degrees))
    sin, cos = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    # The terms of the series shrink: each is at most cos^2 < 1 times the one before.
    term = total = cos if odd else 1.0
    for m in range(2 + odd, degrees - 1, 2):
        term *= cos * cos * (m - 1) / m
        total += term
    if degrees == 1:
        between = 2 * angle / math.pi
    elif odd:
        between = 2 / math.pi * (angle + sin * total)
    else:
        between = sin * total
    return (1 + between) / 2


@lru_cache(maxsize=1024)
def t_quantile(p: float, degrees: int) -> float:
    """Quantile of Student's t at probability p in (0, 1), to 12 digits.

    Above 10,000 degrees of freedom the normal quantile, within 0.01 %. ValueError for another p.
    """
    if not 0 < p < 1:
        raise ValueError(f"a quantile at probability {p}, which is not between 0 and 1")
    if degrees > 10_000:
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
