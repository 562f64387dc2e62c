"""Krippendorff's alpha: agreement of several raters beyond chance.

Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: alpha = 1 - D_o / D_e, the squared
distances of values within units against those of all values that can be paired. Any number of
raters, each of whom may have rated any of the units; units with a single value are left out.
Values are points: a number for interval data, an indicator vector for nominal data (all unlike
values are then equally far apart), a probability vector as it is.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .arrays import Floats, by_cluster, codes_of
from .estimate import Estimate
from .inference import jackknifed

RatedPoint: TypeAlias = Sequence[float]
MIN_UNITS = 20
"""Clusters of units below which alpha has no interval: the jackknife's covers too little there."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Krippendorff's alpha with its interval."""

    alpha: Estimate
    """1 for perfect agreement, 0 for chance, negative for systematic disagreement."""
    units: int
    """Units with at least two values."""
    values: int
    """Values in those units."""


def krippendorff_alpha(
    units: Sequence[Sequence[RatedPoint]],
    clusters: Sequence[Hashable] = (),
) -> Agreement | None:
    """Alpha of ratings; None if no values can be paired, or all are equal.

    units: the values of each unit, points of equal length. clusters: the cluster with which each
    unit is resampled, such as its problem; by default each unit is its own.
    """
    keys = list(clusters) or list(range(len(units)))
    paired = [(unit, c) for unit, c in zip(units, keys, strict=True) if len(unit) > 1]
    if not paired:
        return None
    rows = np.array([_sums(np.asarray(unit, dtype=np.float64)) for unit, _ in paired])
    alpha = float(_alpha(rows.sum(axis=0)[None, :])[0])
    if np.isnan(alpha):
        return None
    summed, _ = by_cluster(rows, codes_of([cluster for _, cluster in paired]))
    n, g, values = len(paired), len(summed), sum(len(unit) for unit, _ in paired)
    if g < MIN_UNITS:
        reason = f"{g} units or groups of them; its interval holds from {MIN_UNITS} on"
        return Agreement(Estimate(alpha, n, g, reason=reason), n, values)
    without = _alpha(summed.sum(axis=0) - summed)
    return Agreement(jackknifed(alpha, without, n, (-1.0, 1.0)), n, values)


def _sums(points: Floats) -> Floats:
    """Additive statistics of one unit: distances within over (m - 1), m, the squared lengths of its
    points, and the sum of the points."""
    m = len(points)
    within = 2 * m * float(np.square(points - points.mean(axis=0)).sum()) / (m - 1)
    head = [within, m, float(np.square(points).sum())]
    return np.concatenate((head, points.sum(axis=0)))


def _alpha(sums: Floats) -> Floats:
    """Alpha from sums over units, one row each; NaN if all values are equal."""
    within, n, squares, total = sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]
    # Sum of all squared distances, computed from the points' lengths and their sum.
    all_pairs = 2 * (n * squares - np.square(total).sum(axis=1))
    flat = all_pairs <= 1e-12 * np.maximum(n * squares, 1e-300)
    expected = np.where(flat, np.nan, all_pairs / np.maximum(n - 1, 1))
    return 1 - within / expected


def shrunk(means: Floats, variances: Floats, centre: float) -> Floats:
    """Each mean drawn to the centre by the share of its variance that is chance (empirical Bayes;
    Morris 1983). variances: of the chance errors of the means, above 0; if they are 0, or there is
    one mean, nothing is drawn."""
    if len(means) < 2 or not variances.all():
        return means
    # tau^2, the variance of the true means, by the moments of DerSimonian and Laird (1986).
    w = 1 / variances
    q = float((w * np.square(means - (w * means).sum() / w.sum())).sum())
    moment = (q - (len(means) - 1)) / float(w.sum() - (w**2).sum() / w.sum())
    tau2 = max(0.0, moment)
    drawn: Floats = centre + tau2 / (tau2 + variances) * (means - centre)
    return drawn
