import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.protocols.scoring.sample import Sample
from oversight.protocols.scoring.statistics import (
    CHUNK_CLUSTERS,
    Estimate,
    difference,
    estimate,
    estimates,
    exact_at_the_ends,
    holm,
    lift,
    paired_differences,
)

ps = st.lists(st.floats(0, 1), max_size=8)


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
    """Three clusters have 27 resamples; their quantiles can be had without drawing."""
    values, groups = [1.0, 2.0, 6.0, 9.0], ["x", "x", "y", "z"]
    texts = [(3.0, 2), (6.0, 1), (9.0, 1)]
    means = [
        sum(s for s, _ in drawn) / sum(n for _, n in drawn)
        for drawn in itertools.product(texts, repeat=3)
    ]
    found = estimate(numbered(values, groups), resamples=50_000, level=0.5)
    assert (found.n, found.clusters, found.mean) == (4, 3, 4.5)
    exact = np.quantile(means, [0.25, 0.75], method="inverted_cdf")
    assert found.interval == pytest.approx(tuple(exact), abs=1e-9)


def test_the_interval_of_a_large_sample_is_that_of_the_normal_distribution() -> None:
    sample = numbered(np.random.default_rng(1).normal(size=2000).tolist())
    found = estimate(sample)
    assert found.half_width == pytest.approx(1.96 * sample.std / 2000**0.5, rel=0.05)


def test_bootstrap_intervals_cover_the_true_mean() -> None:
    covered = 0
    for seed in range(200):
        interval = estimate(clustered(seed, 40, mean=0.3), resamples=1000, seed=seed).interval
        assert interval is not None
        covered += interval[0] <= 0.3 <= interval[1]
    assert 180 <= covered <= 196


def test_ignoring_the_clusters_would_cover_too_little() -> None:
    covered = 0
    for seed in range(200):
        sample = clustered(seed, 40, mean=0.3)
        alone = Sample(sample.questions, sample.values)
        interval = estimate(alone, resamples=1000, seed=seed).interval
        assert interval is not None
        covered += interval[0] <= 0.3 <= interval[1]
    assert covered < 170


def test_resampling_repeats_with_its_seed_and_varies_without() -> None:
    sample = clustered(3, 30, mean=0.0)
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
    sample = numbered(np.random.default_rng(0).normal(size=5000).tolist())
    tracemalloc.start()
    estimate(sample, resamples=500)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All resamples at once would take 20 MB for the indices alone, and as much for the counts.
    assert peak < 5 * 8 * CHUNK_CLUSTERS


def test_a_difference_is_taken_question_by_question() -> None:
    found = difference(numbered([3.0, 1.0, 2.0]), numbered([1.0, 0.0, 1.5]))
    assert found.estimate.mean == pytest.approx(3.5 / 3)
    assert found.estimate.n == 3
    assert found.p_holm == found.p


def test_pairing_sees_what_two_intervals_would_hide() -> None:
    hard = np.random.default_rng(2).normal(size=60)
    first = numbered((hard + 0.2).tolist())
    second = numbered((hard + 0.02 * np.random.default_rng(3).normal(size=60)).tolist())
    assert (estimate(first).half_width or 0) > 0.2
    found = difference(first, second)
    assert found.p < 0.001
    assert found.estimate.interval is not None
    assert found.estimate.interval[0] > 0.15


def test_p_is_that_of_every_possible_flip() -> None:
    """Of the 16 ways to sign 1, 2, 3 and 4, four sum to 8 or more in size."""
    found = difference(numbered([2.0, 2.0, 3.0, 4.0]), numbered([3.0, 0.0, 0.0, 0.0]))
    assert found.estimate.mean == 2.0
    sums = [sum(signed) for signed in itertools.product((1, -1), (2, -2), (3, -3), (4, -4))]
    assert sum(abs(total) >= 8 for total in sums) == 4
    assert found.p == pytest.approx(4 / 16, abs=0.02)


def test_questions_of_one_group_are_flipped_together() -> None:
    """Eight questions of one text are one piece of evidence, and no more."""
    zeros = numbered([0.0] * 8, ["x"] * 8)
    assert difference(numbered([1.0] * 8, ["x"] * 8), zeros).p == 1.0
    assert difference(numbered([1.0] * 8), numbered([0.0] * 8)).p < 0.02


def test_equal_protocols_differ_by_chance_always() -> None:
    same = numbered([0.1, 0.2, 0.7])
    assert difference(same, same).p == 1.0


def test_p_is_small_as_often_as_it_says() -> None:
    small = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        first, second = rng.normal(size=(2, 30)).tolist()
        small += difference(numbered(first), numbered(second), seed=seed, resamples=500).p <= 0.1
    assert 8 <= small <= 32


def test_lift_is_what_is_above_the_naive_judge() -> None:
    found = lift(numbered([1.5, 1.0]), numbered([1.25, 1.25]))
    assert found.estimate.mean == 0.0


def test_holm_agrees_with_a_worked_example() -> None:
    """0.005 × 4, 0.01 × 3, 0.03 × 2; then 0.04 × 1, which may not fall below 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_holm_leaves_one_alone_and_none_above_one() -> None:
    assert holm([]) == ()
    assert holm([0.04]) == (0.04,)
    assert holm([0.6, 0.7, 0.9]) == (1.0, 1.0, 1.0)


@given(ps)
def test_holm_lies_between_no_correction_and_bonferroni(ps: list[float]) -> None:
    for p, corrected in zip(ps, holm(ps), strict=True):
        assert p <= corrected <= min(1.0, p * len(ps))


@given(ps)
def test_holm_keeps_the_order(ps: list[float]) -> None:
    corrected = holm(ps)
    for (p, c), (q, d) in itertools.combinations(zip(ps, corrected, strict=True), 2):
        assert (c <= d) if p <= q else (d <= c)


def test_all_differences_are_corrected_together() -> None:
    better, same = numbered([1.0] * 12), numbered([0.0] * 11 + [0.1])
    base = numbered([0.0] * 12)
    first, second = paired_differences(((better, base), (same, base)))
    assert (first.p_holm, second.p_holm) == holm([first.p, second.p])
    assert first.p_holm == 2 * first.p


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
