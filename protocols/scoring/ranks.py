"""Simultaneous confidence sets for the ranks of rows.

Mogstad, Romano, Shaikh and Wilhelm (2024, Review of Economic Studies 91): from simultaneous
intervals of all pairwise differences, a row ranks below every row whose lead over it excludes 0.
"""

from dataclasses import dataclass

import numpy as np

from .arrays import Floats
from .quantiles import LEVEL

NO_ERROR = 1e-12
"""Rows whose difference has a standard error below this agree."""


@dataclass(frozen=True, slots=True)
class RankSet:
    """Range of ranks that a row may have; 1 is the highest mean."""

    best: int
    worst: int


def rank_sets(means: Floats, resampled: Floats) -> tuple[RankSet, ...]:
    """Rank set of each row; all hold at once with probability LEVEL.

    resampled: resamples × rows, from `oversight.protocols.scoring.resamples`.
    """
    k = len(means)
    away = resampled - means
    errors = np.array([(away - away[:, [row]]).std(axis=0) for row in range(k)])
    varies = errors > NO_ERROR
    largest_t = np.zeros(len(away))
    for row in range(k - 1):
        others = np.arange(row + 1, k)[varies[row, row + 1 :]]
        if len(others):
            t = np.abs(away[:, others] - away[:, [row]]) / errors[row, others]
            np.maximum(largest_t, t.max(axis=1), out=largest_t)
    bar = float(np.quantile(largest_t, LEVEL))
    apart = means[None, :] - means[:, None]
    sure = varies & (apart > bar * errors)
    above, below = sure.sum(axis=1), sure.sum(axis=0)
    return tuple(RankSet(int(1 + up), int(k - down)) for up, down in zip(above, below, strict=True))
