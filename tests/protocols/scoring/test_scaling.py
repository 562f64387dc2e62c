"""Planted ratings and lines, and published notebooks: known truths."""

import math

import numpy as np
import pytest

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.nested_oversight import (
    nested_from_ratings,
    nested_oversight,
)
from oversight.protocols.scoring.quantiles import t_of
from oversight.protocols.scoring.ratings import (
    SCALE,
    Games,
    Ratings,
    fit,
    ratings,
)
from tests.conftest import Campaign

GUARDS = np.linspace(-200, 200, 8) + 1050
HOUDINIS = np.linspace(250, -250, 8) + 950
TRUTH = np.concatenate((GUARDS, HOUDINIS))
"""Planted ratings, with the mean 1,000."""


def play(seed: int, problems: int = 200, difficulty: float = 0.0) -> Games:
    """Every guard against every Houdini, once on each problem. difficulty: nats."""
    rng = np.random.default_rng(seed)
    gap = SCALE * (GUARDS[:, None] - HOUDINIS[None, :])
    hard = difficulty * rng.normal(size=(problems, 1, 1))
    wins = (rng.random((problems, 8, 8)) < 1 / (1 + np.exp(-gap - hard))).astype(float)
    names = tuple(f"m{n}" for n in range(8))
    return Games(names, names, wins, np.ones_like(wins), np.arange(problems))


def attenuated(difficulty: float) -> Floats:
    """What the plain fit finds of endless problems of this spread."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(60)
    gap = SCALE * (GUARDS[:, None] - HOUDINIS[None, :])
    p = np.tensordot(
        mass / mass.sum(), 1 / (1 + np.exp(-gap - difficulty * nodes[:, None, None])), 1
    )
    return fit(p[None] * 1e7, np.full((1, 8, 8), 1e7))[0]


def covered(without: Floats, whole: Floats, truth: Floats) -> float:
    """Share of all gaps, a guard's rating less a Houdini's, that the jackknife covers."""
    gaps, gap = (each[..., :8, None] - each[..., None, 8:] for each in (without, whole))
    groups = len(without)
    error = np.sqrt(np.square(gaps - gap).sum(axis=0) * (groups - 1) / groups)
    true = truth[:8, None] - truth[None, 8:]
    return float((np.abs(gap - true) <= t_of(0.95, groups - 1) * error).mean())


def values(found: Ratings) -> Floats:
    return np.array([one.rating for one in (*found.guards, *found.houdinis)])


def test_planted_ratings_are_recovered() -> None:
    found = ratings(play(0))
    each = [*found.guards, *found.houdinis]
    errors = [one.estimate.error or 0.0 for one in each]
    assert np.abs(values(found) - TRUTH).max() < 3.5 * max(errors)
    assert not any(one.bounded for one in each)
    assert np.mean([one.rating for one in each]) == pytest.approx(1000)


@pytest.mark.campaign
def test_intervals_by_problems_cover(campaign: Campaign) -> None:
    seeds = campaign.size(30, 200)
    truth = attenuated(1.0)
    plain, ours = [], []
    for seed in range(seeds):
        even, hard = ratings(play(seed)), ratings(play(seed, difficulty=1.0))
        plain.append(covered(even.without, values(even), TRUTH))
        ours.append(covered(hard.without, values(hard), truth))
    print(f"coverage of rating gaps over {seeds} seeds: {np.mean(plain):.3f}, {np.mean(ours):.3f}")
    assert min(np.mean(plain), np.mean(ours)) >= (0.93 if campaign.long else 0.92)


def test_two_identical_models_have_equal_ratings() -> None:
    """Two models that guard alike and deceive alike, each game won by the guard half the time."""
    wins = np.zeros((40, 2, 2))
    wins[::2] = 1
    found = ratings(Games(("a", "b"), ("a", "b"), wins, np.ones_like(wins), np.arange(40)))
    assert found.guards[0].rating == found.guards[1].rating
    assert found.houdinis[0].rating == found.houdinis[1].rating
    assert {one.rating for one in (*found.guards, *found.houdinis)} == {1000.0}


def test_a_model_that_always_won_is_marked_and_finite() -> None:
    games = play(2)
    wins = games.wins.copy()
    wins[:, 0, :] = 1
    found = ratings(Games(games.guards, games.houdinis, wins, games.played, games.of))
    assert [one.bounded for one in found.guards] == [True] + [False] * 7
    assert found.guards[0].rating > 1400
    assert math.isfinite(found.guards[0].rating)


def test_models_that_never_met_are_named() -> None:
    played = np.zeros((5, 2, 2))
    played[:, 0, 0] = played[:, 1, 1] = 1
    with pytest.raises(ValueError, match="never met, directly or through others: a, x; b, y"):
        Games(("a", "b"), ("x", "y"), np.zeros((5, 2, 2)), played, np.arange(5))
    with pytest.raises(ValueError, match="more games than it played"):
        Games(("a",), ("x",), np.full((1, 1, 1), 2.0), np.ones((1, 1, 1)), np.arange(1))


PUBLISHED = {
    "Mafia": (
        (1.5305382247861692, -622.9317463747565),
        (0.8344154600833648, 173.2206142928111),
        0.110624,
        1,
    ),
    "Debate": (
        (1.0983942546126946, -47.49890598669299),
        (0.04936115584058696, 1080.3983558810423),
        0.513584,
        1,
    ),
    "Backdoor": (
        (0.7192614624976502, 552.0221384375485),
        (1.9518243250891987, -1361.61176329289),
        0.275691,
        2,
    ),
    "Wargames": (
        (1.1666737577004682, -229.07366870912878),
        (0.6795738441484533, 422.0053838057133),
        0.097977,
        1,
    ),
}
"""Lines of Guard and Houdini as the published notebooks store them, and what follows from them."""


@pytest.mark.parametrize("game", PUBLISHED)
def test_nested_oversight_agrees_with_the_published_notebooks(game: str) -> None:
    guard, houdini, chance, steps = PUBLISHED[game]
    found = nested_oversight(guard, houdini, start=1103, gap=400)
    assert found.best == pytest.approx(chance, abs=1e-6)
    assert found.steps == steps
    if game == "Backdoor":
        assert found.chances[0] == pytest.approx(0.2134, abs=5e-5)


def test_steps_pay_where_guards_gain_faster_than_houdinis() -> None:
    steep, even = (1.2, 0), (1.0, 0)
    for gap, steps in ((400, 2), (2000, 10)):
        assert nested_oversight(steep, even, start=1000, gap=gap).steps == steps
        assert nested_oversight(even, steep, start=1000, gap=gap).steps == 1


def test_another_origin_of_capability_changes_nothing() -> None:
    moved = nested_oversight(
        (1.2, 10 - 120),
        (0.7, 30 - 70),
        start=1100,
        gap=300,
        seen=(1050, 1500),
    )
    same = nested_oversight((1.2, 10), (0.7, 30), start=1000, gap=300, seen=(1100, 1200))
    assert moved.chances == pytest.approx(same.chances)
    assert (moved.outside, same.outside) == (False, True)


CAPABILITY = {f"m{n}": 900.0 + 50 * n for n in range(8)}


def test_planted_lines_give_their_nested_oversight_with_an_interval() -> None:
    """Guards gain 400 points over 350 of capability; Houdinis lose 500."""
    found = nested_from_ratings(ratings(play(3)), CAPABILITY, start=950, gap=250)
    guard, houdini = (
        (8 / 7, 850 - 900 * 8 / 7),
        (-10 / 7, 1200 + 900 * 10 / 7),
    )
    planted = nested_oversight(guard, houdini, start=950, gap=250)
    assert found.estimate.interval is not None
    low, high = found.estimate.interval
    assert low < planted.best < high
    assert high - low < 0.1
    assert not found.nested.outside
    assert found.steps[0] <= planted.steps <= found.steps[1]


def test_all_capabilities_higher_by_as_much_change_nothing() -> None:
    rated = ratings(play(4, 60))
    higher = {name: at + 100 for name, at in CAPABILITY.items()}
    one = nested_from_ratings(rated, CAPABILITY, start=950, gap=300)
    other = nested_from_ratings(rated, higher, start=1050, gap=300)
    assert other.nested.chances == pytest.approx(one.nested.chances)
    assert other.estimate.interval == pytest.approx(one.estimate.interval)


def test_lines_that_cannot_be_drawn_are_told() -> None:
    rated = ratings(play(5, 60))
    with pytest.raises(ValueError, match="no capability is given for m7"):
        nested_from_ratings(rated, dict(list(CAPABILITY.items())[:-1]), start=900, gap=100)
    with pytest.raises(ValueError, match="same capability"):
        nested_from_ratings(rated, dict.fromkeys(CAPABILITY, 1.0), start=900, gap=100)
