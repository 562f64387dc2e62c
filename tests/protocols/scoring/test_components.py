import numpy as np
import pytest

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.components import Components, nested, one_way, rerun_variance


def planted(seed: int, n: int, k: int, j: int, *variances: float) -> Floats:
    """Scores, problems × draws × verdicts, with these variances of the three."""
    rng = np.random.default_rng(seed)
    a, b, e = (variance**0.5 for variance in variances)
    of_problem, of_draw = rng.normal(size=(n, 1, 1)), rng.normal(size=(n, k, 1))
    scores: Floats = a * of_problem + b * of_draw + e * rng.normal(size=(n, k, j))
    return scores


def test_planted_components_are_recovered() -> None:
    found = [nested(planted(seed, 60, 4, 3, 1.0, 0.5, 0.2)) for seed in range(200)]
    for name, truth in (("between", 1.0), ("within", 0.5), ("verdict", 0.2)):
        each = [getattr(one, name) for one in found]
        assert np.mean(each) == pytest.approx(truth, abs=3 * np.std(each) / 200**0.5)


def test_one_verdict_a_draw_leaves_two_components() -> None:
    found = [one_way(planted(seed, 60, 4, 1, 1.0, 0.5, 0.2)[:, :, 0]) for seed in range(200)]
    for name, truth in (("between", 1.0), ("within", 0.7)):
        each = [getattr(one, name) for one in found]
        assert np.mean(each) == pytest.approx(truth, abs=3 * np.std(each) / 200**0.5)


def test_the_coins_of_a_simulated_judge_have_the_variance_of_coins() -> None:
    """Right with chance q of the problem: the variance of a draw around it is q (1 - q)."""
    rng = np.random.default_rng(0)
    q = np.repeat((0.2, 0.5, 0.9), 400)
    found = one_way((rng.random((1200, 8)) < q[:, None]).astype(float))
    assert found.within == pytest.approx(np.mean(q * (1 - q)), abs=0.01)
    assert found.between == pytest.approx(q.var(), abs=0.01)


def test_the_error_is_that_of_means_of_new_samples_and_of_reruns() -> None:
    exact = Components(30, 4, 2, between=1.0, within=0.5, verdict=0.2)
    rng = np.random.default_rng(1)
    truths, noise = rng.normal(size=(4000, 30)), rng.normal(size=(4000, 30, 4)) * 0.5**0.5
    votes = rng.normal(size=(4000, 30, 4, 2)) * 0.2**0.5
    rerun = (noise + votes.mean(axis=3)).mean(axis=2).mean(axis=1)
    assert exact.rerun == pytest.approx(rerun.var(), rel=0.08)
    assert exact.error == pytest.approx((rerun + truths.mean(axis=1)).var(), rel=0.08)
    assert exact.error_with(30, 4, 2) == pytest.approx(exact.error)
    assert exact.reliability == pytest.approx(1 / (1 + 0.15))


def test_resampling_draws_has_the_variance_of_reruns() -> None:
    scores = planted(2, 80, 3, 1, 1.0, 0.6, 0.0)[:, :, 0]
    assert rerun_variance(scores) == pytest.approx(one_way(scores).rerun, rel=0.1)


def test_a_single_draw_has_no_components() -> None:
    with pytest.raises(ValueError, match="at least two draws, and there is 1"):
        one_way(np.ones((5, 1)))
    with pytest.raises(ValueError, match="at least two verdicts"):
        nested(np.ones((5, 2, 1)))
