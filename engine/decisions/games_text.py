"""Rendering of debate games as tables and JSON."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ..display.columns import Column, as_table, plain_line
from ..display.table import Table
from ..reports.tables import SCORE_NAMES
from .games import RowGame
from .pressure_text import figure_column

GAME_COLUMNS: tuple[Column[RowGame], ...] = (
    Column("row", lambda game: game.name, ("name",), attrgetter("name"), words=True),
    Column(key=("pool",), value=attrgetter("pool")),
    Column(
        "problems", lambda game: str(game.problems), ("problems",), attrgetter("problems"), spare=1
    ),
    Column("pool", lambda game: str(game.pool)),
    figure_column("n=1", "drawn"),
    figure_column("equilibrium", "equilibrium"),
    figure_column("gained", "difference"),
    figure_column("truth alone", "truth_gains"),
    figure_column("lie alone", "lie_gains"),
)


def games_json(games: Sequence[RowGame]) -> list[dict[str, Any]]:
    """`[{"name", "pool", "problems", "equilibrium": {"mean", "low", "high"}, …}]`."""
    return [plain_line(GAME_COLUMNS, game) for game in games]


def games_tables(games: Sequence[RowGame], score: str) -> list[Table]:
    """A table with one line per game; [] without games."""
    if not games:
        return []
    notes = (
        "n=1: both sides speak drafts at random. equilibrium: both choose among the drafts "
        "of the pool, knowing every verdict.",
        "truth alone, lie alone: probability that the agent gains over n=1 by its best "
        "drafts while the other side speaks at random.",
    )
    title = f"debate as a game: ASD by the {SCORE_NAMES[score]} score when both sides choose"
    return [as_table(title, GAME_COLUMNS, games, notes)]
