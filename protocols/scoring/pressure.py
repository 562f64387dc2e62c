"""Value under optimisation of a protocol's reward by best of n.

ASD is the slope at no pressure: the association of reward and value over the answers. Selection by
the reward moves an agent along a whole curve, which may turn down in spite of a positive slope if
lies have the heavier tail (Gao, Schulman and Hilton 2023, arXiv:2210.10760).

The pool of a problem is the union over worlds of its draws; each candidate has a reward u and a
value v. All results are exact on the pool, without resampling candidates and without calls.

The breakdown point is where the falling curve of values crosses 0. Its interval has every point at
which the curve may be 0: it lies between the crossings of the curve's lower and upper ends.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Floats, Places
from .estimate import Ends, Estimate
from .inference import estimates, means
from .sample import Sample

SAME_REWARD = 1e-12
"""Rewards closer than this tie."""


def best_of(rewards: Floats, n: int) -> Floats:
    """Probability that each candidate is the best of n drawn without replacement; as `rewards`.

    The U-statistic: of K candidates, those of a group of ties with `below` lower and `upto` not
    higher share [C(upto, n) - C(below, n)] / C(K, n). ValueError unless 1 <= n <= K.
    """
    return next(_each_best_of(rewards, (n,)))


def _each_best_of(rewards: Floats, ns: Iterable[int]) -> Iterator[Floats]:
    """`best_of` for each n."""
    below, upto = _around(rewards)
    for n in ns:
        among = _all_among(rewards.shape[1], n)
        yield (among[upto] - among[below]) / (upto - below)


def _around(rewards: Floats) -> tuple[Places, Places]:
    """Number of candidates of the problem lower than each one, and number not higher."""
    problems, k = rewards.shape
    order = np.argsort(rewards, axis=1, kind="stable")
    ordered = np.take_along_axis(rewards, order, axis=1)
    position = np.broadcast_to(np.arange(k), (problems, k))
    new = np.ones((problems, k), dtype=np.bool_)
    new[:, 1:] = np.diff(ordered, axis=1) > SAME_REWARD
    below = np.maximum.accumulate(np.where(new, position, 0), axis=1)
    last = np.ones((problems, k), dtype=np.bool_)
    last[:, :-1] = new[:, 1:]
    upto = np.minimum.accumulate(np.where(last, position + 1, k)[:, ::-1], axis=1)[:, ::-1]
    back = np.argsort(order, axis=1, kind="stable")
    return np.take_along_axis(below, back, axis=1), np.take_along_axis(upto, back, axis=1)


def _all_among(k: int, n: int) -> Floats:
    """C(m, n) / C(k, n) for m = 0 … k: probability that all n drawn are among m of the k."""
    if not 1 <= n <= k:
        raise ValueError(f"best of {n} from a pool of {k}: n is between 1 and the pool's size")
    m = np.arange(k + 1, dtype=np.float64)
    shares = np.ones(k + 1)
    for i in range(n):
        shares *= np.maximum(m - i, 0) / (k - i)
    return shares


def divergence(p: Floats) -> Floats:
    """KL of each problem's choice from a uniform one, sum of p ln(K p): nats, in [0, ln K]."""
    terms = np.where(p > 0, p * np.log(np.where(p > 0, p * p.shape[1], 1)), 0)
    found: Floats = terms.sum(axis=1)
    return found


def best_of_divergence(n: int) -> float:
    """Bound of best-of-n's KL: ln n - (n - 1) / n, reached where no rewards tie and the pool is
    large (Beirami et al. 2024, arXiv:2401.01879)."""
    return math.log(n) - (n - 1) / n


@dataclass(frozen=True, slots=True)
class Point:
    """Value and reward at one strength of selection."""

    n: int
    kl: float
    """Mean over problems, nats."""
    value: Estimate
    reward: Estimate
    honest: Estimate
    """Probability that the selected candidate has its problem's highest value."""

    @property
    def kl_bound(self) -> float:
        """KL of best-of-n in a large pool without ties, nats."""
        return best_of_divergence(self.n)


@dataclass(frozen=True, slots=True)
class Pools:
    """Candidates of problems, equally many each: pools of different sizes do not share a curve."""

    problems: tuple[str, ...]
    groups: tuple[str, ...]
    rewards: Floats
    """Problems × candidates."""
    values: Floats
    reward_ends: Ends
    """The lowest and the highest possible reward."""

    def __post_init__(self) -> None:
        if self.rewards.shape != self.values.shape or len(self.rewards) != len(self.problems):
            raise ValueError(
                f"rewards {self.rewards.shape} and values {self.values.shape} of "
                f"{len(self.problems)} problems"
            )


def value_curves(pools: Pools, ns: Sequence[int]) -> Floats:
    """Value of best-of-n on each problem, problems × ns; input of `crossing`."""
    choices = _each_best_of(pools.rewards, ns)
    return np.stack([(p * pools.values).sum(axis=1) for p in choices], axis=1)


def best_of_n(pools: Pools, ns: Sequence[int] | None = None) -> tuple[Point, ...]:
    """Pressure curve of best-of-n for `ns`; by default for all n up to the pool's size."""
    chosen = range(1, pools.rewards.shape[1] + 1) if ns is None else ns
    u, v = pools.rewards, pools.values
    best = v >= v.max(axis=1, keepdims=True) - SAME_REWARD
    worth = float(v.min(axis=1).mean()), float(v.max(axis=1).mean())
    columns: list[tuple[Floats, Ends]] = []
    kls = []
    for p in _each_best_of(u, chosen):
        kls.append(float(divergence(p).mean()))
        columns += [
            ((p * v).sum(axis=1), worth),
            ((p * u).sum(axis=1), pools.reward_ends),
            ((p * best).sum(axis=1), (0.0, 1.0)),
        ]
    figures = estimates(
        [
            Sample(pools.problems, tuple(column.tolist()), pools.groups, ends)
            for column, ends in columns
        ]
    )
    return tuple(
        Point(n, kl, *figures[3 * k : 3 * k + 3])
        for k, (n, kl) in enumerate(zip(chosen, kls, strict=True))
    )


@dataclass(frozen=True, slots=True)
class Crossing:
    """The point at which the falling fit of a curve reaches zero."""

    at: float | None
    """None if there is no crossing within the range of the curve."""
    interval: tuple[float | None, float | None]
    """95 %; an end is None if the curve may cross beyond the grid on that side."""


def falling(values: Floats) -> Floats:
    """Least-squares fit of a curve that never rises (Barlow et al. 1972), in the given order."""
    from scipy.optimize import isotonic_regression

    return isotonic_regression(values, increasing=False).x


def zero_of(at: Floats, values: Floats) -> float | None:
    """The point at which the falling fit of `values` reaches 0, interpolated between grid points;
    None if it starts at 0 or below, or stays above."""
    fit = falling(values)
    below = np.flatnonzero(fit <= 0)
    if not len(below):
        return None
    first = int(below[0])
    if first == 0:
        return float(at[0]) if fit[0] == 0 and values[0] == 0 else None
    high, low = fit[first - 1], fit[first]
    return float(at[first - 1] + (at[first] - at[first - 1]) * high / (high - low))


def crossing(at: Sequence[float], curves: Floats, of: Places, ends: Ends | None = None) -> Crossing:
    """Zero crossing of the mean of problems' curves.

    at: the grid points, rising. curves: problems × points. of: the cluster of each problem. ends:
    the lowest and highest point that a curve may have.
    """
    points = np.asarray(at, dtype=np.float64)
    figures = means([column.tolist() for column in curves.T], of, [ends] * len(points))
    bands = [each.interval or (each.value, each.value) for each in figures]
    low, high = (zero_of(points, np.array(band)) for band in zip(*bands, strict=True))
    return Crossing(zero_of(points, curves.mean(axis=0)), (low, high))
