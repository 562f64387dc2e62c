"""Zero crossing of a falling curve: isotonic regression, with an interval from resamples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Floats
from .clustered import Codes, by_cluster
from .quantiles import TAILS


@dataclass(frozen=True, slots=True)
class Crossing:
    """The point at which the falling fit of a curve reaches zero."""

    at: float | None
    """None if there is no crossing within the range of the curve."""
    interval: tuple[float | None, float | None]
    """An end is None if more resamples than that tail do not cross on its side."""
    crossed: float
    """Share of resamples that cross within the range."""


def falling(values: Floats, weights: Floats | None = None) -> Floats:
    """Least-squares fit of a curve that never rises (Barlow et al. 1972), in the given order."""
    from scipy.optimize import isotonic_regression

    return isotonic_regression(values, weights=weights, increasing=False).x


def zero_of(at: Floats, values: Floats, weights: Floats | None = None) -> float | None:
    """The point at which the falling fit of `values` reaches 0, interpolated between grid points;
    None if it starts at 0 or below, or stays above."""
    fit = falling(values, weights)
    below = np.flatnonzero(fit <= 0)
    if not len(below):
        return None
    first = int(below[0])
    if first == 0:
        return float(at[0]) if fit[0] == 0 and values[0] == 0 else None
    high, low = fit[first - 1], fit[first]
    return float(at[first - 1] + (at[first] - at[first - 1]) * high / (high - low))


def crossing(
    at: Sequence[float], curves: Floats, of: Codes, *, seed: int = 0, resamples: int = 500
) -> Crossing:
    """Zero crossing of the mean of problems' curves, with a percentile interval by clusters.

    at: the grid points, rising. curves: problems × points. of: the cluster of each problem.
    """
    points = np.asarray(at, dtype=np.float64)
    sums, sizes = by_cluster(curves, of)
    g = len(sizes)
    drawn = np.random.default_rng(seed).multinomial(g, np.full(g, 1 / g), size=resamples)
    means = (drawn @ sums) / (drawn @ sizes)[:, None]
    zeros = [zero_of(points, mean) for mean in means]
    # A curve that stays above 0 counts as crossing beyond the range; one below, as before it.
    beyond = [np.inf if mean.mean() > 0 else -np.inf for mean in means]
    crossings = np.array([b if z is None else z for z, b in zip(zeros, beyond, strict=True)])
    ends = np.quantile(crossings, TAILS, method="inverted_cdf")
    low, high = (float(end) if np.isfinite(end) else None for end in ends)
    mean = sums.sum(axis=0) / sizes.sum()
    return Crossing(zero_of(points, mean), (low, high), float(np.isfinite(crossings).mean()))
