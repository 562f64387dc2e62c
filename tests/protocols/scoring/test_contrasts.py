import math

import numpy as np
import pytest

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.clustered import cr3, t_interval
from oversight.protocols.scoring.contrasts import contrasts, intervals
from oversight.protocols.scoring.families import benjamini_hochberg, holm, sign_flips
from oversight.protocols.scoring.power import (
    Spread,
    mde,
    questions_needed,
    reach,
)
from oversight.protocols.scoring.resamples import resampled_means, together
from oversight.protocols.scoring.sample import Sample, paired
from tests.conftest import Campaign


def sample(values: Floats, groups: tuple[str, ...] = ()) -> Sample:
    ids = tuple(f"q{n}" for n in range(len(values)))
    return Sample(ids, tuple(values.tolist()), groups, (-9, 9))


def rows(seed: int, count: int, n: int = 100) -> dict[str, Sample]:
    """Rows whose questions are as hard for one as for the other."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=n)
    return {f"r{k}": sample(hard + rng.normal(size=n)) for k in range(count)}


def test_rows_that_agree_do_not_differ() -> None:
    one = sample(np.random.default_rng(0).normal(size=50))
    (found,) = contrasts({"a": one, "b": one})
    assert (found.estimate, found.error, found.p, found.p_family) == (0, 0, 1, 1)
    assert (found.wins, found.ties, found.losses) == (0, 50, 0)
    assert found.correlation == pytest.approx(1)
    low, high = found.interval
    assert low < 0 < high
    assert found.verdict == "not determined"
    (wide,) = contrasts({"a": one, "b": one}, equivalence=2)
    assert wide.verdict == "equivalent"


def test_a_contrast_says_what_the_paired_differences_say() -> None:
    both = rows(1, 2)
    groups = tuple(f"g{n // 3}" for n in range(100))
    first, second = (Sample(s.questions, s.values, groups, s.ends) for s in both.values())
    (found,) = contrasts({"a": first, "b": second})
    apart = paired(first, second)
    matrix = together({"d": Sample(apart.questions, apart.values, apart.groups)})
    assert found.estimate == pytest.approx(apart.mean)
    assert found.clusters == 34
    assert found.error**2 == pytest.approx(float(cr3(matrix.sums, matrix.sizes)[0]))
    each = together({"a": first, "b": second})
    alone = cr3(each.sums, each.sizes).sum()
    assert found.pairing == pytest.approx(found.error / alone**0.5)
    assert found.wins == sum(value > 0 for value in apart.values)
    assert found.wins + found.ties + found.losses == found.n == 100
    assert found.mde == pytest.approx(found.error * reach(degrees=32))
    ends = np.array([-18.0, 18.0]) * (100 / 34)
    sums = np.append(matrix.sums[:, 0], ends)
    sizes = np.append(matrix.sizes, [100 / 34] * 2)
    low, high = t_interval(sums, sizes)
    # The degrees of freedom are those of the clusters that there are.
    assert found.interval == pytest.approx((float(low), float(high)), rel=0.02)


def test_rows_without_ends_have_plain_intervals() -> None:
    free = {name: Sample(s.questions, s.values) for name, s in rows(2, 2).items()}
    (found,) = contrasts(free)
    matrix = together(free)
    low, high = t_interval(matrix.sums[:, 0] - matrix.sums[:, 1], matrix.sizes)
    assert found.interval == pytest.approx((float(low), float(high)))
    assert intervals(matrix, np.array([0]), np.array([1]), 0.95)[0][0] == pytest.approx(float(low))


def test_a_contrast_is_over_the_questions_that_its_rows_share() -> None:
    all_of = rows(3, 4)
    half = Sample(all_of["r0"].questions[:50], all_of["r0"].values[:50], ends=(-9, 9))
    mixed = contrasts({**all_of, "r0": half})
    alone = contrasts({"r0": half, "r1": all_of["r1"]})
    assert (mixed[0].n, mixed[0].estimate, mixed[0].error) == pytest.approx(
        (50, alone[0].estimate, alone[0].error)
    )
    assert mixed[3].n == 100
    assert mixed[3].interval == contrasts(all_of)[3].interval
    assert [(each.first, each.second) for each in mixed[:2]] == [("r0", "r1"), ("r0", "r2")]


def test_names_that_are_wrong_are_told() -> None:
    two = rows(4, 2)
    with pytest.raises(ValueError, match="no row is called 'r9'; there are r0, r1"):
        contrasts(two, [("r0", "r9")])
    with pytest.raises(ValueError, match="against itself"):
        contrasts(two, [("r0", "r0")])
    with pytest.raises(ValueError, match="above 0"):
        contrasts(two, equivalence=0)
    apart = Sample(("other",), (1.0,))
    with pytest.raises(ValueError, match="share no question"):
        contrasts({"a": two["r0"], "b": apart})


def test_every_flip_of_a_small_family_is_as_it_is_drawn() -> None:
    """Sixteen ways to sign four clusters: the step-down p-values can be had without drawing."""
    sums = np.array([[1.0, 3.0], [2.0, -1.0], [3.0, 2.0], [0.5, 1.0]])
    norm = np.sqrt((sums**2).sum(axis=0))
    t = np.abs(sums.sum(axis=0)) / norm
    signs = np.array([[1 - 2 * (n >> k & 1) for k in range(4)] for n in range(16)])
    every = np.abs(signs @ sums) / norm
    bar = t - 1e-9
    alone = (every >= bar).mean(axis=0)
    larger, smaller = np.argsort(-t)
    first = (every.max(axis=1) >= bar[larger]).mean()
    family = {int(larger): first, int(smaller): max(first, float(alone[smaller]))}
    padded = np.column_stack((sums, np.zeros(4)))
    p, step = sign_flips(padded, np.array([0, 1]), np.array([2, 2]), seed=0, resamples=40_000)
    assert p == pytest.approx(alone, abs=0.01)
    assert step == pytest.approx([family[0], family[1]], abs=0.01)


def errors_in_a_family(seeds: int, resamples: int) -> float:
    """How often one of 20 correlated contrasts without any difference is found to differ."""
    false = 0
    for seed in range(seeds):
        null = rows(seed, 21, n=40)
        pairs = [("r0", f"r{k}") for k in range(1, 21)]
        found = contrasts(null, pairs, seed=seed, resamples=resamples)
        false += min(each.p_family for each in found) <= 0.05
    return false / seeds


@pytest.mark.campaign
def test_a_family_without_differences_is_wrong_in_one_case_of_twenty(campaign: Campaign) -> None:
    seeds = campaign.size(200, 2000)
    share = errors_in_a_family(seeds, campaign.size(500, 1000))
    print(f"family-wise error of 20 correlated null contrasts over {seeds} seeds: {share:.4f}")
    assert share <= (0.055 if campaign.long else 0.05 + 2 * math.sqrt(0.05 * 0.95 / seeds))


def test_max_t_finds_at_least_what_holm_finds() -> None:
    some = rows(7, 8)
    better = {
        name: sample(np.array(s.values) + 0.06 * k) for k, (name, s) in enumerate(some.items())
    }
    step = contrasts(better, resamples=4000)
    by_holm = contrasts(better, resamples=4000, family="holm")
    for one, other in zip(step, by_holm, strict=True):
        assert one.p <= one.p_family <= other.p_family + 0.02
        if one.p_family <= 0.05:
            assert one.verdict == ("first better" if one.estimate > 0 else "second better")
    assert sum(c.p_family <= 0.05 for c in step) >= sum(c.p_family <= 0.05 for c in by_holm)
    assert tuple(c.p_family for c in by_holm) == holm([c.p for c in by_holm])


def test_q_values_agree_with_a_worked_example() -> None:
    """Of .01, .04, .03, .005: .005 × 4, .01 × 4 / 2, .03 × 4 / 3, .04."""
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.02, 0.04, 0.04, 0.02))
    assert benjamini_hochberg([]) == ()


def found_at(difference: float, seeds: int) -> float:
    """The share of samples of 80 questions in which a planted difference is found."""
    times = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        first, second = rng.normal(size=(2, 80)) * math.sqrt(0.5)
        both = {"a": sample(first + difference), "b": sample(second)}
        times += contrasts(both, seed=seed, resamples=400)[0].p <= 0.05
    return times / seeds


@pytest.mark.campaign
def test_a_planted_difference_is_found_as_often_as_planned(campaign: Campaign) -> None:
    spread, seeds = Spread(between=1.0), campaign.size(300, 2000)
    found = found_at(mde(spread, 80), seeds)
    print(f"power over {seeds} seeds: planned 0.800, found {found:.4f}")
    assert found == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / seeds))


def test_miller_s_check_needs_969_questions() -> None:
    spread = Spread(between=1 / 9)
    assert questions_needed(spread, 0.03) == 969
    assert reach() ** 2 / 9 / 0.03**2 == pytest.approx(968.997, abs=1e-3)
    assert mde(spread, 969) == pytest.approx(0.03, abs=1e-5)


def test_draws_and_clusters_count_in_the_plan() -> None:
    noisy = Spread(between=0.1, within_first=0.4, within_second=0.2)
    assert noisy.of_a_question(4, 2) == pytest.approx(0.3)
    clustered = Spread(between=0.1, within_first=0.4, within_second=0.2, design_effect=2)
    assert questions_needed(clustered, 0.1) == pytest.approx(
        2 * questions_needed(noisy, 0.1), abs=1
    )
    # Of ten texts with five questions each, t with 9 degrees of freedom reaches further.
    assert mde(noisy, 50, clusters=10) > mde(noisy, 50) * 1.1
    few = questions_needed(Spread(between=1.0), 1.0)
    assert few > reach() ** 2
    assert mde(Spread(between=1.0), few) <= 1.0 < mde(Spread(between=1.0), few - 1)


def test_what_cannot_be_planned_is_told() -> None:
    with pytest.raises(ValueError, match="a difference of 0"):
        questions_needed(Spread(between=1.0), 0)
    with pytest.raises(ValueError, match="power is 1"):
        reach(power=1)
    with pytest.raises(ValueError, match="at least 0"):
        Spread(between=-1)
    with pytest.raises(ValueError, match="at least 1"):
        Spread(between=1).of_a_question(0, 1)


def test_resampled_means_keep_what_rows_share() -> None:
    both = rows(8, 2)
    means = resampled_means(together(both), resamples=4000)
    apart = paired(*both.values())
    assert (means[:, 0] - means[:, 1]).std() == pytest.approx(apart.std / 10, rel=0.05)
    again = resampled_means(together(both), resamples=4000)
    assert (means == again).all()
