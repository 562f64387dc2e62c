"""Bounds of a mean ASD over failed and doubtful worlds: drop, keep, worst and best case.

A world fails if it has no verdict (`Failure`); it is doubtful if a speaker refused, fell silent,
gave up its side or argued for another, or if its verdict is close to a guess. Leaving such
questions out is a choice, and so is counting them; the bounds show how much it matters. Worst and
best are the bounds of Manski (1990): they assume nothing about the missing verdicts.

The bounds are themselves estimates. Their interval (Imbens and Manski 2004, Econometrica 72; Stoye
2009, Econometrica 77) covers the mean that all worlds would have had, wherever it lies between.
"""

from dataclasses import dataclass

import numpy as np

from ....protocols.scores import RANGES
from .arrays import Flags, Floats
from .estimate import Ends, Estimate
from .quantiles import LEVEL, NORMAL
from .worlds import Worlds, answer_scores, asd_weights, world_ends


@dataclass(frozen=True, slots=True)
class Bounds:
    """Mean ASD under each treatment of failed and doubtful worlds."""

    n: int
    """Number of questions."""
    doubtful: int
    """Questions with a world that failed or is in doubt."""
    drop: Estimate | None
    """Doubtful questions left out; None if none is left."""
    keep: Estimate | None
    """Doubtful verdicts counted as they stand; questions with a failed world left out."""
    worst: float
    """Every failed or doubtful world counted with the agent score that lowers ASD most."""
    best: float
    """Every failed or doubtful world counted with the agent score that raises ASD most."""
    interval: Ends | None
    """Where the mean of all worlds lies, 95 %: the bounds with their sampling error."""


def bounded(worst: Estimate, best: Estimate) -> Ends | None:
    """Interval of a mean that lies somewhere between two estimated bounds; None without errors.

    It reaches c errors beyond each bound, with Phi(c + gap / error) - Phi(-c) = .95: from the
    two-sided quantile where the bounds meet to the one-sided one where they are far apart.
    """
    if worst.error is None or best.error is None:
        return worst.interval and best.interval and (worst.interval[0], best.interval[1])
    gap = max(0.0, best.value - worst.value) / max(worst.width, best.width)
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        c = (low + high) / 2
        low, high = (c, high) if NORMAL.cdf(c + gap) - NORMAL.cdf(-c) < LEVEL else (low, c)
    level = 2 * NORMAL.cdf(high) - 1
    ends = worst.at(level), best.at(level)
    return ends[0] and ends[1] and (ends[0][0], ends[1][1])


def world_bounds(worlds: Worlds, doubtful: Flags, score: str) -> tuple[Floats, Floats]:
    """Least and most that each world may add to the ASD of its draw, equal unless it is doubtful;
    NaN if it was not run. Both … × worlds, like `doubtful`.

    A doubtful world of two answers whose unread replies leave its verdict within `worlds.ends` adds
    no more and no less than those; any other may have every score.
    """
    weights = asd_weights(worlds.values, worlds.compat)
    known = weights * worlds.agent_scores(score)
    low, high = world_ends(weights, RANGES[score])
    if worlds.ends is not None and worlds.values.shape[-1] == 2:
        # A score of the agent's own answer rises with its probability.
        pairs = np.stack((worlds.ends, 1 - worlds.ends), axis=-1)
        reached = weights[..., None] * answer_scores(pairs, score, worlds.compat)[..., 0]
        low = np.where(np.isnan(reached[..., 0]), low, reached.min(axis=-1))
        high = np.where(np.isnan(reached[..., 0]), high, reached.max(axis=-1))
    return np.where(doubtful, low, known), np.where(doubtful, high, known)


def over_draws(measures: Floats, of: Flags) -> Floats:
    """Mean of each question over the draws flagged in `of`; NaN without any.

    measures, of: questions × draws. Draw d pairs the d-th sample of every world and is measured by
    itself: averaging verdicts first would measure a less certain judge than any that was asked.
    """
    sums, counts = np.where(of, measures, 0.0).sum(axis=1), of.sum(axis=1)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)
