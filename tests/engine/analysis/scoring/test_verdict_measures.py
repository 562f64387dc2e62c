"""Measures of verdicts by identities, by hand and on planted judges: known truths."""

import numpy as np
import pytest

from oversight.engine.analysis.scoring.agreement import calibration


def test_a_calibrated_judge_has_no_error_but_for_chance() -> None:
    """Small bins' plain error is far above 0; the debiased one is not. Two worlds, one verdict."""
    rng = np.random.default_rng(3)
    plain, debiased = [], []
    for _ in range(300):
        p = np.repeat(rng.choice(np.arange(0.05, 1, 0.1), size=60), 2)
        quality = calibration(p, (np.repeat(rng.random(60), 2) < p) * 1.0, np.arange(120) // 2)
        plain.append(quality.reliability)
        debiased.append(quality.debiased_error**2)
    assert np.mean(plain) > 0.02 and np.mean(debiased) < 0.4 * np.mean(plain)
    sure = calibration(np.full(4000, 0.85), (rng.random(4000) < 0.65) * 1.0, np.arange(4000))
    assert sure.debiased_error == pytest.approx(0.2, abs=0.03)
    assert sure.overconfidence == pytest.approx(0.2, abs=0.03)
