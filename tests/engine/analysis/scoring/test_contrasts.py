"""Contrasts against planted differences and what the paired differences say: known truths."""

from functools import partial

import numpy as np
import pytest

from oversight.engine.analysis.scoring.contrasts import (
    RankSet,
    contrasts,
    rank_sets,
    shared_samples,
)
from oversight.engine.analysis.scoring.inference import (
    Floats,
    Influences,
    codes_of,
    estimates,
    of_questions,
)
from oversight.engine.analysis.scoring.power import (
    Spread,
    fewest_clusters,
    mde,
    questions_needed,
    reach,
)


def sample(values: Floats, groups: tuple[str, ...] = (), end: float = 9) -> Influences:
    return of_questions([f"q{n}" for n in range(len(values))], values, groups, (-end, end))


def rows(seed: int, count: int, n: int = 100) -> dict[str, Influences]:
    """Rows whose questions are as hard for one as for the other."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=n)
    return {f"r{k}": sample(hard + rng.normal(size=n)) for k in range(count)}


def test_rows_on_equal_questions_have_the_bits_of_single_pairs() -> None:
    groups = tuple(f"g{n // 3}" for n in range(100))
    every = {
        name: of_questions(row.questions, row.values, groups, row.ends)
        for name, row in rows(3, 12).items()
    }
    together = contrasts(every)
    others = every | {
        "other": of_questions([f"p{n}" for n in range(100)], every["r0"].values, groups)
    }
    apart = [every[contrast.first] - every[contrast.second] for contrast in together]
    assert [contrast.estimate for contrast in together] == [*estimates(apart)]
    assert {contrast.estimate.clusters for contrast in together} == {34}
    assert all((one.p, one.mde) == (one.estimate.p(), one.estimate.mde()) for one in together)
    with pytest.raises(ValueError, match="share no question"):
        contrasts(others)


@pytest.mark.parametrize("one", [(1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 0), (1, 1, 0, 1, 0, 0)])
def test_p_of_a_contrast_inverts_its_interval_at_the_ends_too(one: tuple[int, ...]) -> None:
    """Always right against always wrong goes by the exact bound; all others by t or its guard."""
    first, second = sample(np.array(one, float), end=1), sample(-np.array(one, float), end=1)
    (contrast,) = contrasts({"a": first, "b": second})
    assert contrast.p == pytest.approx(contrast.estimate.p())
    low, high = contrast.estimate.at(1 - contrast.p) or (1, 1)
    assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-6)


def test_a_contrast_is_over_the_questions_that_its_rows_share() -> None:
    all_of = rows(3, 4)
    half = of_questions(all_of["r0"].questions[:50], all_of["r0"].values[:50], ends=(-9, 9))
    mixed = contrasts({**all_of, "r0": half})
    alone = contrasts({"r0": half, "r1": all_of["r1"]})
    assert mixed[0].estimate.interval == pytest.approx(alone[0].estimate.interval)
    assert (mixed[0].estimate.n, mixed[3].estimate.n) == (50, 100)
    assert [(one.first, one.second) for one in mixed[:2]] == [("r0", "r1"), ("r0", "r2")]
    assert {len(s.questions) for s in shared_samples({**all_of, "r0": half}).values()} == {50}


def test_rank_sets_hold_all_true_ranks_at_once_and_agree_with_the_contrasts() -> None:
    rng, truth = np.random.default_rng(6), np.array([0.5, 0.5, 0.4, -1.0])
    right = 0
    for _ in range(200):
        of_cluster = rng.normal(0, 0.3, (5, 4))
        scores = np.repeat(truth + of_cluster, 4, axis=0) + rng.normal(0, 0.2, (20, 4))
        groups = tuple(f"g{n // 4}" for n in range(20))
        tested = contrasts({f"r{k}": sample(scores[:, k].clip(-2, 2), groups, 2) for k in range(4)})
        sets = {one.row: one for one in rank_sets(tested)}
        right += all(
            sets[f"r{k}"].best <= 1 + (truth > truth[k]).sum()
            and sets[f"r{k}"].worst >= 4 - (truth < truth[k]).sum()
            for k in range(4)
        )
    assert right / 200 >= 0.95
    tested = contrasts({f"r{k}": sample(rng.normal(k * 0.1, 1, 60)) for k in range(6)})
    assert any(one.p <= 0.05 < one.p_family for one in tested)
    decided = sum(one.decided for one in tested)
    assert sum(one.best - 1 for one in rank_sets(tested)) == decided
    sure = {f"r{k}": sample(rng.normal(k * 0.5, 0.3, 80), end=2) for k in range(3)}
    assert RankSet("r2", 1, 1) in rank_sets(contrasts(sure))


def test_miller_s_check_needs_969_questions() -> None:
    spread = Spread(between=1 / 9)
    assert questions_needed(spread, 0.03) == 969
    assert reach() ** 2 / 9 / 0.03**2 == pytest.approx(968.997, abs=1e-3)
    assert mde(spread, 969) == pytest.approx(0.03, abs=1e-5)
    conservative = partial(questions_needed, ends=(-4.0, 4.0), interval="conservative")
    planned = mde(spread, 100, ends=(-4.0, 4.0), interval="conservative")
    assert conservative(spread, planned * 1.0001) == 100
    # By t, but for as few clusters as a report has the guard for.
    assert mde(spread, 6, ends=(-4.0, 4.0)) == mde(spread, 6)
    assert mde(spread, 5, ends=(-4.0, 4.0)) == 4.0


def test_a_plan_knows_for_how_many_clusters_a_report_has_the_guard() -> None:
    drawn = np.random.default_rng(3).normal(size=(2, 12, 200))
    for values, contributing in ((drawn[0], 200), (drawn[1], 3)):
        values[:, contributing:] = 0.0
        groups = tuple(f"text {n // 2}" for n in range(200))
        for row in values:
            share = fewest_clusters(row, codes_of(groups))
            estimate = of_questions([str(n) for n in range(200)], row, groups, (-4, 4)).estimate()
            assert bool(estimate.conservative) == (share > 100) == (contributing == 3)
    assert fewest_clusters(np.zeros(9), np.arange(9)) == np.inf
