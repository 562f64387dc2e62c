"""Prediction-powered means: few questions with labels, many with predictions.

Prediction-powered inference (Angelopoulos et al. 2023, Science 382), tuned so that it is never
worse than the labels alone (Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453): with n
labels y, and a guess f of those and of N other questions,

    mean = mean of y + w (mean of the N guesses - mean of the n guesses),
    w = cov(y, f) / (var f (1 + n / N)).
"""

import math
from dataclasses import dataclass

import numpy as np

from .arrays import Floats
from .estimate import Ends, Estimate
from .inference import Influences, Keys


@dataclass(frozen=True, slots=True)
class Powered:
    """A prediction-powered mean, from few labels and many guesses."""

    estimate: Estimate
    weight: float
    """Weight of the guesses; 0 ignores them."""
    label_efficiency: float
    """Labels needed for this precision without guesses, over the labels at hand; at least 1."""


def prediction_powered(
    labels: Floats,
    guesses: Floats,
    others: Floats,
    clusters: tuple[Keys, Keys] | None = None,
    ends: Ends | None = None,
) -> Powered:
    """Mean of the labels' quantity. guesses: for the labelled questions; others: for further ones.

    clusters: of the labelled and of the other questions; each its own by default. ends: the lowest
    and highest label. ValueError for fewer than two labels, no others, or unequal numbers of labels
    and guesses.
    """
    n, more = len(labels), len(others)
    if n < 2 or more < 1 or len(guesses) != n:
        raise ValueError(f"{n} labels with {len(guesses)} guesses, and {more} guesses of others")
    every = np.concatenate((guesses, others))
    spread = float(every.var(ddof=1))
    covariance = float(np.cov(labels, guesses)[0, 1])
    weight = covariance / (spread * (1 + n / more)) if spread else 0.0
    mean = float(labels.mean() + weight * (others.mean() - guesses.mean()))
    left = labels - weight * guesses
    psi = np.concatenate(((left - left.mean()) / n, weight * (others - others.mean()) / more))
    keys = np.concatenate(clusters) if clusters else np.arange(n + more)
    strata = np.repeat((0, 1), (n, more))
    figure = Influences(mean, psi, {"problem": keys}, ends, strata, n).estimate()
    return Powered(figure, weight, _gain(labels, guesses, more))


def label_efficiency(correlation: float, labels: int, others: int) -> float:
    """Labels needed without guesses over those needed with them: 1 / (1 - rho^2 N / (N + n))."""
    return 1 / (1 - correlation**2 * others / (others + labels))


def _gain(labels: Floats, guesses: Floats, others: int) -> float:
    """Label efficiency from the cross-fitted correlation of labels with guesses, which a chance
    correlation does not raise."""
    n = len(labels)
    halves = np.arange(n) % 2
    explained = 0.0
    for half in (0, 1):
        fit, test = halves != half, halves == half
        if fit.sum() < 2 or not guesses[fit].var():
            return 1.0
        slope = np.cov(labels[fit], guesses[fit])[0, 1] / guesses[fit].var(ddof=1)
        left = labels[test] - labels[fit].mean() - slope * (guesses[test] - guesses[fit].mean())
        explained += float(np.square(left).sum())
    whole = float(np.square(labels - labels.mean()).sum())
    rho2 = min(max(0.0, 1 - explained / whole), 1 - 1e-9) if whole else 0.0
    return label_efficiency(math.sqrt(rho2), n, others)
