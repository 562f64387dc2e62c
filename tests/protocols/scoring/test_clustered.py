import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.clustered import (
    by_cluster,
    codes,
    cr1,
    cr3,
    degrees,
    design_effect,
    effective,
    few_clusters,
    t_interval,
)
from oversight.protocols.scoring.quantiles import t_cdf, t_of, t_quantile


def effects(seed: int, runs: int, sizes: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Sums of clusters with normal effects and noise, clusters × runs; their mean is 0."""
    n = np.asarray(sizes, dtype=np.float64)
    rng = np.random.default_rng(seed)
    of_cluster, noise = rng.normal(size=(2, len(n), runs))
    return of_cluster * n[:, None] + 0.5 * noise * np.sqrt(n)[:, None], n


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 10, 39, 200])
@pytest.mark.parametrize("p", [0.005, 0.3, 0.8, 0.975, 0.9999])
def test_t_quantiles_are_those_of_scipy(p: float, degrees: int) -> None:
    assert t_quantile(p, degrees) == pytest.approx(special.stdtrit(degrees, p), rel=1e-9)
    assert t_cdf(1.3, degrees) == pytest.approx(special.stdtr(degrees, 1.3), rel=1e-12)


def test_t_quantiles_far_out_are_normal_and_none_lies_beyond_certainty() -> None:
    assert t_of(0.95, 10_001) == pytest.approx(1.959964, abs=1e-6)
    for p in (0.0, 1.0):
        with pytest.raises(ValueError, match="not between 0 and 1"):
            t_quantile(p, 5)
    with pytest.raises(ValueError, match="at least 1"):
        t_cdf(0.0, 0)


def test_without_clusters_the_error_is_that_of_the_central_limit_theorem() -> None:
    values = np.random.default_rng(0).normal(size=30)
    sums, sizes = by_cluster(values, codes(range(30)))
    clt = float(np.square(values - values.mean()).sum()) / (30 * 29)
    assert float(cr1(sums, sizes)) == pytest.approx(clt, rel=1e-12)
    assert float(cr3(sums, sizes)) == pytest.approx(clt, rel=1e-12)


def test_the_clustered_error_is_the_double_sum_of_miller() -> None:
    """SE^2 = sum over pairs in one cluster of (s_i - m)(s_j - m) / n^2, here with G / (G - 1)."""
    values = np.random.default_rng(1).normal(size=9)
    of = codes("aaabbcccc")
    away = values - values.mean()
    pairs = sum(
        away[i] * away[j] for i, j in itertools.product(range(9), repeat=2) if of[i] == of[j]
    )
    assert float(cr1(*by_cluster(values, of))) == pytest.approx(pairs / 81 * 3 / 2, rel=1e-12)


def test_cr3_is_the_jackknife() -> None:
    values = np.random.default_rng(2).normal(size=9)
    of = codes("aaabbcccc")
    left = [values[of != c].mean() for c in range(3)]
    jackknife = 2 / 3 * sum((each - values.mean()) ** 2 for each in left)
    assert float(cr3(*by_cluster(values, of))) == pytest.approx(jackknife, rel=1e-12)


@pytest.mark.parametrize(
    "sizes", [(5,) * 10, (5,) * 20, (1, 2, 3, 4, 12) * 2, (1, 2, 3, 4, 12) * 4]
)
def test_t_intervals_of_few_clusters_cover(sizes: tuple[int, ...]) -> None:
    """The percentile interval covers .89 to .93 here."""
    low, high = t_interval(*effects(3, 4000, sizes))
    assert ((low <= 0) & (high >= 0)).mean() >= 0.94


def test_a_single_cluster_has_no_error() -> None:
    with pytest.raises(ValueError, match="single cluster"):
        cr1(np.ones(1), np.ones(1))


def test_unequal_clusters_are_worth_fewer() -> None:
    assert effective(np.full(7, 3.0)) == pytest.approx(7)
    assert degrees(np.full(7, 3.0)) == 6
    assert effective(np.array([1.0, 1, 1, 1, 96])) == pytest.approx(1.085, abs=1e-3)
    assert degrees(np.array([1.0, 1, 1, 1, 96])) == 1


def test_one_cluster_that_decides_the_mean_is_told() -> None:
    calm = few_clusters(np.random.default_rng(5).normal(size=40), np.ones(40))
    assert not calm.doubtful
    swayed = few_clusters(np.array([0.0] * 30 + [50.0]), np.array([1.0] * 30 + [30.0]))
    assert swayed.most_moved > 1
    assert swayed.doubtful
    far = few_clusters(np.array([0.0] * 39 + [50.0]), np.array([1.0] * 39 + [2.0]))
    assert far.effective > 20
    assert far.doubtful


def test_the_design_effect_of_planted_clusters_is_recovered() -> None:
    rng = np.random.default_rng(7)
    of = np.repeat(np.arange(400), 5)
    values = rng.normal(size=400)[of] * math.sqrt(0.3) + rng.normal(size=2000) * math.sqrt(0.7)
    found = design_effect(values, of)
    assert found.correlation == pytest.approx(0.3, abs=0.05)
    assert found.effect == pytest.approx(1 + 4 * 0.3, abs=0.2)
    assert found.n_effective == pytest.approx(2000 / found.effect)
    assert design_effect(values, np.arange(2000)).effect == 1
