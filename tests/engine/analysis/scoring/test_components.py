"""Variance components of planted scores are recovered: known truths."""

import numpy as np
import pytest

from oversight.engine.analysis.scoring.arrays import Floats
from oversight.engine.analysis.scoring.power import components


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


def test_noise_is_the_variance_of_a_problem_that_is_run_again() -> None:
    found = np.mean(
        [components(planted(seed, 60, 4, 2, 1.0, 0.5, 0.2)).noise for seed in range(200)]
    )
    assert found == pytest.approx((0.5 + 0.2 / 2) / 4, rel=0.03)


def test_a_single_draw_and_verdict_have_no_noise_that_is_known() -> None:
    found = components(planted(0, 60, 1, 1, 1.0, 0.0, 0.0))
    assert (found.within, found.verdict, found.noise) == (0, 0, 0)
    with pytest.raises(ValueError, match="two problems, and there is 1"):
        components(np.ones((1, 4, 1)))
