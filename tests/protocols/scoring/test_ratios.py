import math

import numpy as np
import pytest

from oversight.protocols.scoring.ratios import fieller, gap_recovered
from oversight.protocols.scoring.shares import wilson


def test_fieller_covers_the_ratio_of_planted_means() -> None:
    rng = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]]) / 40
    covered = 0
    for _ in range(1000):
        pairs = rng.multivariate_normal((1.0, 2.0), 40 * covariance, size=40)
        first, second = pairs.mean(axis=0)
        found = fieller(first, second, np.cov(pairs.T) / 40, degrees=39)
        assert found.interval is not None
        covered += found.interval[0] <= 0.5 <= found.interval[1]
    assert 0.93 <= covered / 1000 <= 0.97


def test_the_ends_solve_the_equation_of_fieller() -> None:
    v = np.array([[0.04, 0.01], [0.01, 0.02]])
    found = fieller(1.0, 2.0, v, degrees=20_000)
    assert found.interval is not None
    for r in found.interval:
        far = 1.96**2 * (v[0, 0] - 2 * r * v[0, 1] + r * r * v[1, 1])
        assert (1.0 - 2.0 * r) ** 2 == pytest.approx(far, rel=1e-4)


def test_a_denominator_that_may_be_nothing_leaves_the_ratio_undetermined() -> None:
    assert fieller(1.0, 0.1, np.eye(2) * 0.01, degrees=30).interval is None
    with pytest.raises(ValueError, match="denominator of 0"):
        fieller(1.0, 0.0, np.eye(2), degrees=30)


def test_the_gap_recovered_is_nothing_for_the_naive_judge_and_one_for_a_perfect_one() -> None:
    naive = 1.2 + 0.05 * np.random.default_rng(1).normal(size=4001)
    naive[0] = 1.2
    same = gap_recovered(naive, naive, 2.0, degrees=99)
    assert (same.estimate, same.interval) == (0.0, pytest.approx((0.0, 0.0), abs=1e-9))
    perfect = gap_recovered(np.full(4001, 2.0), naive, 2.0, degrees=99)
    assert perfect.estimate == 1.0
    assert perfect.interval == pytest.approx((1.0, 1.0), abs=1e-6)
    half = gap_recovered((naive + 2) / 2, naive, 2.0, degrees=99)
    assert half.estimate == pytest.approx(0.5)


def test_wilson_agrees_with_its_equation_and_stays_within_bounds() -> None:
    low, high = wilson(0.3, 50)
    for p in (low, high):
        assert abs(0.3 - p) == pytest.approx(1.959964 * math.sqrt(p * (1 - p) / 50), rel=1e-6)
    assert wilson(0.0, 20)[0] == 0.0
    assert wilson(0.0, 20)[1] == pytest.approx(0.161, abs=0.001)
    assert wilson(1.0, 20)[1] == 1.0
    with pytest.raises(ValueError, match=r"share of 1\.2"):
        wilson(1.2, 5)
