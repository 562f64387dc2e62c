"""Ratios of means with Fieller intervals."""

import math
from dataclasses import dataclass

import numpy as np

from .arrays import Floats
from .quantiles import LEVEL, t_of


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two means with its interval."""

    estimate: float
    interval: tuple[float, float] | None
    """None if the denominator may be 0: the ratio is then undetermined."""


def fieller(numerator: float, denominator: float, covariance: Floats, *, degrees: int) -> Ratio:
    """Ratio of two jointly estimated means (Fieller 1954, JRSS B 16).

    The interval is all r with (m1 - r m2)^2 <= t^2 (v11 - 2 r v12 + r^2 v22). If m2 does not differ
    significantly from 0 that set is unbounded, and the ratio undetermined.
    covariance: 2 × 2, of the means. ValueError for a denominator of exactly 0.
    """
    if denominator == 0:
        raise ValueError("a ratio with a denominator of 0")
    square = t_of(LEVEL, degrees) ** 2
    (v11, v12), (_, v22) = covariance.tolist()
    a = denominator**2 - square * v22
    b = numerator * denominator - square * v12
    c = numerator**2 - square * v11
    estimate = numerator / denominator
    if a <= 0:
        return Ratio(estimate, None)
    root = math.sqrt(max(0.0, b * b - a * c))
    return Ratio(estimate, ((b - root) / a, (b + root) / a))


def gap_recovered(asd: Floats, naive: Floats, most: float, *, degrees: int) -> Ratio:
    """Incentive gap recovered: (ASD - ASD naive) / (most ASD - ASD naive).

    asd, naive: resampled means of the two rows, from the same resamples, the estimates first. most:
    the ASD of a perfect judge. Undetermined if the gap may be 0.
    """
    covariance = np.cov(np.stack((asd[1:] - naive[1:], most - naive[1:])))
    gap = float(most - naive[0])
    return fieller(float(asd[0] - naive[0]), gap, covariance, degrees=degrees)
