"""How often planted differences end a run, and wrongly: known truths."""

import math
from typing import Any

import numpy as np
import pytest

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.power import Spread, mde
from oversight.protocols.scoring.sequential import (
    Decision,
    Rule,
    checkpoints,
    decide,
    half_widths,
    order,
    tuned,
)
from tests.conftest import Campaign

SIGN = Rule(threshold=0.0)


def decided(*about: Any) -> Decision:
    found = decide(*about)
    assert found
    return found


def stops(differences: Floats, ends: tuple[float, float], looks: tuple[int, ...]) -> list[int]:
    """After how many clusters each line of differences is decided; 0 for never."""
    ones = np.ones(differences.shape[1])
    found = [decided(line, ones, SIGN, looks, ends) for line in differences]
    return [each.clusters if each.stops else 0 for each in found]


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["normal", "rare"])
def test_looking_at_every_cluster_stops_wrongly_in_at_most_one_run_of_twenty(
    kind: str, campaign: Campaign
) -> None:
    """Rare: 5 % of questions differ by the whole range, the others not at all; less the mean."""
    seeds = campaign.size(100, 2000)
    rng = np.random.default_rng(0)
    if kind == "normal":
        differences, ends = np.clip(rng.normal(size=(seeds, 300)), -4, 4), (-4.0, 4.0)
    else:
        differences, ends = (rng.random((seeds, 300)) < 0.05) - 0.05, (-0.05, 0.95)
    false = sum(map(bool, stops(differences, ends, tuple(range(20, 301))))) / seeds
    print(f"{kind}: false stops in {false:.4f} of {seeds} runs with a look at every cluster")
    assert false <= (0.05 if campaign.long else 0.05 + 2 * math.sqrt(0.05 * 0.95 / seeds))


@pytest.mark.campaign
def test_the_clearer_the_difference_the_sooner_the_run_ends(campaign: Campaign) -> None:
    seeds, n = campaign.size(100, 2000), 400
    looks, least = checkpoints(n), mde(Spread(between=1.0), 400)
    means = []
    for times in (0, 0.5, 1, 2, 4):
        draws = np.random.default_rng(1).normal(size=(seeds, n)) + times * least
        found = stops(np.clip(draws, -4, 4), (-4, 4), looks)
        means.append(np.mean([each or n for each in found]))
        decided = np.mean([bool(each) for each in found])
        print(f"true effect {times} MDE: {means[-1]:.0f} of {n} clusters, decided {decided:.3f}")
    assert means == sorted(means, reverse=True)
    assert means[3] < n / 2
    assert means[4] < n / 6


def test_the_sequence_is_narrowest_where_it_was_tuned() -> None:
    """Against the normal interval of a fixed n, it is the price of looking at any time."""
    t = np.arange(10.0, 2000.0)
    price = half_widths(t, tuned(200)) * np.sqrt(t) / 1.96
    assert t[price.argmin()] == pytest.approx(200, rel=0.1)
    assert 1.4 < price.min() < 1.6


def test_looks_are_the_same_for_every_run_of_so_many_clusters() -> None:
    looks = checkpoints(100)
    assert looks[0] == 20
    assert looks[-1] == 100
    assert list(looks) == sorted(set(looks))
    assert checkpoints(100) == looks
    assert checkpoints(500)[: len(looks) - 1] == looks[:-1]
    assert checkpoints(7) == (7,)


def test_clusters_are_run_in_one_order_whatever_order_they_come_in() -> None:
    names = [f"c{n}" for n in range(50)]
    assert order(names, 3) == order(reversed(names), 3)
    assert order(names, 3) != order(names, 4)
    assert sorted(order(names, 3)) == sorted(names)


def test_a_run_that_goes_on_after_its_decision_decides_the_same() -> None:
    differences = 0.8 + np.random.default_rng(2).normal(size=200)
    ones, looks = np.ones(200), checkpoints(200)
    whole = decided(differences, ones, SIGN, looks, (-5, 5))
    assert whole.outcome == "above"
    stopped = decided(differences[: whole.clusters], ones[: whole.clusters], SIGN, looks, (-5, 5))
    assert stopped == whole


def test_precision_is_reached_whatever_the_sign() -> None:
    differences = 0.1 * np.random.default_rng(3).normal(size=300)
    found = decided(differences, np.ones(300), Rule(precision=0.05), checkpoints(300))
    assert found.outcome == "precise"
    assert found.clusters < 300
    assert found.interval[1] - found.interval[0] <= 0.1


def test_clusters_that_are_all_alike_decide_nothing() -> None:
    assert decided(np.ones(40), np.ones(40), SIGN, (40,)).outcome == "undecided"
    # With the ends of the difference known, a few dozen wins in a row do.
    assert decided(np.ones(100), np.ones(100), SIGN, (100,), (-1, 1)).outcome == "above"


def test_clusters_count_by_their_questions() -> None:
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 6, size=60).astype(float)
    found = decided(rng.normal(size=60) * sizes, sizes, SIGN, (60,))
    same = decided(np.repeat(0.0, 60) + rng.normal(size=60), np.ones(60), SIGN, (60,))
    assert found.clusters == same.clusters == 60
    twice = decided(2 * sizes, 2 * sizes, SIGN, (60,), (-3, 3))
    assert twice == decided(sizes, sizes, SIGN, (60,), (-3, 3))


def test_rules_without_an_end_are_refused() -> None:
    with pytest.raises(ValueError, match="threshold or a precision"):
        Rule()
    with pytest.raises(ValueError, match="never reached"):
        Rule(precision=0)
    assert decide(np.ones(5), np.ones(5), SIGN, (20,)) is None
