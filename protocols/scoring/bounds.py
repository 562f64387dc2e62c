"""How far the worlds that went wrong could move a mean ASD: drop, keep, and the worst case.

A world without a verdict (`Failure`), one in which a speaker refused, gave up its side or failed
the side check, one whose verdict is close to a guess: to leave their questions out is a choice, and
so is to count them. Where the choice matters the mean says little, and the bounds show it. The last
two are the bounds of Manski (1990): they assume nothing of what the missing verdicts would have
been.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from oversight.protocols.scores import RANGES
from oversight.protocols.scoring.arrays import Flags, Floats
from oversight.protocols.scoring.worlds import Worlds, asd_weights, world_ends


@dataclass(frozen=True, slots=True)
class Bounds:
    """Mean ASD under each way to treat the worlds that went wrong."""

    n: int
    """Questions, all of them."""
    doubtful: int
    """Questions with a world that failed or is in doubt."""
    drop: float | None
    """Doubtful questions left out; None if none is left."""
    keep: float | None
    """Verdicts in doubt counted as they stand; questions that lack one left out."""
    worst: float
    """Every failed or doubtful world counted with the agent score that lowers ASD most."""
    best: float
    """The same, with the agent score that raises it most."""


def world_bounds(worlds: Worlds, doubtful: Flags, score: str) -> tuple[Floats, Floats]:
    """The least and the most that each world may add to the ASD of its draw: one and the same where
    nothing is in doubt; not a number where it was not run. Both … × worlds, as `doubtful`."""
    weights = asd_weights(worlds.values, worlds.compat)
    known = weights * worlds.agent_scores(score)
    low, high = world_ends(weights, RANGES[score])
    return np.where(doubtful, low, known), np.where(doubtful, high, known)


def bounds(blocks: Iterable[tuple[Worlds, Flags]], score: str) -> Bounds | None:
    """Bounds of the mean ASD under `score`, by its name; None if no draw of a question was run in
    every world.

    blocks: of questions with equally many answers: their worlds, questions × draws × worlds ×
    answers, and which of these failed or are in doubt, questions × draws × worlds. A question
    counts with the mean over its draws.
    """
    columns: list[Floats] = [np.empty((5, 0))]
    for worlds, doubtful in blocks:
        low, high = (ends.sum(axis=-1) for ends in world_bounds(worlds, doubtful, score))
        landed, doubts = ~np.isnan(low), doubtful.any(axis=-1)
        asd = worlds.asd(score)
        kept = landed & ~np.isnan(asd)
        each = (
            (landed & doubts).any(axis=1),
            over_draws(asd, kept & ~doubts),
            over_draws(asd, kept),
            over_draws(low, landed),
            over_draws(high, landed),
        )
        columns.append(np.stack(each)[:, landed.any(axis=1)])
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
    """The mean of each question over some of its draws; not a number where there is none.

    measures, of: questions × draws. Each draw pairs the d-th sample of every world and is measured
    by itself: averaging the verdicts first would measure a judge who is less certain than any that
    was asked.
    """
    sums, counts = np.where(of, measures, 0.0).sum(axis=1), of.sum(axis=1)
    found: Floats = np.where(counts, sums / np.maximum(counts, 1), np.nan)
    return found
