"""Multiplicity corrections of p-values: step-down max-t, Holm, Benjamini and Hochberg."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from .arrays import Floats, Places

Family: TypeAlias = Literal["step-max-t", "holm", "bh"]

BLOCK = 2**21
"""Contrasts × flips, or × questions, computed at once."""

SLACK = 1e-9
"""Relative tolerance for ties: equal statistics may differ by the order of addition."""


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """p-values corrected by Holm's step-down method (Holm 1979), in the given order.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none may fall below an
    earlier one, and none exceeds 1.
    """
    corrected = [1.0] * len(ps)
    floor = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda n: ps[n])):
        floor = max(floor, min(1.0, (len(ps) - rank) * ps[index]))
        corrected[index] = floor
    return tuple(corrected)


def benjamini_hochberg(ps: Sequence[float]) -> tuple[float, ...]:
    """q-values in the given order: the false discovery rate at which each is a discovery.

    Benjamini and Hochberg (1995), Journal of the Royal Statistical Society B 57: the k-th smallest
    of m times m / k, none above that of a larger p. For exploratory tables.
    """
    p = np.array(ps, dtype=np.float64)
    order = np.argsort(-p, kind="stable")
    scaled = p[order] * len(p) / np.arange(len(p), 0, -1)
    q = np.empty_like(p)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled))
    return tuple(q.tolist())


def sign_flips(
    sums: Floats, first: Places, second: Places, *, seed: int, resamples: int
) -> tuple[Floats, Floats]:
    """p of each contrast alone, and corrected for all of them by step-down max-t.

    sums: clusters × rows; contrast k is row first[k] less row second[k]. One set of sign flips of
    the clusters serves every contrast, so that their dependence is kept (Romano and Wolf 2005,
    Econometrica 73): the statistic is the sum of a contrast's cluster differences over the root of
    the sum of their squares, which no flip changes. The p of the largest is the share of flips in
    which the largest of all is as large; that of the next leaves out the largest, and so on. The
    observed signs count as one flip, so that no p is 0 (Phipson and Smyth 2010). A contrast of
    rows that agree everywhere has p = 1.
    """
    count = len(first)
    totals, scale = sums.sum(axis=0), np.square(sums).sum(axis=0)
    squares = np.zeros(count)
    for one, two in zip(sums[:, first], sums[:, second], strict=True):
        squares += np.square(one - two)
    alike = squares <= 1e-20 * (scale[first] + scale[second])
    norm = np.where(alike, np.inf, np.sqrt(np.maximum(squares, 0)))
    observed = np.abs(totals[first] - totals[second]) / norm
    # From the smallest statistic to the largest: a running maximum is then the step-down.
    order = np.argsort(observed, kind="stable")
    one, two = first[order], second[order]
    weight = (1 / norm[order]).astype(np.float32)
    bar = (observed[order] * (1 - SLACK)).astype(np.float32)
    # Single precision halves the work; the lower bar makes up for its rounding.
    bar *= np.float32(1 - 1e-5)
    alone, family = np.zeros(count, np.int64), np.zeros(count, np.int64)
    rng = np.random.default_rng(seed)
    columns = sums.astype(np.float32)
    step = max(1, BLOCK // count)
    for start in range(0, resamples, step):
        flips = min(step, resamples - start)
        signs = 2 * rng.integers(2, size=(flips, len(sums)), dtype=np.int8) - 1
        rows = (signs.astype(np.float32) @ columns).T
        t = np.abs(rows[one] - rows[two])
        t *= weight[:, None]
        alone += np.count_nonzero(t >= bar[:, None], axis=1)
        np.maximum.accumulate(t, axis=0, out=t)
        family += np.count_nonzero(t >= bar[:, None], axis=1)
    p, p_family = (1 + alone) / (resamples + 1), (1 + family) / (resamples + 1)
    # Corrected p never falls as the statistic falls.
    p_family = np.maximum.accumulate(p_family[::-1])[::-1]
    back = np.empty(count, np.int64)
    back[order] = np.arange(count)
    return p[back], p_family[back]


def corrected(p: Floats, step_max_t: Floats, family: Family) -> Floats:
    """p (or q) of each contrast under `family`."""
    if family == "step-max-t":
        return step_max_t
    return np.array(holm(p.tolist()) if family == "holm" else benjamini_hochberg(p.tolist()))
