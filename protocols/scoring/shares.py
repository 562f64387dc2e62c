"""Intervals of shares, without importing scipy."""

import math

from .quantiles import LEVEL, NORMAL


def wilson(share: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Interval of a share of n trials (Wilson 1927, JASA 22); n may be an effective number.

    Within [0, 1], contains the share, and has positive width even at 0 and 1. ValueError for a
    share outside [0, 1], or n <= 0.
    """
    if not (0 <= share <= 1 and n > 0):
        raise ValueError(f"a share of {share} in {n} trials")
    z = NORMAL.inv_cdf((1 + level) / 2)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # Rounding must not leave the share itself outside.
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))
