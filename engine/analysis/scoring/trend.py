"""Trend of ASD over EAS across agent configurations: does a better agent help the truth more?

An ordinary least-squares line through one point per agent configuration, for one protocol, score,
judge and beta (Sudhir, Kaunismaa and Panickssery 2025, arXiv:2504.03731): x is its mean expected
agent score, y its mean agent score difference. A slope above 0 says that oversight gets better as
agents do.

Two warnings belong beside every slope. With values (+1, -1), ASD and EAS are functions of the
same agent scores: measured on the same elicitations, they would have a trend even if every
verdict were noise. `split_half_trend` takes them from different questions. And an x that is
itself an estimate pulls the slope toward 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Flags, Floats
from .estimate import Estimate
from .inference import Influences

MIN_POINTS = 3
"""Any two points lie on a line: a slope with an error needs a third."""

SAME_EAS = 1e-9
"""Values of EAS closer than this differ by rounding alone."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One agent with its settings, measured under one protocol."""

    agent: str
    eas: Influences
    asd: Influences


@dataclass(frozen=True, slots=True)
class Slope:
    """A regression line with its caveats."""

    slope: float
    """Change of ASD per unit of EAS."""
    error: float
    """Standard error of the slope, from the residuals, with n - 2 degrees of freedom."""
    intercept: float
    n: int
    """Agent configurations, one point each."""

    @property
    def estimate(self) -> Estimate:
        """The slope with its interval; of points on one line, without."""
        error, degrees = self.error or None, self.n - 2
        return Estimate(self.slope, self.n, self.n, error, degrees, method="t of the residuals")


def trend(configurations: Sequence[Configuration]) -> Slope | None:
    """Regression of mean ASD on mean EAS, one point per configuration, from the same verdicts; None
    for fewer than three, or if all have the same EAS."""
    if len(configurations) < MIN_POINTS:
        return None
    eas = np.array([[each.eas.value for each in configurations]])
    asd = np.array([[each.asd.value for each in configurations]])
    return _line(eas, asd)


def split_half_trend(
    configurations: Sequence[Configuration], *, seed: int = 0, splits: int = 100
) -> Slope | None:
    """The trend with EAS from one half of the questions and ASD from the other.

    Clusters of questions are split at random, identically for all configurations, and each split is
    used in both directions. Slope, intercept and standard error are medians over the splits, since
    a half in which all agents score nearly alike has an extreme slope. The error is not divided by
    the number of splits: splitting again adds no data. None if some half holds no question of some
    agent.
    """
    if len(configurations) < MIN_POINTS:
        return None
    samples = [sample for each in configurations for sample in (each.eas, each.asd)]
    clusters = sorted({key for sample in samples for key in sample.ways["problem"].tolist()})
    half = np.arange(len(clusters)) < len(clusters) // 2
    first = np.random.default_rng(seed).permuted(np.tile(half, (splits, 1)), axis=1)
    either, other = np.concatenate((first, ~first)), np.concatenate((~first, first))
    eas = np.column_stack([_means(each.eas, clusters, either) for each in configurations])
    asd = np.column_stack([_means(each.asd, clusters, other) for each in configurations])
    if not (np.isfinite(eas).all() and np.isfinite(asd).all()):
        return None
    return _line(eas, asd)


def _means(sample: Influences, clusters: Sequence[str], chosen: Flags) -> Floats:
    """Mean over each choice of clusters (choices × clusters); NaN for an empty choice."""
    index = {key: place for place, key in enumerate(clusters)}
    places = [index[key] for key in sample.ways["problem"].tolist()]
    sums = np.bincount(places, weights=sample.values, minlength=len(clusters))
    sizes = np.bincount(places, minlength=len(clusters))
    questions = chosen @ sizes
    means: Floats = np.full(len(chosen), np.nan)
    np.divide(chosen @ sums, questions, out=means, where=questions > 0)
    return means


def _line(eas: Floats, asd: Floats) -> Slope | None:
    """Least-squares line through the points of each row; medians over the rows."""
    n = eas.shape[1]
    x = eas - eas.mean(axis=1, keepdims=True)
    y = asd - asd.mean(axis=1, keepdims=True)
    if np.ptp(x, axis=1).min() < SAME_EAS:
        return None
    squares = (x * x).sum(axis=1)
    slopes = (x * y).sum(axis=1) / squares
    residuals = y - slopes[:, None] * x
    errors = np.sqrt((residuals * residuals).sum(axis=1) / (n - 2) / squares)
    intercepts = asd.mean(axis=1) - slopes * eas.mean(axis=1)
    slope, error, intercept = (float(np.median(row)) for row in (slopes, errors, intercepts))
    return Slope(slope, error, intercept, n)
