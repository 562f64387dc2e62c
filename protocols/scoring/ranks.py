"""Which places in the ranking each row may have, with all of them right at once.

Mogstad, Romano, Shaikh and Wilhelm (2024, Review of Economic Studies 91): from simultaneous
intervals of all pairwise differences, a row is surely below those that are surely above it.
"""

from dataclasses import dataclass

import numpy as np

from oversight.protocols.scoring.arrays import Floats

SAME = 1e-12
"""Standard errors of differences below this are those of rows that agree."""


@dataclass(frozen=True, slots=True)
class RankSet:
    """Ranks from 1, the highest mean, that a row may have."""

    best: int
    worst: int


def rank_sets(means: Floats, resampled: Floats, *, level: float = 0.95) -> tuple[RankSet, ...]:
    """The ranks of each row, all of them right with probability `level`.

    resampled: resamples × rows, of `oversight.protocols.scoring.resamples`.
    """
    k = len(means)
    away = resampled - means
    errors = np.array([(away - away[:, [row]]).std(axis=0) for row in range(k)])
    there = errors > SAME
    most = np.zeros(len(away))
    for row in range(k - 1):
        others = np.arange(row + 1, k)[there[row, row + 1 :]]
        if len(others):
            t = np.abs(away[:, others] - away[:, [row]]) / errors[row, others]
            np.maximum(most, t.max(axis=1), out=most)
    bar = float(np.quantile(most, level))
    apart = means[None, :] - means[:, None]
    sure = there & (apart > bar * errors)
    above, below = sure.sum(axis=1), sure.sum(axis=0)
    return tuple(RankSet(int(1 + up), int(k - down)) for up, down in zip(above, below, strict=True))
