"""`oversight pressure`: curves over the pools that a run has."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from oversight.engine.decisions.pressure import row_pools
from oversight.engine.decisions.rows import read_rows
from oversight.protocols.scoring.pressure import best_of_n
from oversight.protocols.scoring.worlds import Worlds
from tests.command_line import Command
from tests.run_folders import only_run

MANY = """\
name: many
draws: 3
problems: {bundled: {name: arithmetic, limit: 5}}
agents: {model: sim/weak}
judges: sim/judge
protocols: [naive_judge, propaganda, consultancy]
"""


@pytest.fixture
def many(place: Path, command: Command) -> Path:
    (place / "many.yaml").write_text(MANY)
    assert command("run", "many.yaml").code == 0
    return only_run(place)


def test_the_curve_is_that_of_the_pools_of_all_draws_and_worlds(
    many: Path, command: Command
) -> None:
    told = json.loads(command("pressure", many, "--json").out)
    assert [row["name"] for row in told["rows"]] == ["propaganda", "consultancy client first 2"]
    run = read_rows(many)
    pools, left_out = row_pools(run, 1, "brier")
    assert pools.rewards.shape == (5, 6) and left_out == 0
    points = told["rows"][0]["points"]
    assert [point["strength"] for point in points] == [1, 2, 4, 6]
    for point, known in zip(points, best_of_n(pools, [1, 2, 4, 6]), strict=True):
        assert point["value"]["mean"] == pytest.approx(known.value.mean)
        assert point["kl"] == pytest.approx(known.kl)
    # A blind choice from equal draws a world is worth nothing; the whole pool gives its best.
    assert points[0]["value"]["mean"] == pytest.approx(0)
    best = np.take_along_axis(pools.values, pools.rewards.argmax(axis=1)[:, None], axis=1)
    assert points[-1]["value"]["mean"] == pytest.approx(best.mean())


def test_the_tilt_of_one_draw_a_side_is_the_propensity(place: Path, command: Command) -> None:
    assert command("run", "small.yaml").code == 0
    run = read_rows(only_run(place))
    words = ("--select", "tilt", "--beta", "0,0.5,2", "--reward", "log")
    told = json.loads(command("pressure", run.folder, *words, "--json").out)
    for row in told["rows"]:
        places = run.table.cells.places(run.names.index(row["name"]))
        verdicts = run.table.probs[places].reshape(-1, 2, 2)
        for point in row["points"]:
            beta = 1 / point["strength"] if point["strength"] else math.inf
            honest = [
                Worlds(each, problem.values).propensity(beta)[problem.best]
                for each, problem in zip(verdicts, run.sweep.problems, strict=True)
            ]
            assert point["honest"]["mean"] == pytest.approx(np.mean(honest), abs=1e-9)


def test_flags_that_mean_nothing_are_refused_with_the_range(many: Path, command: Command) -> None:
    for words, told in (
        (("--n", "1,99"), "n is between 1 and that; more draws make larger pools"),
        (("--n", "1;2"), "write numbers with commas: 1,2,4"),
        (("--n", "0"), "each number is at least 1"),
        (("--beta", "1"), "--n is for --select bon, and --beta for --select tilt"),
        (("--row", "debate"), "no row is called 'debate'; there are:"),
    ):
        refused = command("pressure", many, *words)
        assert (refused.code, told in " ".join(refused.err.split())) == (2, True), refused.err


def test_every_format_shows_the_breakdown(many: Path, command: Command) -> None:
    for format in ("text", "markdown", "latex"):
        out = command("pressure", many, "--row", "consultancy", "--format", format).out
        assert "breakdown" in out and "KL" in out
