"""Worked examples and planted studies of a meta-analysis: known truths."""

import numpy as np
import pytest

from oversight.protocols.scoring.meta import pooled_estimate
from oversight.protocols.scoring.quantiles import t_of
from tests.conftest import Campaign


def test_two_studies_agree_with_a_worked_example() -> None:
    """Studies of 0 and 2 with error 1: tau^2 is their variance less the error's, 2 - 1, and I^2 is
    (Q - 1) / Q with Q = 2."""
    found = pooled_estimate(np.array([0.0, 2.0]), np.array([1.0, 1.0]))
    assert (found.estimate.value, found.tau, found.i_squared) == pytest.approx((1.0, 1.0, 0.5))
    assert found.estimate.error == pytest.approx(1.0)
    assert found.estimate.interval == pytest.approx((1 - 12.706, 1 + 12.706), abs=1e-3)
    assert found.prediction is None


def test_reml_of_studies_with_one_error_is_the_variance_less_that_error() -> None:
    y = np.array([0.1, 0.5, 0.9, 1.4])
    found = pooled_estimate(y, np.full(4, 0.2))
    assert found.tau**2 == pytest.approx(y.var(ddof=1) - 0.04, rel=1e-9)
    assert found.estimate.error == pytest.approx((y.var(ddof=1) / 4) ** 0.5)
    assert found.weights == pytest.approx((0.25,) * 4)
    far = t_of(0.95, 2) * (found.tau**2 + (found.estimate.error or 0) ** 2) ** 0.5
    assert found.prediction == pytest.approx(
        (found.estimate.value - far, found.estimate.value + far)
    )


def test_studies_that_agree_have_no_scatter_and_are_no_surer_than_their_errors() -> None:
    found = pooled_estimate(np.full(5, 0.3), np.full(5, 0.1))
    assert (found.tau, found.i_squared) == (0, 0)
    assert found.estimate.error == pytest.approx(0.1 / 5**0.5)


@pytest.mark.campaign
def test_planted_studies_are_covered_and_so_is_a_new_one(campaign: Campaign) -> None:
    rng = np.random.default_rng(0)
    covered = predicted = 0
    simulations = campaign.size(500, 5000)
    for _ in range(simulations):
        errors = rng.uniform(0.05, 0.3, size=20)
        truths = 0.5 + 0.2 * rng.normal(size=20)
        found = pooled_estimate(truths + errors * rng.normal(size=20), errors)
        assert found.estimate.interval is not None
        covered += found.estimate.interval[0] <= 0.5 <= found.estimate.interval[1]
        assert found.prediction is not None
        new = 0.5 + 0.2 * rng.normal()
        predicted += found.prediction[0] <= new <= found.prediction[1]
    assert 0.93 <= covered / simulations <= 0.98
    assert 0.92 <= predicted / simulations <= 0.98


def test_one_study_is_no_meta_analysis() -> None:
    with pytest.raises(ValueError, match="needs two"):
        pooled_estimate(np.array([1.0]), np.array([1.0]))
    with pytest.raises(ValueError, match="above 0"):
        pooled_estimate(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
