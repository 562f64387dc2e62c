"""Errors and intervals against plain sums, scipy and planted samples: known truths."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from oversight.engine.analysis.findings.finding import conservative, estimated, shared
from oversight.engine.analysis.scoring import inference
from oversight.engine.analysis.scoring.contrasts import contrasts
from oversight.engine.analysis.scoring.estimate import Estimate, t_cdf, t_of, t_quantile
from oversight.engine.analysis.scoring.inference import (
    FEWEST,
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


def test_a_sum_that_falls_far_below_one_way_alone_is_not_believed() -> None:
    """Two judges who differ in opposite ways on every text: the crossed sum is negative."""
    text, judge = np.repeat(np.arange(6), 2), np.tile((0, 1), 6)
    values = np.where((text + judge) % 2, 1.0, -1.0) + 0.05 * text
    estimate = mean_of(values, {"text": text, "judge": judge}, (-1, 1)).estimate()
    assert estimate.method.endswith("the larger one-way error")
    assert estimate.error == pytest.approx(max(estimate.errors.values()))


def test_p_equivalence_and_interval_are_one_statistic() -> None:
    estimate = sample(np.random.default_rng(4).normal(0.3, 0.5, 40)).estimate()
    assert estimate.interval is not None
    for end in estimate.interval:
        assert estimate.p(end) == pytest.approx(0.05, abs=1e-9)
    low, high = estimate.at(0.9) or (0.0, 0.0)
    margin = max(abs(low), abs(high))
    assert estimate.equivalent(margin * 1.001) and not estimate.equivalent(margin * 0.999)


def test_two_samples_without_common_clusters_add_their_variances() -> None:
    rng = np.random.default_rng(6)
    one = mean_of(rng.normal(size=50), {"problem": np.arange(50)})
    two = mean_of(rng.normal(size=80), {"problem": np.arange(100, 180)})
    apart = (one - two).estimate()
    v = [(one_sample.estimate().error or 0) ** 2 for one_sample in (one, two)]
    assert (apart.error or 0) ** 2 == pytest.approx(sum(v), rel=0.03)
    assert (apart.n, apart.clusters, apart.degrees) == (130, 130, 49)
    with pytest.raises(ValueError, match="no kind of cluster in common"):
        one - mean_of([1.0, 2.0], {"judge": np.arange(2)})


def test_figure_without_variation_has_a_reason_and_no_interval() -> None:
    alone = sample(np.array([0.5])).estimate()
    assert (alone.interval, alone.p()) == (None, 1.0)
    assert alone.reason == "it needs at least two problems or groups"
    one_judge = mean_of([0.1, 0.2], {"problem": np.arange(2), "judge": np.zeros(2)}).estimate()
    assert one_judge.reason == "it needs at least two judges"
    equal = mean_of([0.5] * 4, {"problem": np.arange(4)}).estimate()
    assert (equal.interval, equal.reason) == (None, "all clusters are equal")
    bounded = mean_of([0.5] * 4, {"problem": np.arange(4)}, (0, 1)).estimate()
    assert bounded.interval is not None and bounded.interval[0] < 0.5 < bounded.interval[1]
    strata = Influences(
        0.1, np.array([0.1, -0.1, 0.0]), {"problem": np.array([0, 1, 2])}, None,
        np.array([0, 0, 1]),
    )  # fmt: skip
    assert "has all judgements of a kind" in strata.estimate().reason
    assert sample(np.array([0.2, 0.4])).estimate().interval == pytest.approx((-2, 2))


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


def test_the_guard_stands_in_only_where_t_has_nothing_to_stand_on() -> None:
    rng = np.random.default_rng(12)
    dense = sample(rng.normal(0.2, 0.5, 30)).estimate()
    few = sample(rng.normal(0.2, 0.5, FEWEST - 1)).estimate()
    equal = sample(np.full(30, 0.4)).estimate()
    rare = sample(np.where(np.arange(100) < 4, -2.0, 2.0)).estimate()
    common = sample(np.where(np.arange(100) < 12, -2.0, 2.0)).estimate()
    flags = [bool(estimate.conservative) for estimate in (dense, few, equal, rare, common)]
    assert flags == [False, True, True, True, False]
    free = sample(np.array([0.1, 0.2, 0.4]), ends=None).estimate()
    assert not free.conservative and free.interval is not None
    assert dense.by("conservative").conservative and dense.by("t") == dense
    end = sample(np.full(9, 0.1 + 0.2), ends=0.3).estimate()  # But for rounding.
    assert end.interval == pytest.approx((0.3 - 0.6 * (1 - 0.025 ** (1 / 9)), 0.3))


def test_a_decision_that_an_unseen_error_could_undo_is_marked() -> None:
    values = np.concatenate((np.full(24, 0.4), np.zeros(3), np.full(3, -0.3)))
    estimate = sample(values, ends=4.0).estimate()
    assert estimate.p() < 0.001 and estimate.undone
    assert estimate.by("conservative").p() > 0.05
    assert not sample(np.tile([1.0, 1.4], 50), ends=2.0).estimate().undone
    (decided,) = contrasts({"a": sample(values), "b": sample(np.zeros(30))})
    assert (decided.verdict, decided.undone) == ("better", True)


def test_share_of_1_has_the_exact_bound() -> None:
    estimate = mean_of(np.ones(87), {"problem": np.arange(87)}, (0.0, 1.0)).estimate()
    low, high = estimate.interval or (0, 0)
    assert (low, high) == (pytest.approx(special.betaincinv(87, 1, 0.025), rel=1e-9), 1.0)
    assert round(low, 3) == 0.958 and estimate.p(low) == pytest.approx(0.05, rel=1e-9)
    none = mean_of(np.zeros(20), {"problem": np.arange(20)}, (0.0, 1.0)).estimate()
    assert none.interval == (0.0, pytest.approx(0.1684, abs=1e-4))
    assert estimated(none) == "0.000 [0.000, 0.168]" and shared(estimate) == "100% [96, 100]"


def test_a_conservative_interval_says_why_it_replaces_t() -> None:
    rare = np.repeat((-2.0, 2.0), (4, 96))
    heavy = np.append(np.linspace(0.1, 0.2, 20), 90.0)
    of_groups = {"problem": np.arange(30) % 5}
    for figure, reason in (
        (sample(np.array([1.0, 0.0, 1.0])), "conservative: only 3 problems"),
        (mean_of(np.arange(30.0), of_groups, (0.0, 99.0)), "conservative: only 5 clusters"),
        (sample(np.full(30, 0.4)), "conservative: all problems equal"),
        (sample(rare), "conservative: only 4 of 100 problems differ"),
        (sample(heavy, ends=99.0), "conservative: only 1 of 21 problems differ"),
        # The exact bound of a share, and an interval by t, need no word.
        (sample(np.full(30, 2.0)), ""),
        (sample(np.arange(30.0) / 30), ""),
    ):
        assert conservative([figure.estimate()]) == reason
    both = [sample(rare).estimate(), sample(np.arange(30.0) / 30).by("problem").estimate()]
    assert conservative(both) == "1 of 2 conservative: only 4 of 100 problems differ"
    assert conservative([both[1].by("conservative")]) == "conservative: interval asked for"


def test_an_unpaired_figure_is_compared_on_the_questions_that_it_is_of() -> None:
    keys = {"problem": np.array(["q0", "q1"])}
    mine = replace(mean_of([3.0, 5.0], keys), judged=frozenset(("q0", "q1")))
    other = of_questions(["q0", "q1", "q2"], [1.0, 2.0, 90.0])
    assert (mine - other).value == 2.5 == -(other - mine).value
    with pytest.raises(ValueError, match="share no question"):
        mine - of_questions(["q7"], [1.0])
    assert mine.less(of_questions(["q7"], [1.0])) is None and mine.less(None) is None
