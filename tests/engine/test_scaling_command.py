"""`oversight scaling`: ratings from the verdicts of a run."""

import json
from pathlib import Path

import numpy as np
import pytest

from oversight.engine.decisions.row_verdicts import judged_right
from oversight.engine.decisions.rows import read_rows
from tests.command_line import Command
from tests.run_folders import only_run

GRID = """\
name: grid
problems: {bundled: {name: arithmetic, limit: 12}}
agents: {model: [sim/strong, sim/medium, sim/deceptive]}
judges: [sim/judge, sim/weak, sim/medium]
protocols: [naive_judge, consultancy]
"""


@pytest.fixture
def grid(place: Path, command: Command) -> Path:
    (place / "grid.yaml").write_text(GRID)
    assert command("run", "grid.yaml").code in (0, 1)
    return only_run(place)


def test_the_games_are_the_worlds_that_argue_for_a_lie(grid: Path, command: Command) -> None:
    told = json.loads(command("scaling", grid, "--protocol", "consultancy", "--json").out)
    run = read_rows(grid)
    lie = ~run.table.beside.cells.truth
    rows = [n for n, row in enumerate(run.sweep.rows) if row.agent]
    won = [np.nansum(judged_right(run, n)[lie]) for n in rows]
    assert np.sum(told["wins"]) == pytest.approx(sum(won))
    assert np.max(told["played"]) == 12
    every = [each["rating"] for role in ("guards", "houdinis") for each in told[role]]
    assert np.mean(every) == pytest.approx(1000)
    both = json.loads(
        command("scaling", grid, "--protocol", "consultancy", "--game", "balanced", "--json").out
    )
    assert np.max(both["played"]) == 24


def test_nested_oversight_needs_a_capability_of_every_model(grid: Path, command: Command) -> None:
    words = ("scaling", grid, "--protocol", "consultancy", "--game", "balanced")
    partly = command(*words, "--capability", "sim/strong=1300").out
    assert "no nested oversight: no capability is given for" in partly
    wrong = command(*words, "--capability", "sim/strong")
    assert (wrong.code, "write NAME=NUMBER" in wrong.err) == (2, True)
    none = command("scaling", grid, "--protocol", "debate")
    assert (none.code, "no row is called 'debate'" in none.err) == (2, True)
    naive = command("scaling", grid, "--protocol", "naive judge")
    assert (naive.code, "name one kind of row" in naive.err) == (2, True)
