"""`examples/analyses/scaling.py`: planted ratings and lines, and published notebooks."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from examples.analyses.scaling import SCALE, Games, games, nested, overseen, ratings, right
from tests.command_line import Command
from tests.engine.kept_runs import Kept

pytestmark = pytest.mark.wire

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
    return Games(names, names, wins, np.ones_like(wins))


def test_planted_ratings_are_recovered() -> None:
    rated, without = ratings(play(0))
    errors = without.std(axis=0) * math.sqrt(len(without))
    assert np.abs(rated - TRUTH).max() < 3.5 * errors.max()
    assert rated.mean() == pytest.approx(1000)


def test_a_model_that_always_won_is_finite() -> None:
    games = play(2)
    games.wins[:, 0, :] = 1
    rated, _ = ratings(games)
    assert 1400 < rated[0] < math.inf


PUBLISHED = {
    "Mafia": ((1.530538225, -622.9317464), (0.8344154601, 173.2206143), 0.110624, 1),
    "Debate": ((1.098394255, -47.49890599), (0.04936115584, 1080.398356), 0.513584, 1),
    "Backdoor": ((0.7192614625, 552.0221384), (1.951824325, -1361.611763), 0.275691, 2),
    "Wargames": ((1.166673758, -229.0736687), (0.6795738441, 422.0053838), 0.097977, 1),
}
"""Lines of Guard and Houdini in the published notebooks, to ten digits, and their consequences."""


@pytest.mark.parametrize("game", PUBLISHED)
def test_nested_oversight_agrees_with_the_published_notebooks(game: str) -> None:
    guard, houdini, chance, steps = PUBLISHED[game]
    chances = nested(np.array(guard), np.array(houdini), 1103, 400)
    assert max(chances) == pytest.approx(chance, abs=1e-6)
    assert chances.index(max(chances)) + 1 == steps
    if game == "Backdoor":
        assert chances[0] == pytest.approx(0.2134, abs=5e-5)


PLACES = np.tile(900.0 + 50 * np.arange(8), 2)


def test_planted_lines_give_their_nested_oversight() -> None:
    """Guards gain 400 points over 350 of capability; Houdinis lose 500."""
    rated, without = ratings(play(3))
    chances = overseen(rated, without, 8, PLACES)
    guard, houdini = (8 / 7, 850 - 900 * 8 / 7), (-10 / 7, 1200 + 900 * 10 / 7)
    planted = nested(np.array(guard), np.array(houdini), 900, 350)
    assert max(chances) == pytest.approx(max(planted), abs=0.05)
    assert overseen(rated, without, 8, PLACES + 100) == pytest.approx(chances)


def test_bounds_are_not_rated_and_a_line_needs_three_ratings() -> None:
    games = play(3)
    games.wins[:, 0, :] = 1
    rated, without = ratings(games)
    placed = PLACES.copy()
    placed[0] = math.nan
    assert max(overseen(rated, without, 8, placed)) > 0
    # Its jackknife has next to no spread: as a rating it would draw the line to itself.
    assert overseen(rated, without, 8, placed) != pytest.approx(overseen(rated, without, 8, PLACES))
    placed[:6] = math.nan
    assert overseen(rated, without, 8, placed) == []


GRID = """\
name: grid
problems: {bundled: {name: arithmetic, limit: 6}}
agents: {model: [sim/strong, sim/medium, sim/deceptive]}
judges: [sim/judge, sim/weak]
protocols: [naive_judge, consultancy]
"""


def test_the_games_are_the_worlds_that_argue_for_a_lie(runs: Kept, place: Path, command: Command):
    words = ("--no-replies", "--format", "jsonl", "-o", "tables")
    assert command("export", "tables", runs(GRID), *words).code == 0
    lines = (place / "tables" / "cells.jsonl").read_bytes().splitlines()
    cells = [json.loads(line) for line in lines]
    matches = games(cells)
    assert matches.played.shape == (6, 2, 3) and (matches.played == 1).all()
    lies = [cell for cell in cells if cell["agent"] and not cell["best"]]
    # With two answers, a judge who does not choose the lie chooses the best one.
    assert matches.wins.sum() == pytest.approx(sum(1 - cell["agent_accuracy"] for cell in lies))
    assert all(right(cell) == 1 - cell["agent_accuracy"] for cell in lies)
