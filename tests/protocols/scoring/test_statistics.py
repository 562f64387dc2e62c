import itertools
import math
import tracemalloc
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from oversight.protocols.scoring.sample import Sample
from oversight.protocols.scoring.statistics import (
    CHUNK_CLUSTERS,
    Estimate,
    estimate,
    estimates,
    exact_at_the_ends,
)


def numbered(values: list[float], groups: list[str] | None = None) -> Sample:
    ids = tuple(f"q{n}" for n in range(len(values)))
    return Sample(ids, tuple(values), tuple(groups or ()))


def clustered(seed: int, clusters: int, mean: float) -> Sample:
    """Questions about shared texts, one to four a text; the text matters more than the question."""
    rng = np.random.default_rng(seed)
    values: list[float] = []
    groups: list[str] = []
    for text in range(clusters):
        of_text = mean + rng.normal()
        for _ in range(rng.integers(1, 5)):
            values.append(float(of_text + 0.3 * rng.normal()))
            groups.append(f"text {text}")
    return numbered(values, groups)


def test_the_interval_is_that_of_every_possible_resample() -> None:
    """Three clusters and two pseudo-clusters have 3,125 resamples: their quantiles can be had
    without drawing."""
    values, groups = [1.0, 2.0, 6.0, 9.0], ["x", "x", "y", "z"]
    size = 4 / 3
    clusters = [(3.0, 2.0), (6.0, 1.0), (9.0, 1.0), (0.0, size), (10 * size, size)]
    means = [
        sum(s for s, _ in drawn) / sum(n for _, n in drawn)
        for drawn in itertools.product(clusters, repeat=5)
    ]
    sample = Sample(("a", "b", "c", "d"), tuple(values), tuple(groups), (0, 10))
    found = estimate(sample, resamples=200_000, level=0.5)
    assert (found.n, found.clusters, found.mean) == (4, 3, 4.5)
    # 16/6 clusters of one size: one degree of freedom, whose quartile is 1.
    tail = NormalDist().cdf(-math.sqrt(5 / 4))
    exact = np.quantile(means, [tail, 1 - tail])
    assert found.interval == pytest.approx(tuple(exact), abs=0.05)
    assert found.effective == pytest.approx(16 / 6)


@pytest.mark.parametrize("n", [5, 20, 100])
def test_questions_that_all_agree_still_leave_a_doubt(n: int) -> None:
    ids = tuple(map(str, range(n)))
    found = estimate(Sample(ids, (1.0,) * n, ends=(-1, 1)))
    assert found.interval is not None
    low, high = found.interval
    assert high == 1.0
    # What no question showed may be in 3 of n (the rule of three): as far as the range allows.
    assert 1 - low == pytest.approx(2 * 3.5 / (n + 2), rel=0.5)


def test_a_measure_without_ends_has_no_interval_of_width_nothing() -> None:
    assert estimate(numbered([0.1 + 0.2, 0.3, 0.3])).interval is None


@pytest.mark.parametrize("values", [(0.0, 2.5), (-1.0, 1.0)])
def test_a_value_beyond_the_ends_of_its_measure_is_refused(values: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="beyond the ends 0 and 2"):
        Sample(("a", "b"), values, ends=(0, 2))


def test_the_interval_of_a_large_sample_is_that_of_the_normal_distribution() -> None:
    sample = numbered(np.random.default_rng(1).normal(size=2000).tolist())
    found = estimate(sample)
    assert found.half_width == pytest.approx(1.96 * sample.std / 2000**0.5, rel=0.05)


def test_intervals_cover_the_true_mean_and_would_not_if_they_ignored_the_clusters() -> None:
    by_cluster = by_question = 0
    for seed in range(200):
        sample = clustered(seed, 40, mean=0.3)
        by_cluster += covers(0.3, estimate(sample))
        by_question += covers(0.3, estimate(Sample(sample.questions, sample.values)))
    assert 180 <= by_cluster <= 196
    assert by_question < 170


def covers(mean: float, found: Estimate) -> bool:
    assert found.interval is not None
    return found.interval[0] <= mean <= found.interval[1]


def test_resampling_repeats_with_its_seed_and_varies_without() -> None:
    sample = replace(clustered(3, 30, mean=0.0), ends=(-9, 9))
    assert estimate(sample, seed=5) == estimate(sample, seed=5)
    assert estimate(sample, seed=5).interval != estimate(sample, seed=6).interval


def test_measures_estimated_together_are_estimated_as_if_alone() -> None:
    first, groups = clustered(4, 30, mean=0.0), clustered(4, 30, mean=0.0).groups
    second = Sample(first.questions, tuple(v * v for v in first.values), groups)
    together = estimates((first, second))
    for found, sample in zip(together, (first, second), strict=True):
        assert found.interval == pytest.approx(estimate(sample).interval, abs=1e-12)
        assert (found.mean, found.std) == (sample.mean, sample.std)


def test_measures_of_different_questions_are_not_estimated_together() -> None:
    with pytest.raises(ValueError, match="different questions or groups"):
        estimates((numbered([1.0, 2.0]), numbered([1.0, 2.0, 3.0])))
    assert estimates(()) == ()


def test_one_cluster_has_no_interval() -> None:
    assert estimate(numbered([1.0, 3.0], ["x", "x"])) == Estimate(2, 1, 2.0, 1.0, 2**0.5, None)
    assert estimate(numbered([1.0])).half_width is None


def test_memory_does_not_grow_with_the_number_of_resamples() -> None:
    sample = replace(numbered(np.random.default_rng(0).normal(size=5000).tolist()), ends=(-9, 9))
    tracemalloc.start()
    estimate(sample, resamples=250)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All resamples at once would take 10 MB for the indices alone, and as much for the counts.
    assert peak < 5 * 8 * CHUNK_CLUSTERS


@pytest.mark.parametrize("n", [1, 2, 10, 300])
@pytest.mark.parametrize("all_alike", [0.0, 1.0])
def test_a_share_on_which_all_agree_is_as_sure_as_so_many_trials(n: int, all_alike: float) -> None:
    found = exact_at_the_ends(estimate(numbered([all_alike] * n)))
    assert found.interval is not None
    low, high = found.interval
    inner, outer = (high, low) if all_alike == 0 else (low, high)
    assert outer == all_alike
    # Were the share at the inner end, n trials would all agree in one case of 40.
    assert (1 - abs(inner - all_alike)) ** n == pytest.approx(0.025)


def test_a_share_that_varies_keeps_its_interval() -> None:
    found = estimate(numbered([0, 1, 1]))
    assert exact_at_the_ends(found) == found
