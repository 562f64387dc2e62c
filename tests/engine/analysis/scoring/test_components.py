"""Variance components of planted scores are recovered: known truths."""

import numpy as np
import pytest

from oversight.engine.analysis.scoring.arrays import Floats
from oversight.engine.analysis.scoring.power import (
    Components,
    components,
)


def planted(seed: int, n: int, k: int, j: int, *variances: float) -> Floats:
    """Scores, problems × draws × verdicts, with these variances of the three."""
    rng = np.random.default_rng(seed)
    a, b, e = (variance**0.5 for variance in variances)
    of_problem, of_draw = rng.normal(size=(n, 1, 1)), rng.normal(size=(n, k, 1))
    scores: Floats = a * of_problem + b * of_draw + e * rng.normal(size=(n, k, j))
    return scores


@pytest.mark.parametrize(
    ("draws", "verdicts", "truths"),
    [
        (4, 3, {"between": 1.0, "within": 0.5, "verdict": 0.2}),
        # The noise of a single verdict counts with the draws, that of a single draw with problems.
        (4, 1, {"between": 1.0, "within": 0.7, "verdict": 0}),
        (1, 3, {"between": 1.5, "within": 0, "verdict": 0.2}),
    ],
)
def test_planted_components_are_recovered(
    draws: int, verdicts: int, truths: dict[str, float]
) -> None:
    found = [components(planted(seed, 60, draws, verdicts, 1.0, 0.5, 0.2)) for seed in range(200)]
    for name, truth in truths.items():
        each = [getattr(one, name) for one in found]
        assert np.mean(each) == pytest.approx(truth, rel=0, abs=3 * np.std(each) / 200**0.5)


def test_the_coins_of_a_simulated_judge_have_the_variance_of_coins() -> None:
    """Right with chance q of the problem: the variance of a draw around it is q (1 - q)."""
    rng = np.random.default_rng(0)
    q = np.repeat((0.2, 0.5, 0.9), 400)
    found = components((rng.random((1200, 8, 1)) < q[:, None, None]).astype(float))
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


def test_a_single_draw_and_verdict_have_no_components() -> None:
    with pytest.raises(ValueError, match="5 problems, 1 draws and 1 verdicts"):
        components(np.ones((5, 1, 1)))
