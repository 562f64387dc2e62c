"""A classifier of form: what words and spellings alone tell about which answer is the best one.

A ridge regression on the words, pairs of words and runs of letters of an answer, in which every
number is one and the same sign. It never sees a question, and picks only in clusters of problems
that it was not fitted on.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from oversight.protocols.question import Answer, Problem, randomness

FOLDS = 5
FEWEST = 40
"""Of clusters; with fewer there is nothing to be learned that holds elsewhere."""
MOST = 1500
"""Problems that are read, the first of them: time and memory grow with the square."""
BUCKETS = 1 << 13
"""Into so many the features are hashed, of words and of letters each."""
RUNS = (2, 3, 4)
"""Lengths of runs of letters."""
PENALTY = 1.0
"""Of the ridge, beside features of length 1."""

DIGITS = 5
"""Of a preference; what differs less is rounding, and tells no answers apart."""

Floats32 = npt.NDArray[np.float32]

_NUMBER = re.compile(r"\d[\d,.]*\d|\d")
_WORD = re.compile(r"\w+|[^\w\s]")


def preferences(problems: Sequence[Problem]) -> list[list[float]] | None:
    """For each of the first MOST problems how much each answer looks like a best one; None if the
    problems fall into fewer clusters than FEWEST."""
    problems = problems[:MOST]
    clusters = [problem.group or problem.id for problem in problems]
    if len(set(clusters)) < FEWEST:
        return None
    # Features are taken as they differ from their mean over the problem: what its answers have in
    # common tells none from the others. So they, and what they tell, add up to nothing, and the
    # last answer of each problem need not be looked at.
    ends = np.cumsum([len(problem.values) - 1 for problem in problems])
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    sought = np.empty(ends[-1], np.float32)
    for problem, (start, end) in zip(problems, spans, strict=True):
        best = np.array([value == max(problem.values) for value in problem.values], np.float32)
        sought[start:end] = (best - best.mean())[:-1]
    alike = _alike(problems, spans, _words) + _alike(problems, spans, _letters)
    drawn = [randomness(0, cluster, "fold").randrange(FOLDS) for cluster in clusters]
    found = _crossed(alike, sought, np.repeat(drawn, np.diff([0, *ends])))
    told = [found[start:end].tolist() for start, end in spans]
    return [[*scores, round(-sum(scores), DIGITS)] for scores in told]


def _alike(
    problems: Sequence[Problem],
    spans: Sequence[tuple[int, int]],
    features: Callable[[str], npt.NDArray[np.int_]],
) -> Floats32:
    """Products of all rows with all. spans: the rows of each problem."""
    seen = np.empty((spans[-1][1], BUCKETS), np.float32)
    for problem, (start, end) in zip(problems, spans, strict=True):
        rows = np.stack([_scaled(features(_masked(each))) for each in problem.question.answers])
        seen[start:end] = (rows - rows.mean(axis=0))[:-1]
    return np.asarray(seen @ seen.T)


def _crossed(alike: Floats32, sought: Floats32, folds: npt.NDArray[np.int_]) -> Floats32:
    """What each row is predicted to be by those of the other folds. alike: products of rows."""
    found = np.zeros(len(sought), np.float32)
    for fold in range(FOLDS):
        here, there = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        ridge = alike[np.ix_(there, there)] + PENALTY * np.eye(len(there), dtype=np.float32)
        found[here] = alike[np.ix_(here, there)] @ np.linalg.solve(ridge, sought[there])
    return found.round(DIGITS)


def _masked(answer: Answer) -> str:
    return _NUMBER.sub("0", f"{answer.text}\n{answer.work}" if answer.work else answer.text)


def _words(text: str) -> npt.NDArray[np.int_]:
    """How often each word and each pair of words occurs, by bucket."""
    words = _WORD.findall(text.casefold())
    terms = [*words, *(f"{a} {b}" for a, b in pairwise(words))]
    return np.bincount([zlib.crc32(term.encode()) % BUCKETS for term in terms], minlength=BUCKETS)


def _letters(text: str) -> npt.NDArray[np.int_]:
    """How often each run of letters occurs, by bucket."""
    letters = np.frombuffer(f"\n{text}\n".encode("utf-32-le"), np.uint32).astype(np.uint64)
    counts = np.zeros(BUCKETS, np.int_)
    for length in RUNS:
        hashed = np.full(max(len(letters) - length + 1, 0), length, np.uint64)
        for n in range(length):
            hashed = hashed * np.uint64(1_000_003) + letters[n : n + len(hashed)]
        hashed ^= hashed >> np.uint64(29)
        counts += np.bincount((hashed % np.uint64(BUCKETS)).astype(np.int_), minlength=BUCKETS)
    return counts


def _scaled(counts: npt.NDArray[np.int_]) -> Floats32:
    """Logarithms of counts, as a vector whose square is 1/2."""
    logs = np.log1p(counts).astype(np.float32)
    return np.asarray(logs / max(float(np.linalg.norm(logs)) * 2**0.5, 1e-9), np.float32)
