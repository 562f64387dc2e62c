"""Calibration and flips of verdicts, differences between seats, and agreement of raters.

Agreement beyond chance is Krippendorff's alpha (2011): 1 - D_o / D_e, the mean squared
distances of values within units against distances of all values that can be paired. Any number of
raters, each of whom may have rated any of the units; units with a single value are left out.
Values are points: a number for interval data, an indicator vector for nominal data (all unlike
values are then equally far apart), a probability vector as it is."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from .estimate import Ends, Estimate
from .inference import Floats, Places, by_cluster, codes_of, jackknifed, means

BINS = 10


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration of probabilities against outcomes, over bins of equal width."""

    n: int
    brier: float
    """Mean of (p - outcome)^2, in [0, 1]; = reliability - resolution + uncertainty + within."""
    reliability: float
    """Mean squared distance of bins' mean probability from their share of positives; 0 is best."""
    resolution: float
    """Mean squared distance of bins' shares from the overall share."""
    uncertainty: float
    """Variance of the outcome: share (1 - share)."""
    within: float
    """Loss from binning unlike probabilities together (Stephenson et al. 2008)."""
    error: float
    """Mean distance of bins' mean probability from their share of positives (ECE), not debiased."""
    debiased_error: float
    """Square root of reliability minus its bias from chance; at least 0."""
    overconfidence: float
    """Mean probability minus the share of positives."""


def calibration(p: Floats, outcome: Floats, cluster: Places) -> Calibration:
    """Murphy's (1973) decomposition over bins of equal width, and the debiased calibration error of
    Kumar, Liang and Ma (2019, arXiv:1909.10155): in a bin of n with share s the squared distance is
    too large by s (1 - s) / (n - 1) on average, and by more where verdicts of one `cluster` share
    their outcome. Bins of one cluster can't be debiased and do not count in that error. ValueError
    without a question."""
    if not len(p):
        raise ValueError("calibration of no question")
    n, base = len(p), float(outcome.mean())
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    _, place, size = np.unique(bins, return_inverse=True, return_counts=True)
    mean_p, share = (np.bincount(place, weights=values) / size for values in (p, outcome))
    squared_gap = np.square(mean_p - share)
    reliability = float((size * squared_gap).sum()) / n
    resolution = float((size * np.square(share - base)).sum()) / n
    brier = float(np.square(p - outcome).mean())
    uncertainty = base * (1 - base)
    clusters, cluster = np.unique(cluster * BINS + place, return_inverse=True)
    moved = np.square(np.bincount(cluster, weights=outcome - share[place]))
    g, squares = (np.bincount(clusters % BINS, weights=weights) for weights in (None, moved))
    drawn = g * squares / np.square(size)
    chance = np.divide(drawn, g - 1, out=squared_gap.copy(), where=g > 1)
    debiased = float((size * (squared_gap - chance)).sum()) / n
    return Calibration(
        n,
        brier,
        reliability,
        resolution,
        uncertainty,
        brier - (reliability - resolution + uncertainty),
        float((size * np.abs(mean_p - share)).sum()) / n,
        max(0.0, debiased) ** 0.5,
        float(p.mean()) - base,
    )


def bars(p: Floats, outcome: Floats, problem: Places) -> list[tuple[float, Estimate]]:
    """Mean probability and share of positives of each bin that is not empty. Verdicts on one
    problem share its outcome, so clusters of problems, not verdicts, are what is random."""
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    points = []
    for bin in np.unique(place).tolist():
        inside = np.flatnonzero(place == bin)
        clusters = np.unique(problem[inside], return_inverse=True)[1]
        share = means([outcome[inside].tolist()], clusters, [(0.0, 1.0)])[0]
        points.append((float(p[inside].mean()), share))
    return points


SMALL_EFFECT = 0.2
"""Standardised difference above which the effort of two sides is flagged (Cohen 1988: small)."""


@dataclass(frozen=True, slots=True)
class Flips:
    """Changes of correctness between the judge alone and under a protocol; shares of questions."""

    right_right: float
    right_wrong: float
    """Right alone, wrong under the protocol."""
    wrong_right: float
    wrong_wrong: float

    @property
    def misled(self) -> float | None:
        """P(wrong after | right alone); None if it was never right alone."""
        right = self.right_right + self.right_wrong
        return self.right_wrong / right if right else None

    @property
    def corrected(self) -> float | None:
        """P(right after | wrong alone); None if it was never wrong alone."""
        wrong = self.wrong_right + self.wrong_wrong
        return self.wrong_right / wrong if wrong else None


def flips(alone: Floats, after: Floats) -> Flips:
    """Flips from each question's accuracy, alone and after; a tie of k answers counts 1 / k.
    Several draws of a question are treated as independent between alone and after."""
    both = product((alone, 1 - alone), (after, 1 - after))
    return Flips(*(float((before * then).mean()) for before, then in both))


@dataclass(frozen=True, slots=True)
class Apart:
    """A difference between two halves of the cells: by seat, label, first speaker, side."""

    estimate: Estimate
    standardised: float
    """Estimate in pooled standard deviations of one cell."""

    @property
    def flagged(self) -> bool:
        return abs(self.standardised) > SMALL_EFFECT


def apart(first: Floats, second: Floats, problem: Places, ends: Ends | None = None) -> Apart:
    """Mean of first minus second over pairs: the same question with the seats swapped, or its truth
    and lie worlds. cluster: of each pair. ends: of the difference."""
    figure = means([(first - second).tolist()], problem, [ends])[0]
    deviation = math.sqrt((float(first.var()) + float(second.var())) / 2)
    return Apart(figure, figure.value / deviation if deviation else 0.0)


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
    units: Sequence[Sequence[RatedPoint]], clusters: Sequence[Hashable] = ()
) -> Agreement | None:
    """Alpha of ratings; None if no values can be paired, or all are equal. units: the values of
    each unit, points of equal length. clusters: the cluster with which each unit is resampled, such
    as its problem; by default each unit is its own."""
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
    return np.concatenate(([within, m, float(np.square(points).sum())], points.sum(axis=0)))


def _alpha(sums: Floats) -> Floats:
    """Alpha from sums over units, one row each; NaN if all values are equal."""
    within, n, squares, total = sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]
    # Sum of all squared distances, computed from the points' lengths and their sum.
    all_pairs = 2 * (n * squares - np.square(total).sum(axis=1))
    flat = all_pairs <= 1e-12 * np.maximum(n * squares, 1e-300)
    return 1 - within / np.where(flat, np.nan, all_pairs / np.maximum(n - 1, 1))


def shrunk(means: Floats, variances: Floats, centre: float) -> Floats:
    """Each mean drawn to the centre by the share of its variance that is chance (empirical Bayes;
    Morris 1983). variances: of the chance errors of the means, above 0; if they are 0, or for
    one mean, nothing is drawn."""
    if len(means) < 2 or not variances.all():
        return means
    # tau^2, the variance of the true means, by the moments of DerSimonian and Laird (1986).
    w = 1 / variances
    q = float((w * np.square(means - (w * means).sum() / w.sum())).sum())
    tau2 = max(0.0, (q - (len(means) - 1)) / float(w.sum() - (w**2).sum() / w.sum()))
    return centre + tau2 / (tau2 + variances) * (means - centre)
