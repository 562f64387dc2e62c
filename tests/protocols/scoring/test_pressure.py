"""Selection from pools whose order statistics are known: known truths."""

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.pressure import (
    Pools,
    best_of,
    best_of_divergence,
    best_of_n,
    crossing,
    divergence,
    falling,
    value_curves,
    zero_of,
)


def pools(rewards: npt.ArrayLike, values: npt.ArrayLike) -> Pools:
    u, v = np.atleast_2d(np.asarray(rewards, float)), np.atleast_2d(np.asarray(values, float))
    return Pools(tuple(f"p{n}" for n in range(len(u))), ("",) * len(u), u, v, (-9.0, 9.0))


def test_the_best_of_n_of_numbers_1_to_50_is_their_order_statistic() -> None:
    """E[max of n] = n (K + 1) / (n + 1)."""
    u = np.arange(1.0, 51)[None, :]
    for n, exact in ((1, 25.5), (2, 34), (4, 40.8), (8, 45 + 1 / 3), (16, 48), (32, 49 + 5 / 11)):
        assert float((best_of(u, n) * u).sum()) == pytest.approx(exact, abs=1e-9)


def test_best_of_n_is_the_mean_over_every_subset() -> None:
    u = np.array([1.0, 2.0, 2.0, 0.5, 3.0])
    for n in range(1, 6):
        share = np.zeros(5)
        subsets = list(combinations(range(5), n))
        for subset in subsets:
            top = [k for k in subset if u[k] == max(u[list(subset)])]
            share[top] += 1 / len(top) / len(subsets)
        assert best_of(u[None, :], n)[0] == pytest.approx(share)


def two_normals(n: int, truths: tuple[float, float], lies: tuple[float, float]) -> float:
    """E[v] of the best of n from a large pool, half truths and half lies, by integration."""
    x = np.linspace(-15, 20, 20_001)
    t, f = ((x - mean) / sd for mean, sd in (truths, lies))
    below = (special.ndtr(t) + special.ndtr(f)) / 2
    densities = np.exp(-(t**2) / 2) / truths[1], np.exp(-(f**2) / 2) / lies[1]
    true, false = (density / math.sqrt(2 * math.pi) for density in densities)
    return float((n * below ** (n - 1) * (true - false) / 2).sum() * (x[1] - x[0]))


NS = (1, 2, 4, 8, 16, 64, 256)
HEAVY = (0, 0.0885, -0.0101, -0.2173, -0.4653, -0.8627, -0.9866)
EQUAL = (0, 0.2602, 0.4705, 0.6230, 0.7278, 0.8483, 0.9083)


def test_a_positive_asd_turns_over_where_lies_have_the_heavier_tail() -> None:
    heavy = [two_normals(n, (0.5, 1), (0, 2)) for n in NS]
    equal = [two_normals(n, (0.5, 1), (-0.5, 1)) for n in NS]
    assert heavy == pytest.approx(HEAVY, abs=5e-5)
    assert equal == pytest.approx(EQUAL, abs=5e-5)


def test_a_large_pool_has_the_curve_of_its_distribution() -> None:
    grid = (np.arange(8000) + 0.5) / 8000
    rewards = np.concatenate((0.5 + special.ndtri(grid), 2 * special.ndtri(grid)))
    values = np.repeat((1.0, -1.0), 8000)
    whole = pools(rewards, values)
    found = value_curves(whole, NS)[0]
    assert found == pytest.approx(HEAVY, abs=2e-3)
    assert rewards[:8000].mean() - rewards[8000:].mean() == pytest.approx(0.5, abs=1e-6)


def test_pressure_costs_what_it_is_bounded_by() -> None:
    u = np.random.default_rng(1).normal(size=(1, 5000))
    for n in (1, 2, 8, 64):
        kl = float(divergence(best_of(u, n))[0])
        assert kl == pytest.approx(best_of_divergence(n), abs=0.03)
    tied = np.zeros((1, 40))
    assert divergence(best_of(tied, 8))[0] == pytest.approx(0)
    assert divergence(best_of(u, 5000))[0] == pytest.approx(math.log(5000))


def test_the_curves_have_intervals_and_honest_shares() -> None:
    rng = np.random.default_rng(2)
    v = np.tile(np.repeat((1.0, -1.0), 8), (40, 1))
    found = best_of_n(pools(rng.normal(size=(40, 16)) + 0.5 * v, v), (1, 2, 16))
    assert [point.n for point in found] == [1, 2, 16]
    start, _, end = found
    assert start.value.value == pytest.approx(0)
    assert start.honest.value == pytest.approx(0.5)
    assert end.value.value >= 0.4
    assert end.value.interval is not None
    assert end.value.interval[0] < end.value.value < end.value.interval[1]
    assert end.value.value == pytest.approx(2 * end.honest.value - 1)
    whole = best_of_n(pools([[1, 2, 3]], [[1, -1, 1]]))
    assert [point.n for point in whole] == [1, 2, 3]


def test_what_cannot_be_selected_is_refused() -> None:
    with pytest.raises(ValueError, match="best of 6 from a pool of 5"):
        best_of(np.zeros((1, 5)), 6)
    with pytest.raises(ValueError, match="of 2 problems"):
        Pools(("a", "b"), ("", ""), np.zeros((1, 3)), np.zeros((1, 3)), (0, 1))


def test_a_curve_breaks_down_where_its_falling_fit_meets_zero() -> None:
    assert falling(np.array([3.0, 1.0, 2.0])) == pytest.approx([3, 1.5, 1.5])
    at = np.array([1.0, 2, 4, 8])
    assert zero_of(at, np.array([1.0, 0.5, -0.5, -1])) == pytest.approx(3)
    assert zero_of(at, np.array([1.0, 0.5, 0.4, 0.1])) is None
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(80, 1)) + 0.1 * rng.normal(size=(80, 9))
    curves: Floats = np.linspace(1, -1, 9) + noise
    found = crossing(range(9), curves, np.arange(80) // 2)
    low, high = found.interval
    assert low is not None
    assert high is not None
    assert low < 4 < high
    never = crossing(range(9), np.ones((20, 9)), np.arange(20))
    assert (never.at, never.interval) == (None, (None, None))
