"""Means that are drawn to their centre by the share of their variance that is chance."""

import numpy as np

from .arrays import Floats


def shrunk(means: Floats, variances: Floats, centre: float) -> Floats:
    """Each mean drawn to the centre by the share of its variance that is chance (empirical Bayes;
    Morris 1983). variances: of the chance errors of the means, above 0; if they are 0, or there is
    one mean, nothing is drawn."""
    if len(means) < 2 or not variances.all():
        return means
    tau2 = _between(means, variances)
    drawn: Floats = centre + tau2 / (tau2 + variances) * (means - centre)
    return drawn


def _between(y: Floats, v: Floats) -> float:
    """tau^2, the variance of the true means, by the moments of DerSimonian and Laird (1986)."""
    w = 1 / v
    mean = (w * y).sum() / w.sum()
    q = float((w * np.square(y - mean)).sum())
    return max(0.0, (q - (len(y) - 1)) / float(w.sum() - (w**2).sum() / w.sum()))
