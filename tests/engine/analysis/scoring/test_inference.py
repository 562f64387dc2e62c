"""Errors and intervals against plain sums, scipy and planted samples: known truths."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from oversight.engine.analysis.scoring import inference
from oversight.engine.analysis.scoring.contrasts import contrasts
from oversight.engine.analysis.scoring.estimate import Estimate, t_cdf, t_of, t_quantile
from oversight.engine.analysis.scoring.inference import (
    Floats,
    Influences,
    estimates,
    mean_of,
    of_questions,
)


def sample(values: Floats, groups: tuple[str, ...] = (), ends: float | None = 2.0) -> Influences:
    ids = [f"q{n}" for n in range(len(values))]
    return of_questions(ids, values, groups, (ends and (-ends, ends)) or None)


def test_the_error_is_the_jackknife_over_clusters() -> None:
    values = np.random.default_rng(2).normal(size=9)
    keys = np.array(list("aaabbcccc"))
    means = [values[keys != c].mean() for c in "abc"]
    jackknife = 2 / 3 * sum((mean - values.mean()) ** 2 for mean in means)
    estimate = mean_of(values, {"problem": keys}).estimate()
    assert estimate.error is not None and estimate.error**2 == pytest.approx(jackknife, rel=1e-12)
    assert estimate.method == "CR3 t"
    same = inference.jackknifed(float(values.mean()), np.array(means), 9)
    assert same.error == pytest.approx(estimate.error)


def test_the_pseudo_clusters_stand_at_the_ends() -> None:
    """The same jackknife with one more cluster of average size at each end."""
    values = np.array([0.2, -0.4, 1.0, 0.3, 0.9, -1.1])
    estimate = sample(values).estimate(interval="conservative")
    more = np.append(values, [-2.0, 2.0])
    means = [np.delete(more, n).mean() for n in range(8)]
    error = math.sqrt(7 / 8 * sum((mean - more.mean()) ** 2 for mean in means))
    assert estimate.guard is not None and estimate.conservative
    assert estimate.guard[:2] == pytest.approx((error, more.mean()))
    reach = t_of(0.95, 5) * error
    assert estimate.interval == pytest.approx((more.mean() - reach, more.mean() + reach))


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 10, 39, 200])
@pytest.mark.parametrize("p", [0.005, 0.3, 0.8, 0.975, 0.9999])
def test_t_quantiles_and_tails_agree_with_scipy(p: float, degrees: int) -> None:
    assert t_quantile(p, degrees) == pytest.approx(special.stdtrit(degrees, p), rel=1e-9)
    assert t_cdf(1.3, degrees) == pytest.approx(special.stdtr(degrees, 1.3), rel=1e-12)
    tail = Estimate(1.3, degrees, degrees, 1.0, degrees).p()
    assert tail == pytest.approx(2 * special.stdtr(degrees, -1.3), rel=1e-9)


def test_plain_clustered_errors_are_the_double_sum_of_miller() -> None:
    """SE^2 = sum over pairs in one cluster of (s_i - m)(s_j - m) / n^2, here with G / (G - 1)."""
    values, keys = np.random.default_rng(1).normal(size=9), "aaabbcccc"
    away = values - values.mean()
    pairs = sum(
        away[i] * away[j] for i, j in itertools.product(range(9), repeat=2) if keys[i] == keys[j]
    )
    estimate = mean_of(values, {"problem": np.array(list(keys))}).estimate("cr1")
    assert estimate.error is not None and estimate.error**2 == pytest.approx(pairs / 81 * 3 / 2)


def test_crossed_clusters_add_their_ways_and_take_away_what_both_share() -> None:
    rng = np.random.default_rng(3)
    text, judge = rng.integers(20, size=200), rng.integers(8, size=200)
    values = rng.normal(size=20)[text] + 0.5 * rng.normal(size=8)[judge] + rng.normal(size=200)
    both = np.array([f"{t} {j}" for t, j in zip(text, judge, strict=True)])
    ways = {"text": text, "judge": judge, "both": both}
    one = mean_of(values, ways)
    v = {way: (one.by(way).estimate("cr1").error or 0) ** 2 for way in ways}
    crossed = one.by("text", "judge").estimate("cr1")
    assert crossed.error is not None
    assert crossed.error**2 == pytest.approx(v["text"] + v["judge"] - v["both"])
    assert (crossed.clusters, crossed.degrees) == (8, 7)
    assert set(one.by("text", "judge").estimate().errors) == {"text", "judge"}
    with pytest.raises(ValueError, match="unknown clusters 'rater': choose from text, judge, both"):
        one.by("rater")


def test_p_equivalence_and_interval_are_one_statistic() -> None:
    estimate = sample(np.random.default_rng(4).normal(0.3, 0.5, 40)).estimate()
    assert estimate.interval is not None
    for end in estimate.interval:
        assert estimate.p(end) == pytest.approx(0.05, abs=1e-9)
    low, high = estimate.at(0.9) or (0.0, 0.0)
    margin = max(abs(low), abs(high))
    assert estimate.equivalent(margin * 1.001) and not estimate.equivalent(margin * 0.999)


def test_samples_are_estimated_together_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    groups = tuple(f"g{n // 3}" for n in range(30))
    some = [sample(rng.normal(0, 0.3, 30), groups) for _ in range(3)]
    some.append(sample(rng.normal(0, 0.3, 12)))
    monkeypatch.setattr(inference, "BLOCK", 64)  # Two samples of 30.
    assert estimates(some) == tuple(one.estimate() for one in some)
    alone = mean_of(some[0].values, some[0].ways, some[0].ends).estimate()
    assert some[0].estimate().error == pytest.approx(alone.error)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(6, 80), st.floats(0.05, 1.0))
def test_without_groups_a_contrast_is_the_paired_t(seed: int, n: int, sd: float) -> None:
    rng = np.random.default_rng(seed)
    one, two = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n) * sd
    theirs = stats.ttest_rel(one, two)
    (ours,) = contrasts({"a": sample(one), "b": sample(two)})
    assert not ours.estimate.conservative and ours.p == pytest.approx(theirs.pvalue, rel=1e-9)
    low, high = theirs.confidence_interval(0.95)
    assert ours.estimate.interval == pytest.approx((low, high), abs=1e-12)
    assert (ours.estimate.t(), ours.estimate.degrees) == pytest.approx((theirs.statistic, n - 1))
