"""Quantiles of the normal distribution and of Student's t, without a library that is slow to load.

A report needs these two and nothing more; `scipy` is loaded only by what needs more than that.
"""

import math
from functools import lru_cache
from statistics import NormalDist

NORMAL = NormalDist()


def t_cdf(t: float, degrees: int) -> float:
    """P(T <= t) of Student's t with a whole number of degrees of freedom.

    The finite series of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4. ValueError if there is
    no degree of freedom.
    """
    if degrees < 1:
        raise ValueError(f"t with {degrees} degrees of freedom; it needs at least 1")
    angle = math.atan2(t, math.sqrt(degrees))
    sin, cos = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    # Beyond this the terms of the series are cos^m, and cos is below 1: they only ever shrink.
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
    """The t below which Student's t lies with probability p, to 12 digits. p in (0, 1).

    Above 10,000 degrees of freedom that of the normal distribution, 0.01 % away.
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
    """How many standard errors a two-sided interval of this level reaches to either side."""
    return t_quantile((1 + level) / 2, degrees)
