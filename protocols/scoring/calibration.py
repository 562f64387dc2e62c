"""Whether a judge is as often right as it is sure, and whether it says so when it is not."""

from dataclasses import dataclass

import numpy as np

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.clustered import Codes
from oversight.protocols.scoring.quantiles import t_of

BINS = 10


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of the probability that a judge gave to something, against whether it was so."""

    n: int
    brier: float
    """Mean of (p - outcome)^2, in [0, 1]; = reliability - resolution + uncertainty + within."""
    reliability: float
    """How far bins are from their share; 0 is best."""
    resolution: float
    """How far shares of bins lie apart."""
    uncertainty: float
    """Of the outcome itself: share (1 - share)."""
    within: float
    """What is lost by putting unlike probabilities in one bin (Stephenson et al. 2008)."""
    debiased_error: float
    """Root of reliability less what chance alone puts into it, and at least 0."""
    overconfidence: float
    """Mean probability less the share."""


def calibration(p: Floats, outcome: Floats, *, bins: int = BINS) -> Calibration:
    """Murphy's (1973) decomposition over bins of equal width, and the debiased calibration error
    of Kumar, Liang and Ma (2019, arXiv:1909.10155): in a bin of n with share s the squared distance
    is too large by s (1 - s) / (n - 1) on average. Bins of one question can't be debiased; they
    count nothing in that error. ValueError without a question.
    """
    if not len(p):
        raise ValueError("calibration of no question")
    n, base = len(p), float(outcome.mean())
    of = np.minimum((p * bins).astype(np.int64), bins - 1)
    size = np.bincount(of, minlength=bins)
    there = size > 0
    size = size[there].astype(np.float64)
    sure = np.bincount(of, weights=p, minlength=bins)[there] / size
    share = np.bincount(of, weights=outcome, minlength=bins)[there] / size
    far = np.square(sure - share)
    reliability = float((size * far).sum()) / n
    resolution = float((size * np.square(share - base)).sum()) / n
    brier = float(np.square(p - outcome).mean())
    uncertainty = base * (1 - base)
    chance = np.divide(share * (1 - share), size - 1, out=far.copy(), where=size > 1)
    debiased = float((size * (far - chance)).sum()) / n
    return Calibration(
        n,
        brier,
        reliability,
        resolution,
        uncertainty,
        brier - (reliability - resolution + uncertainty),
        max(0.0, debiased) ** 0.5,
        float(p.mean()) - base,
    )


@dataclass(frozen=True, slots=True)
class Auroc:
    """P(a positive scores above a negative), ties one half."""

    area: float
    error: float
    interval: tuple[float, float]
    positives: int
    negatives: int


def auroc(scores: Floats, positive: Floats, of: Codes | None = None, level: float = 0.95) -> Auroc:
    """Area under the curve with its error by clusters (Obuchowski 1997, Biometrics 53); of clusters
    of one question that of DeLong, DeLong and Clarke-Pearson (1988).

    of: the cluster of each question; each its own unless given. ValueError without a positive or
    without a negative.
    """
    from scipy.stats import rankdata

    is_positive = positive > 0.5
    up, down = scores[is_positive], scores[~is_positive]
    m, n = len(up), len(down)
    if not (m and n):
        raise ValueError(f"{m} positives and {n} negatives: a curve needs one of each")
    ranks = rankdata(np.concatenate((up, down)))
    # How many of the others each one is above: its rank among all less its rank among its own.
    above = (ranks[:m] - rankdata(up)) / n
    below = 1 - (ranks[m:] - rankdata(down)) / m
    area = float(above.mean())
    clusters = np.arange(len(scores)) if of is None else of
    moved = np.zeros(int(clusters.max()) + 1)
    np.add.at(moved, clusters[is_positive], (above - area) / m)
    np.add.at(moved, clusters[~is_positive], (below - area) / n)
    g = len(np.unique(clusters))
    error = float(np.square(moved).sum() * g / max(g - 1, 1)) ** 0.5
    half = t_of(level, max(g - 1, 1)) * error
    return Auroc(area, error, (max(0.0, area - half), min(1.0, area + half)), m, n)


def fails_loudly(largest: Floats, right: Floats, of: Codes | None = None) -> Auroc | None:
    """How well a judge's doubt, 1 less its largest probability, foretells its errors; None where
    it made none, or nothing else. A tie for the largest probability is no error."""
    wrong = 1 - right
    return auroc(1 - largest, wrong, of) if 0 < (wrong > 0.5).sum() < len(wrong) else None


def accuracy_at(largest: Floats, right: Floats, coverage: float) -> float:
    """Accuracy over the share of questions on which the judge is surest.

    Questions as sure as the last one are counted in part, so that no order of them decides.
    """
    if not 0 < coverage <= 1:
        raise ValueError(f"a coverage of {coverage}; it is in (0, 1]")
    room = coverage * len(largest)
    right_so_far = counted = 0.0
    for sure in np.unique(largest)[::-1]:
        those = right[largest == sure]
        taken = min(float(len(those)), room - counted)
        right_so_far += taken * float(those.mean())
        counted += taken
        if counted >= room - 1e-9:
            break
    return right_so_far / room
