"""Variance components of planted scores are recovered: known truths."""

from dataclasses import astuple

import numpy as np
import pytest

from oversight.engine.analysis.scoring.inference import Floats
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
        (4, 3, (1.0, 0.5, 0.2, (0.5 + 0.2 / 3) / 4)),
        # The noise of a single verdict counts with the draws, that of a single draw with problems.
        (4, 1, (1.0, 0.7, 0, 0.7 / 4)),
        (1, 3, (1.5, 0, 0.2, 0.2 / 3)),
    ],
)
def test_planted_components_are_recovered(
    draws: int, verdicts: int, truths: tuple[float, ...]
) -> None:
    """Between problems, within, of verdicts, and of a problem's mean that is measured again."""
    found = [components(planted(seed, 60, draws, verdicts, 1.0, 0.5, 0.2)) for seed in range(200)]
    for truth, each in zip(truths, zip(*map(astuple, found), strict=True), strict=True):
        assert np.mean(each) == pytest.approx(truth, rel=0, abs=3 * np.std(each) / 200**0.5)


def test_a_single_draw_and_verdict_have_no_noise_that_is_known() -> None:
    found = components(planted(0, 60, 1, 1, 1.0, 0.0, 0.0))
    assert (found.within, found.verdict, found.noise) == (0, 0, 0)
    with pytest.raises(ValueError, match="two problems, and there is 1"):
        components(np.ones((1, 4, 1)))
