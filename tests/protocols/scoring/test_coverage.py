"""Intervals of the benchmark's own scores cover the truth as often as they say."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.contrasts import intervals
from oversight.protocols.scoring.resamples import together
from oversight.protocols.scoring.sample import Sample
from oversight.protocols.scoring.statistics import estimates
from tests.conftest import Campaign

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]

SURE = math.log(0.9999) - math.log(0.0001)


def either(often: float, rarely: float, chance: float) -> Draw:
    return lambda rng, shape: np.where(rng.random(shape) < chance, rarely, often)


def hesitant(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Mostly right and quite sure; in 10 % wrong by a third of the range, in 3 % by all of it."""
    kind = rng.random(shape)
    usual = np.clip(rng.normal(5, 1, shape), -SURE, SURE)
    found: Floats = np.where(kind < 0.1, -SURE / 3, np.where(kind < 0.13, -SURE, usual))
    return found


CASES: dict[str, tuple[Draw, float, tuple[float, float]]] = {
    "Brier ASD, 2 % sure errors": (
        lambda rng, shape: np.where(
            rng.random(shape) < 0.02, -2, 2 - np.minimum(rng.exponential(0.02, shape), 1)
        ),
        0.98 * 1.98 - 0.04,
        (-2, 2),
    ),
    "accuracy ASD of .96": (either(1, -1, 0.02), 0.96, (-1, 1)),
    "log ASD, 5 % wrong": (either(SURE, -SURE, 0.05), 0.9 * SURE, (-SURE, SURE)),
    "Brier ASD of a noisy judge": (
        lambda rng, shape: 2 - 4 * rng.beta(2, 5, shape),
        2 - 8 / 7,
        (-2, 2),
    ),
    "Brier ASD, narrow": (
        lambda rng, shape: np.clip(rng.normal(0.3, 0.4, shape), -1.4, 2.0),
        0.3,
        (-2, 2),
    ),
    "log odds ASD, mixed errors": (
        hesitant,
        0.87 * 5 - 0.1 * SURE / 3 - 0.03 * SURE,
        (-2 * SURE, 2 * SURE),
    ),
    "a share of one half": (either(1, 0, 0.5), 0.5, (0, 1)),
}
"""By name: how a question's score is drawn, its true mean, and its ends."""

DESIGNS = {
    "n = 20": (1,) * 20,
    "n = 50": (1,) * 50,
    "n = 100": (1,) * 100,
    "10 clusters": (1, 2, 3, 6, 3) * 2,
    "20 clusters": (1, 2, 3, 6) * 5,
    "40 clusters": (1, 2, 3, 6) * 10,
}
"""Sizes of the clusters, in questions."""

ALIKE = 0.7
"""How often a question scores as its cluster does; else it is drawn for itself."""


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES)
def test_intervals_cover_however_few_the_questions(case: str, campaign: Campaign) -> None:
    simulations = campaign.size(300, 2000)
    draw, truth, ends = CASES[case]
    rng = np.random.default_rng(campaign.seed)
    for design, sizes in DESIGNS.items():
        of = np.repeat(np.arange(len(sizes)), sizes)
        n = len(of)
        own, shared = draw(rng, (simulations, n)), draw(rng, (simulations, len(sizes)))[:, of]
        values = np.where(rng.random((simulations, n)) < ALIKE, shared, own)
        ids, groups = tuple(map(str, range(n))), tuple(f"g{cluster}" for cluster in of)
        samples = [Sample(ids, tuple(row.tolist()), groups, ends) for row in values]
        intervals = [each.interval for each in estimates(samples, resamples=1000)]
        low, high = np.array(intervals, dtype=np.float64).T
        covered = float(((low <= truth + 1e-9) & (truth <= high + 1e-9)).mean())
        plain, width = plainly(values, of, truth)
        print(
            f"{case:28} {design:12} covered {covered:.3f} (plain bootstrap {plain:.3f}), "
            f"mean width {(high - low).mean():.3f} ({width:.3f})"
        )
        assert (high - low).min() > 0
        assert covered >= 0.94 - (
            0 if campaign.long else 2.5 * math.sqrt(0.94 * 0.06 / simulations)
        )


def plainly(values: Floats, of: np.ndarray, truth: float) -> tuple[float, float]:
    """Coverage and mean width of the percentile bootstrap by clusters, for comparison."""
    g = int(of.max()) + 1
    member = np.equal.outer(of, np.arange(g)).astype(float)
    drawn = np.random.default_rng(0).multinomial(g, np.full(g, 1 / g), size=1000).astype(float)
    means = values @ member @ drawn.T / (drawn @ member.sum(axis=0))
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    covered = (low <= truth + 1e-9) & (truth <= high + 1e-9)
    return float(covered.mean()), float((high - low).mean())


@pytest.mark.campaign
@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_intervals_of_contrasts_cover_rare_differences(alike: float, campaign: Campaign) -> None:
    """Accuracy ASD of .96 against .9; both rows answer alike on a share of the questions."""
    simulations = campaign.size(300, 2000)
    rng = np.random.default_rng(campaign.seed)
    for design, sizes in DESIGNS.items():
        of = np.repeat(np.arange(len(sizes)), sizes)
        shape, clusters = (simulations, len(of)), (simulations, len(sizes))
        joined = (rng.random(clusters) < ALIKE)[:, of]
        first, second, same = (
            np.where(joined, rng.random(clusters)[:, of], rng.random(shape)) for _ in range(3)
        )
        one = np.where(first < 0.02, -1.0, 1.0)
        other = np.where(np.where(same < alike, first, second) < 0.05, -1.0, 1.0)
        low, high = contrast_intervals(one, other, of)
        covered = float(((low <= 0.06 + 1e-9) & (high >= 0.06 - 1e-9)).mean())
        width = (high - low).mean()
        print(f"alike in {alike:.0%}, {design:12} covered {covered:.3f}, width {width:.3f}")
        assert (high - low).min() > 0
        slack = 0 if campaign.long else 2.5 * math.sqrt(0.94 * 0.06 / simulations)
        assert covered >= 0.94 - slack


def contrast_intervals(one: Floats, other: Floats, of: np.ndarray) -> tuple[Floats, Floats]:
    """Of each simulation's pair of rows."""
    ids, groups = tuple(map(str, range(len(of)))), tuple(f"g{cluster}" for cluster in of)
    lows, highs = [], []
    for start in range(0, len(one), 100):
        pair = np.concatenate((one[start : start + 100], other[start : start + 100]))
        rows = together(
            {
                str(n): Sample(ids, tuple(row.tolist()), groups, (-1, 1))
                for n, row in enumerate(pair)
            }
        )
        half = np.arange(len(pair) // 2)
        low, high = intervals(rows, half, half + len(half), 0.95)
        lows.append(low)
        highs.append(high)
    return np.concatenate(lows), np.concatenate(highs)
