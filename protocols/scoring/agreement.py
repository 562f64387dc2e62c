"""How far several raters agree beyond chance: Krippendorff's alpha.

Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: alpha = 1 - D_o / D_e, the squared
distances of values within units against those of all values that can be paired. Any number of
raters, of whom each may have rated any of the units; units with a single value pair with nothing.
Values are points: a number for interval data, a place among n as a point with a single 1 for
nominal data (the distance of unlike ones is the same for all), probabilities as they are.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.clustered import codes

RatedPoint: TypeAlias = Sequence[float]
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Agreement:
    alpha: float
    """1 for perfect agreement, 0 for that of chance; below it where raters disagree by rule."""
    interval: tuple[float, float] | None
    """95 %, by resampling clusters of units; None for a single cluster."""
    units: int
    """Those with two values or more."""
    values: int
    """In those units."""


def krippendorff_alpha(
    units: Sequence[Sequence[RatedPoint]],
    clusters: Sequence[Hashable] = (),
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Agreement | None:
    """Alpha of ratings; None where nothing can be paired, or all values are one.

    units: of each, the values that it got, all of one length. clusters: of each unit, what it is
    resampled with, such as its problem; each by itself unless given.
    """
    of = list(clusters) or list(range(len(units)))
    paired = [(unit, c) for unit, c in zip(units, of, strict=True) if len(unit) > 1]
    if not paired:
        return None
    rows = np.array([_sums(np.asarray(unit, dtype=np.float64)) for unit, _ in paired])
    alpha = float(_alpha(rows.sum(axis=0)[None, :])[0])
    if np.isnan(alpha):
        return None
    code = codes([cluster for _, cluster in paired])
    summed = np.zeros((int(code.max()) + 1, rows.shape[1]))
    np.add.at(summed, code, rows)
    interval = _interval(summed, seed, resamples) if len(summed) > 1 else None
    return Agreement(alpha, interval, len(paired), sum(len(unit) for unit, _ in paired))


def _sums(points: Floats) -> Floats:
    """Of one unit, what adds up over units: distances within over (m - 1), m, the squared lengths
    of its points, and their sum."""
    m = len(points)
    within = 2 * m * float(np.square(points - points.mean(axis=0)).sum()) / (m - 1)
    head = [within, m, float(np.square(points).sum())]
    summed: Floats = np.concatenate((head, points.sum(axis=0)))
    return summed


def _alpha(sums: Floats) -> Floats:
    """Of sums over units, a row each; not a number where all values are one."""
    within, n, squares, total = sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:]
    # The sum of all squared distances, by the points' lengths and their sum.
    all_pairs = 2 * (n * squares - np.square(total).sum(axis=1))
    flat = all_pairs <= 1e-12 * np.maximum(n * squares, 1e-300)
    expected = np.where(flat, np.nan, all_pairs / np.maximum(n - 1, 1))
    found: Floats = 1 - within / expected
    return found


def _interval(summed: Floats, seed: int, resamples: int) -> tuple[float, float] | None:
    g = len(summed)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(g, np.full(g, 1 / g), size=resamples).astype(np.float64)
    drawn = _alpha(counts @ summed)
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
