"""Calibration of a judge's confidence, and its confidence as a predictor of its errors."""

from dataclasses import dataclass

import numpy as np

from ....protocols.scores import TIE
from .arrays import Floats, Places
from .estimate import Estimate
from .inference import Influences, means

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


def calibration(p: Floats, outcome: Floats, *, bins: int = BINS) -> Calibration:
    """Murphy's (1973) decomposition over bins of equal width, and the debiased calibration error
    of Kumar, Liang and Ma (2019, arXiv:1909.10155): in a bin of n with share s the squared distance
    is too large by s (1 - s) / (n - 1) on average. Bins of one question can't be debiased
    and do not count in that error. ValueError without a question.
    """
    if not len(p):
        raise ValueError("calibration of no question")
    n, base = len(p), float(outcome.mean())
    of = np.minimum((p * bins).astype(np.int64), bins - 1)
    size = np.bincount(of, minlength=bins)
    nonempty = size > 0
    size = size[nonempty].astype(np.float64)
    mean_p = np.bincount(of, weights=p, minlength=bins)[nonempty] / size
    share = np.bincount(of, weights=outcome, minlength=bins)[nonempty] / size
    squared_gap = np.square(mean_p - share)
    reliability = float((size * squared_gap).sum()) / n
    resolution = float((size * np.square(share - base)).sum()) / n
    brier = float(np.square(p - outcome).mean())
    uncertainty = base * (1 - base)
    chance = np.divide(share * (1 - share), size - 1, out=squared_gap.copy(), where=size > 1)
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


def bars(
    p: Floats, outcome: Floats, of: Places, *, bins: int = BINS
) -> list[tuple[float, Estimate]]:
    """Mean probability and share of positives of each bin that is not empty. Verdicts on one
    problem share its outcome, so clusters of problems, not verdicts, are what is random."""
    place = np.minimum((p * bins).astype(np.int64), bins - 1)
    found = []
    for bin in np.unique(place).tolist():
        inside = np.flatnonzero(place == bin)
        clusters = np.unique(of[inside], return_inverse=True)[1]
        share = means([outcome[inside].tolist()], clusters, [(0.0, 1.0)])[0]
        found.append((float(p[inside].mean()), share))
    return found


MIN_CLASS = 10
"""Clusters with a positive, and with a negative, below which an AUROC has no interval."""


@dataclass(frozen=True, slots=True)
class Auroc:
    """Area under the ROC curve: P(a positive scores above a negative), ties one half."""

    area: Estimate
    positives: int
    negatives: int


def auroc(scores: Floats, positive: Floats, of: Places | None = None) -> Auroc:
    """Area under the curve with its error by clusters (Obuchowski 1997, Biometrics 53), from the
    placement values of DeLong, DeLong and Clarke-Pearson (1988).

    of: the cluster of each question; each its own unless given. ValueError without a positive or
    without a negative.
    """
    is_positive = positive > 0.5
    up, down = scores[is_positive], scores[~is_positive]
    m, n = len(up), len(down)
    if not (m and n):
        raise ValueError(f"{m} positives and {n} negatives: a curve needs one of each")
    ranks = _ranks(np.concatenate((up, down)))
    # Share of the other class below each score: its rank among all minus that in its own class.
    above = (ranks[:m] - _ranks(up)) / n
    below = 1 - (ranks[m:] - _ranks(down)) / m
    area = float(above.mean())
    keys = np.arange(len(scores)) if of is None else of
    psi = np.concatenate(((above - area) / m, (below - area) / n))
    clusters = np.concatenate((keys[is_positive], keys[~is_positive]))
    rarer = min(len(np.unique(keys[is_positive])), len(np.unique(keys[~is_positive])))
    if rarer < MIN_CLASS:
        reason = f"{rarer} problems of the rarer class; its interval holds from {MIN_CLASS} on"
        return Auroc(Estimate(area, m + n, rarer, reason=reason), m, n)
    strata = np.repeat((0, 1), (m, n))
    ends = (0.0, 1.0)
    return Auroc(Influences(area, psi, {"problem": clusters}, ends, strata).estimate(), m, n)


def _ranks(scores: Floats) -> Floats:
    """Ranks from 1 on, those of equal scores averaged; without scipy, which is slow to import."""
    _, place, size = np.unique(scores, return_inverse=True, return_counts=True)
    return (np.cumsum(size) - (size - 1) / 2)[place]


def fails_loudly(largest: Floats, right: Floats, of: Places | None = None) -> Auroc | None:
    """AUROC of a judge's doubt, 1 minus its largest probability, as a predictor of its errors; None
    without errors, with nothing else, or if no verdict is surer than another. A tie for the largest
    probability is not an error."""
    wrong = 1 - right
    told = 0 < (wrong > 0.5).sum() < len(wrong) and np.ptp(largest) > TIE
    return auroc(1 - largest, wrong, of) if told else None


def accuracy_at(largest: Floats, right: Floats, coverage: float) -> float:
    """Accuracy over the share `coverage` of questions on which the judge is most confident.

    Questions tied with the last one count in part, so that their order does not matter. ValueError
    unless 0 < coverage <= 1.
    """
    if not 0 < coverage <= 1:
        raise ValueError(f"a coverage of {coverage}; it is in (0, 1]")
    room = coverage * len(largest)
    right_so_far = counted = 0.0
    for level in np.unique(largest)[::-1]:
        tied = right[largest == level]
        taken = min(float(len(tied)), room - counted)
        right_so_far += taken * float(tied.mean())
        counted += taken
        if counted >= room - 1e-9:
            break
    return right_so_far / room
