"""Random-effects meta-analysis over data sets, agents or judges, with a prediction interval.

The model: study j estimates its true effect as y_j with standard error s_j, and true effects vary
around the mean with variance tau^2. tau^2 by restricted maximum likelihood; the mean's interval by
Hartung and Knapp (2001) with k - 1 degrees of freedom; the prediction interval with k - 2 (Higgins,
Thompson and Spiegelhalter 2009). For few studies it is too narrow, since tau is hardly known: with
8 it covers 89 % of new ones.
"""

import math
from dataclasses import dataclass

import numpy as np

from .arrays import Floats
from .estimate import Estimate
from .quantiles import LEVEL, t_of


@dataclass(frozen=True, slots=True)
class Pooled:
    """Random-effects mean over studies."""

    studies: int
    estimate: Estimate
    """The mean, with the standard error of Hartung and Knapp."""
    prediction: tuple[float, float] | None
    """Prediction interval for the true effect of a new study; None for two studies."""
    tau: float
    """Standard deviation of the true effects."""
    i_squared: float
    """Share of the variation of estimates that exceeds sampling error, in [0, 1]."""
    weights: tuple[float, ...]
    """One per study, summing to 1."""


def pooled_estimate(estimates: Floats, errors: Floats) -> Pooled:
    """Random-effects mean of independent estimates with their standard errors.

    ValueError for fewer than two studies, or an error that is not above 0.
    """
    k = len(estimates)
    if k < 2:
        raise ValueError(f"a mean over studies needs two, and there is {k}")
    if not (errors > 0).all():
        raise ValueError("the standard error of every study must be above 0")
    variances = np.square(errors)
    moments, q = _moments(estimates, variances)
    tau2 = _reml(estimates, variances, moments)
    weights = 1 / (variances + tau2)
    mean = float((weights * estimates).sum() / weights.sum())
    spread = float((weights * np.square(estimates - mean)).sum()) / (k - 1)
    error = math.sqrt(spread / float(weights.sum()))
    # Studies that happen to agree must not shrink the error below that from their own errors.
    error = max(error, math.sqrt(1 / float(weights.sum()))) if spread < 1 else error
    prediction = None
    if k > 2:
        reach = t_of(LEVEL, k - 2) * math.sqrt(tau2 + error**2)
        prediction = (mean - reach, mean + reach)
    return Pooled(
        k,
        Estimate(mean, k, k, error, mean, k - 1, error, method="Hartung and Knapp's t"),
        prediction,
        math.sqrt(tau2),
        max(0.0, (q - (k - 1)) / q) if q else 0.0,
        tuple((weights / weights.sum()).tolist()),
    )


def shrunk(means: Floats, variances: Floats, centre: float) -> Floats:
    """Each mean drawn to the centre by the share of its variance that is chance (empirical Bayes;
    Morris 1983). variances: of the chance errors of the means, above 0; if they are 0, or there is
    one mean, nothing is drawn."""
    if len(means) < 2 or not variances.all():
        return means
    tau2, _ = _moments(means, variances)
    drawn: Floats = centre + tau2 / (tau2 + variances) * (means - centre)
    return drawn


def _moments(y: Floats, v: Floats) -> tuple[float, float]:
    """tau^2 by the moments of DerSimonian and Laird (1986), and Cochran's Q."""
    w = 1 / v
    mean = (w * y).sum() / w.sum()
    q = float((w * np.square(y - mean)).sum())
    return max(0.0, (q - (len(y) - 1)) / float(w.sum() - (w**2).sum() / w.sum())), q


def _reml(y: Floats, v: Floats, start: float) -> float:
    """REML tau^2: root of the score of the restricted likelihood, by bisection; 0 if the score at 0
    is not positive."""

    def score(tau2: float) -> float:
        w = 1 / (v + tau2)
        mean = (w * y).sum() / w.sum()
        gained = (w**2 * np.square(y - mean)).sum()
        return float(gained - w.sum() + (w**2).sum() / w.sum())

    if score(0.0) <= 0:
        return 0.0
    low, high = 0.0, max(start, float(y.var()), 1e-12)
    while score(high) > 0:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if score(middle) > 0 else (low, middle)
    return (low + high) / 2
