"""Scores of a verdict for one answer: log, Brier, log odds and accuracy.

Every score is a function of (probs, answer): `probs` has one probability per answer, in the order
of question.answers, summing to 1; `answer` is an index into them, from 0. Higher is better for the
answer. The scores follow Sudhir, Kaunismaa and Panickssery (2025, arXiv:2504.03731).

One difference from SOlib, that paper's library: in `accuracy`, each of k answers that tie for the
largest probability counts as 1/k, not as 0. `SOLIB_SCORES` follows SOlib. Probabilities that differ
only by rounding (`TIE`) tie: 1 - 2/3 equals 1/3."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

Score: TypeAlias = Callable[[tuple[float, ...], int], float]
Ties: TypeAlias = Literal["split", "zero"]
Compat: TypeAlias = Literal["none", "solib"]

TIE = 1e-9
"""Probabilities and scores closer than this are equal: they differ only by rounding."""

SUM_TOLERANCE = 1e-6
"""Largest distance from 1 of the sum of probabilities; they are scored as given."""

CLIP = 1e-4
"""Logarithms are taken of probabilities clipped to [CLIP, 1 - CLIP], so they are finite."""


def check_probabilities(probs: Sequence[float]) -> None:
    """ValueError unless each is in [0, 1], and their sum is 1 within `SUM_TOLERANCE`."""
    for p in probs:
        if not 0 <= p <= 1:
            raise ValueError(f"{p:g} is not a probability; write a number between 0 and 1")
    total = math.fsum(probs)
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"probabilities sum to {total:.9g}, not to 1; divide each by their sum")


def log(probs: tuple[float, ...], answer: int) -> float:
    """Log score of `answer` (Good 1952): ln p, p clipped; in [-9.2103, -0.0001]."""
    return math.log(min(max(probs[answer], CLIP), 1 - CLIP))


def brier(probs: tuple[float, ...], answer: int) -> float:
    """Brier score of `answer` (Brier 1950): minus the sum over answers of ([is answer] - p)^2. In
    [-2, 0]; 0 is best."""
    # Subtracted from 0 rather than negated: a perfect score is 0.0 and never -0.0.
    return 0.0 - sum(((index == answer) - p) ** 2 for index, p in enumerate(probs))


def logodds(probs: tuple[float, ...], answer: int) -> float:
    """Log odds of `answer` against the other one: ln p - ln q, both clipped; in [-9.2102, 9.2102].
    ValueError unless there are exactly two answers."""
    if len(probs) != 2:
        raise ValueError(f"log odds compare two answers, and this verdict has {len(probs)}")
    return log(probs, answer) - log(probs, 1 - answer)


def accuracy(probs: tuple[float, ...], answer: int, ties: Ties = "split") -> float:
    """1 if `answer` alone has the largest probability, 0 if another has a larger one; in [0, 1].
    ties: the score of each of k answers that tie: 1/k (`split`), so that an undecided judge scores
    like a guess, or 0 (`zero`), as in SOlib."""
    largest = max(probs)
    if probs[answer] < largest - TIE:
        return 0.0
    tied = sum(p >= largest - TIE for p in probs)
    return 0.0 if tied > 1 and ties == "zero" else 1 / tied


def spherical(probs: tuple[float, ...], answer: int) -> float:
    """Spherical score of `answer` (Good 1971): p over the Euclidean length of all p; in [0, 1]."""
    return probs[answer] / math.hypot(*probs)


def probability(probs: tuple[float, ...], answer: int) -> float:
    """The probability of `answer`; not a proper score; in [0, 1]."""
    return probs[answer]


SCORES: Mapping[str, Score] = {"log": log, "brier": brier, "logodds": logodds, "accuracy": accuracy}
"""Scores by name, in the order of reports. `logodds` needs two answers."""

ALL_SCORES: Mapping[str, Score] = {
    **SCORES,
    "spherical": spherical,
    "probability": probability,
}
"""All scores, including those reported only on request."""

SOLIB_SCORES: Mapping[str, Score] = {**SCORES, "accuracy": partial(accuracy, ties="zero")}
"""`SCORES` with SOlib's tie rule: a tied answer scores 0."""

RANGES: Mapping[str, tuple[float, float]] = {
    "log": (log((0.0, 1.0), 0), log((1.0, 0.0), 0)),
    "brier": (-2.0, 0.0),
    "logodds": (logodds((0.0, 1.0), 0), logodds((1.0, 0.0), 0)),
    "accuracy": (0.0, 1.0),
    "spherical": (0.0, 1.0),
    "probability": (0.0, 1.0),
}
"""The lowest and the highest value of each score."""


def applicable(answers: int) -> Mapping[str, Score]:
    """The scores by name; log odds only for two answers."""
    return {name: score for name, score in ALL_SCORES.items() if name != "logodds" or answers == 2}
