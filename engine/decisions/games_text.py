"""Rendering of debate games as tables and JSON."""

from collections.abc import Sequence
from typing import Any

from oversight.engine.decisions.games import RowGame
from oversight.engine.decisions.pressure_text import figure_json, plus_minus
from oversight.engine.display.table import Table
from oversight.engine.reports.tables import SCORE_NAMES

FIGURES = ("drawn", "equilibrium", "difference", "truth_gains", "lie_gains")


def games_json(games: Sequence[RowGame]) -> list[dict[str, Any]]:
    """`[{"name", "pool", "problems", "equilibrium": {"mean", "low", "high"}, …}]`."""
    return [
        {
            "name": game.name,
            "pool": game.pool,
            "problems": game.problems,
            **{name: figure_json(getattr(game, name)) for name in FIGURES},
        }
        for game in games
    ]


def games_tables(games: Sequence[RowGame], score: str) -> list[Table]:
    """A table with one line per game; [] without games."""
    if not games:
        return []
    body = (
        (
            game.name,
            str(game.problems),
            str(game.pool),
            *(plus_minus(getattr(game, name)) for name in FIGURES),
        )
        for game in games
    )
    return [
        Table(
            f"debate as a game: ASD by the {SCORE_NAMES[score]} score when both sides choose",
            ("row", "problems", "pool", "n=1", "equilibrium", "gained", "truth alone", "lie alone"),
            tuple(body),
            1,
            (
                "n=1: both sides speak drafts at random. equilibrium: both choose among the drafts "
                "of the pool, knowing every verdict.",
                "truth alone, lie alone: probability that the agent gains over n=1 by its best "
                "drafts while the other side speaks at random.",
            ),
            ("problems",),
        )
    ]
