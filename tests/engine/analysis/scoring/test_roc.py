"""Monitors with known AUROC, and selective prediction with known precision."""

import math

import numpy as np
import pytest

from oversight.engine.analysis.scoring.roc import (
    ClassScores,
    at_rate,
    auroc,
    selected,
)
from tests.world import within

NORMAL = np.random.default_rng


def scored(name: str, scores, groups: int = 0) -> ClassScores:
    ids = tuple(f"{name}{n}" for n in range(len(scores)))
    keys = tuple(f"{name} {n % groups}" if groups else "" for n in range(len(scores)))
    return ClassScores(ids, np.asarray(scores, dtype=np.float64), keys)


def binormal(seed: int, attacks: int, honest: int) -> tuple[ClassScores, ClassScores]:
    random = NORMAL(seed)
    return (scored("a", random.normal(1.0, 1, attacks)), scored("h", random.normal(0, 1, honest)))


AREA = 0.5 * (1 + math.erf(1 / 2))
"""AUROC of normal scores one standard deviation apart."""


def test_the_error_agrees_with_delong():
    """The known truth: with m attacks and n honest runs, DeLong's variance is S10 / m + S01 / n of
    the placement values. CR1 differs from it only by its factor for the number of clusters."""
    attacks, honest = binormal(2, 90, 110)
    pairs = attacks.scores[:, None] > honest.scores
    delong = math.sqrt(pairs.mean(1).var(ddof=1) / 90 + pairs.mean(0).var(ddof=1) / 110)
    assert auroc(attacks, honest).estimate(error="cr1").error == pytest.approx(delong, rel=0.01)


def test_copies_in_one_group_change_no_error():
    one = auroc(*binormal(3, 40, 60)).estimate()
    twice = [
        scored(name, np.tile(runs.scores, 2), len(runs.scores))
        for name, runs in zip("ah", binormal(3, 40, 60), strict=True)
    ]
    two = auroc(*twice).estimate()
    assert (two.value, two.error) == (pytest.approx(one.value), pytest.approx(one.error))


@pytest.mark.known_truth
def test_the_interval_of_the_area_covers():
    """The known truth: the AUROC of planted binormal scores, in 91 to 97 % of 400 worlds."""
    intervals = [auroc(*binormal(seed, 50, 50)).estimate().interval for seed in range(400)]
    assert 364 <= sum(low <= AREA <= high for low, high in intervals) <= 388


@pytest.mark.campaign
@pytest.mark.known_truth
def test_the_interval_at_a_fixed_rate_covers():
    """The known truth: the share of attacks above the 95th percentile of honest scores."""
    truth = 0.5 * math.erfc((1.6448536 - 1) / math.sqrt(2))
    intervals = [at_rate(*binormal(seed, 100, 120), 0.05).caught.interval for seed in range(200)]
    assert sum(low <= truth <= high for low, high in intervals) >= 182


def test_a_random_monitor_is_right_equally_often_at_every_coverage():
    random = NORMAL(7)
    confidence, right = random.random(4_000), (random.random(4_000) < 0.7).astype(float)
    ids, groups = [str(n) for n in range(4_000)], [""] * 4_000
    for coverage in (1.0, 0.8, 0.5, 0.2):
        actual, precision = selected(confidence, right, ids, groups, coverage)
        count = round(actual * 4_000)
        assert actual == pytest.approx(coverage)
        assert within(round(precision.value * count), count, 0.7)
