"""A classifier of form: predicts the best answer from words and spellings alone.

A ridge regression on the words, pairs of words and runs of letters of an answer, in which every
number is replaced by one sign. It never sees a question, and predicts only for clusters of
problems that it was not fitted on.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..question import Problem, randomness

FOLDS = 5
BUCKETS = 1 << 13
"""Hash buckets for features of words, and as many for those of letters."""
LONGEST_RUN = 4
"""Runs of letters have 2 to so many."""
MULTIPLIER = 1_000_003
"""Base of the polynomials that hash runs of letters."""
PENALTY = 1.0
"""Ridge penalty, for feature vectors of length 1."""

DIGITS = 5
"""Decimals of a preference; smaller differences are rounding, and tell no answers apart."""

Floats32 = npt.NDArray[np.float32]

_NUMBER = re.compile(r"\d[\d,.]*\d|\d")
_WORD = re.compile(r"\w+|[^\w\s]")


def preferences(problems: Sequence[Problem]) -> list[list[float]]:
    """How much each answer looks like a best one, for each problem."""
    clusters = [problem.group or problem.id for problem in problems]
    # Features are centred on their mean over the problem: what all answers share tells none of them
    # apart. Centred features and predictions sum to zero over a problem, so its last answer is
    # implied by the others and left out.
    ends = np.cumsum([len(problem.values) - 1 for problem in problems])
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    targets = np.empty(ends[-1], np.float32)
    for problem, (start, end) in zip(problems, spans, strict=True):
        best = np.array([value == max(problem.values) for value in problem.values], np.float32)
        targets[start:end] = (best - best.mean())[:-1]
    kernel = _kernel(problems, spans, _words) + _kernel(problems, spans, _letters)
    fold_of = [randomness(0, cluster, "fold").randrange(FOLDS) for cluster in clusters]
    predicted = _cross_predicted(kernel, targets, np.repeat(fold_of, np.diff([0, *ends])))
    rows = [predicted[start:end].tolist() for start, end in spans]
    return [[*scores, round(-sum(scores), DIGITS)] for scores in rows]


def _kernel(
    problems: Sequence[Problem],
    spans: Sequence[tuple[int, int]],
    features: Callable[[str], npt.NDArray[np.int_]],
) -> Floats32:
    """Inner products of all pairs of rows. spans: the rows of each problem."""
    centred = np.empty((spans[-1][1], BUCKETS), np.float32)
    for problem, (start, end) in zip(problems, spans, strict=True):
        rows = np.stack(
            [_scaled(features(_NUMBER.sub("0", each.whole))) for each in problem.question.answers]
        )
        centred[start:end] = (rows - rows.mean(axis=0))[:-1]
    # Few buckets are filled, or differ between the answers of any problem.
    filled = centred[:, centred.any(axis=0)]
    return np.asarray(filled @ filled.T)


def _cross_predicted(kernel: Floats32, targets: Floats32, folds: npt.NDArray[np.int_]) -> Floats32:
    """Prediction for each row from the rows of the other folds. kernel: products of rows."""
    predicted = np.zeros(len(targets), np.float32)
    for fold in range(FOLDS):
        held_out, fitted = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        ridge = kernel[np.ix_(fitted, fitted)] + PENALTY * np.eye(len(fitted), dtype=np.float32)
        weights = np.linalg.solve(ridge, targets[fitted])
        predicted[held_out] = kernel[np.ix_(held_out, fitted)] @ weights
    return predicted.round(DIGITS)


def _words(text: str) -> npt.NDArray[np.int_]:
    """How often each word and each pair of words occurs, by bucket."""
    words = _WORD.findall(text.casefold())
    pairs = (f"{a} {b}" for a, b in pairwise(words))
    buckets = [zlib.crc32(term.encode()) % BUCKETS for term in (*words, *pairs)]
    return np.bincount(buckets, minlength=BUCKETS)


def _letters(text: str) -> npt.NDArray[np.int_]:
    """How often each run of letters occurs, by bucket."""
    letters = np.frombuffer(f"\n{text}\n".encode("utf-32-le"), np.uint32).astype(np.uint64)
    polynomials, hashes = letters, []
    for length in range(2, LONGEST_RUN + 1):
        # A run's polynomial, modulo 2^64, follows from that of the run without its last letter.
        polynomials = polynomials[:-1] * np.uint64(MULTIPLIER) + letters[length - 1 :]
        hashed = polynomials + np.uint64(length * MULTIPLIER**length % 2**64)
        hashes.append(hashed ^ hashed >> np.uint64(29))
    buckets = np.concatenate(hashes) % np.uint64(BUCKETS)
    return np.bincount(buckets.astype(np.int_), minlength=BUCKETS)


def _scaled(counts: npt.NDArray[np.int_]) -> Floats32:
    """Logarithms of counts, as a vector whose square is 1/2."""
    # Most counts are 0, and hardly one is large: a logarithm for each number, not for each bucket.
    logs = np.log1p(np.arange(counts.max() + 1)).astype(np.float32)[counts]
    return np.asarray(logs / max(float(np.linalg.norm(logs)) * 2**0.5, 1e-9), np.float32)
