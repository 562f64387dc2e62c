"""Bounds of a mean ASD over failed and doubtful worlds: drop, keep, worst and best case.

A world fails if it has no verdict (`Failure`); it is doubtful if a speaker refused, gave up its
side or failed the side check, or if its verdict is close to a guess. Leaving such questions out is
a choice, and so is counting them; the bounds show how much it matters. Worst and best are the
bounds of Manski (1990): they assume nothing about the missing verdicts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from ..scores import RANGES
from .arrays import Flags, Floats
from .worlds import Worlds, asd_weights, world_ends


@dataclass(frozen=True, slots=True)
class Bounds:
    """Mean ASD under each treatment of failed and doubtful worlds."""

    n: int
    """All questions."""
    doubtful: int
    """Questions with a world that failed or is in doubt."""
    drop: float | None
    """Doubtful questions left out; None if none is left."""
    keep: float | None
    """Doubtful verdicts counted as they stand; questions with a failed world left out."""
    worst: float
    """Every failed or doubtful world counted with the agent score that lowers ASD most."""
    best: float
    """The same, with the agent score that raises it most."""


def world_bounds(worlds: Worlds, doubtful: Flags, score: str) -> tuple[Floats, Floats]:
    """Least and most that each world may add to the ASD of its draw, equal unless it is doubtful;
    NaN if it was not run. Both … × worlds, like `doubtful`."""
    weights = asd_weights(worlds.values, worlds.compat)
    known = weights * worlds.agent_scores(score)
    low, high = world_ends(weights, RANGES[score])
    return np.where(doubtful, low, known), np.where(doubtful, high, known)


def bounds(blocks: Iterable[tuple[Worlds, Flags]], score: str) -> Bounds | None:
    """Bounds of the mean ASD under `score`, by its name; None if no draw of a question was run in
    every world.

    blocks: for questions with equally many answers, their worlds, questions × draws × worlds ×
    answers, and which of these failed or are in doubt, questions × draws × worlds. A question
    counts with the mean over its draws.
    """
    columns: list[Floats] = [np.empty((5, 0))]
    for worlds, doubtful in blocks:
        low, high = (ends.sum(axis=-1) for ends in world_bounds(worlds, doubtful, score))
        ran, doubts = ~np.isnan(low), doubtful.any(axis=-1)
        asd = worlds.asd(score)
        kept = ran & ~np.isnan(asd)
        each = (
            (ran & doubts).any(axis=1),
            over_draws(asd, kept & ~doubts),
            over_draws(asd, kept),
            over_draws(low, ran),
            over_draws(high, ran),
        )
        columns.append(np.stack(each)[:, ran.any(axis=1)])
    lines = np.concatenate(columns, axis=1)
    doubtful, drop, keep, worst, best = (line[~np.isnan(line)].tolist() for line in lines)
    if not worst:
        return None
    return Bounds(
        len(worst),
        int(sum(doubtful)),
        fmean(drop) if drop else None,
        fmean(keep) if keep else None,
        fmean(worst),
        fmean(best),
    )


def over_draws(measures: Floats, of: Flags) -> Floats:
    """Mean of each question over the draws flagged in `of`; NaN without any.

    measures, of: questions × draws. Draw d pairs the d-th sample of every world and is measured by
    itself: averaging verdicts first would measure a less certain judge than any that was asked.
    """
    sums, counts = np.where(of, measures, 0.0).sum(axis=1), of.sum(axis=1)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)
