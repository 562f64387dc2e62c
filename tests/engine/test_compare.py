"""`oversight compare`: contrasts of rows and of runs, from real runs of simulated models."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import oversight
from oversight.engine.decisions.comparison import compare
from oversight.engine.decisions.row_verdicts import judged_right
from oversight.engine.decisions.rows import read_rows, rows_meant
from oversight.engine.decisions.statement import (
    read_condition,
    read_direction,
    read_pair,
    read_precision,
)
from oversight.engine.errors import UsageError
from oversight.engine.pictures.comparison import comparison_forest
from oversight.engine.pictures.opened import OpenedRun
from oversight.protocols.scoring.bounds import WorldOutcome, WorldOutcomes
from oversight.protocols.scoring.contrasts import contrasts
from oversight.protocols.scoring.difference_bounds import difference_bounds
from oversight.protocols.scoring.verdict_measures import flips
from tests.command_line import Command
from tests.run_folders import only_run


def test_each_row_is_compared_with_the_naive_judge_unless_told_otherwise(
    place: Path, command: Command
) -> None:
    assert command("run", "small.yaml").code == 0
    told = json.loads(command("compare", only_run(place), "--json").out)
    assert {each["second"] for each in told["contrasts"]} == {"naive judge"}
    assert len(told["contrasts"]) == 4
    keys = ["first", "second", "n", "clusters", "mean", "low", "high", "p", "p_family", "mde"]
    assert set(keys) < set(told["contrasts"][0])
    run = read_rows(only_run(place))
    (known,) = contrasts(run.asd("brier"), [("debate simultaneous 1 · sim/strong", "naive judge")])
    (found,) = [each for each in told["contrasts"] if each["first"] == known.first]
    assert (found["mean"], found["n"]) == (pytest.approx(known.estimate), known.n)
    assert [found["low"], found["high"]] == pytest.approx(known.interval)


def test_a_run_does_not_differ_from_a_rerun_of_it(place: Path, command: Command) -> None:
    assert command("run", "small.yaml", "--run-folder", "a").code == 0
    assert command("run", "small.yaml", "--run-folder", "b").code == 0
    told = json.loads(command("compare", "a", "b", "--calls", "--json").out)
    assert len(told["contrasts"]) == 5 and not told["notes"]
    for each in told["contrasts"]:
        assert (each["mean"], each["p"], each["equal_calls"]) == (0, 1, 1)
        assert each["flips"]["right_wrong"] == each["flips"]["wrong_right"] == 0
    assert "100%" in command("compare", "a", "b", "--calls").out


def test_another_judge_or_data_set_is_said_not_to_be_the_same_instrument(
    place: Path, command: Command
) -> None:
    other = (place / "small.yaml").read_text().replace("judges: sim/judge", "judges: sim/medium")
    (place / "other.yaml").write_text(other)
    assert command("run", "small.yaml", "--run-folder", "a").code == 0
    assert command("run", "other.yaml", "--limit", "3", "--run-folder", "b").code == 0
    told = command("compare", "a", "b").out
    assert "not the same instrument: judge sim/judge stated in one, sim/medium stated in" in told
    assert "3 problems are in both runs; 4 in the first, 3 in the second." in told


def test_pictures_and_pages_compare_two_runs_as_the_command_does(
    place: Path, command: Command
) -> None:
    other = (place / "small.yaml").read_text().replace("judges: sim/judge", "judges: sim/medium")
    (place / "other.yaml").write_text(other)
    assert command("run", "small.yaml", "--run-folder", "a").code == 0
    assert command("run", "other.yaml", "--run-folder", "b").code == 0
    a, b = place / "a", place / "b"
    found = compare(read_rows(a), read_rows(b)).contrasts
    with OpenedRun(a) as first, OpenedRun(b) as second:
        forest = comparison_forest(first, second)
    assert forest.alone == 0 and len(found) == 5
    assert [
        (each.mean, each.interval, each.p, each.n, (each.first, each.second))
        for each in forest.lines
    ] == [(c.estimate, c.interval, c.p_family, c.n, c.means) for c in (e.contrast for e in found)]
    assert any(each.mean for each in forest.lines)
    for each in forest.lines:
        assert each.mean == pytest.approx(each.first - each.second)
    assert {each.judge for each in forest.lines} == {"sim/judge stated less sim/medium stated"}


def test_flips_and_bounds_are_those_of_the_verdicts(
    place: Path, command: Command, muddled: None
) -> None:
    assert command("run", "small.yaml").code == 1
    run = read_rows(only_run(place))
    found = compare(run, pairs="all")
    assert any(each.bounds.low < each.bounds.high for each in found.contrasts)
    for each in found.contrasts:
        one, two = (place[1] for place in each.places)
        right = np.array([judged_right(run, row) for row in (two, one)])
        both = ~np.isnan(right).any(axis=0)
        if each.flips is None:
            assert not both.any()
        else:
            known = flips(right[0, both], right[1, both])
            assert each.flips.right_wrong == pytest.approx(known.right_wrong)
            assert each.flips.wrong_right == pytest.approx(known.wrong_right)
        bounds = difference_bounds(_worlds(run, one), _worlds(run, two), "brier")
        assert (each.bounds.low, each.bounds.high) == pytest.approx((bounds.low, bounds.high))


def _worlds(run: object, row: int) -> dict[str, WorldOutcomes]:
    index, problems = run.table.beside.cells, run.sweep.problems  # type: ignore[attr-defined]
    worlds: dict[str, list[WorldOutcome]] = {problem.id: [] for problem in problems}
    doubts = run.table.doubts(row)  # type: ignore[attr-defined]
    for cell, at in enumerate(index.places(row).tolist()):
        probs = run.table.probs[at].tolist()  # type: ignore[attr-defined]
        ending = WorldOutcome(None if np.isnan(probs[0]) else tuple(probs), doubts.get(at, ""))
        worlds[problems[index.problem[cell]].id].append(ending)
    return {p.id: WorldOutcomes(tuple(worlds[p.id]), p.values) for p in problems}


def test_a_condition_that_holds_fails_the_command(place: Path, command: Command) -> None:
    assert command("run", "small.yaml").code == 0
    run = only_run(place)
    held = command("compare", run, "--fail-if", "debate - consultancy > -10")
    assert held.code == 6
    assert "--fail-if debate - consultancy > -10: holds, " in held.err
    assert "first - second" in held.out
    # The same said the other way about, and of contrasts that were asked for in this order.
    turned = ("--contrast", "debate,consultancy", "--fail-if", "consultancy - debate < 10")
    assert command("compare", run, *turned).code == 6
    assert command("compare", run, "--fail-if", "debate - consultancy < -10").code == 0


def test_two_words_compare_the_rows_with_the_same_agent_and_judge(
    place: Path, command: Command
) -> None:
    assert command("run", "small.yaml").code == 0
    run = only_run(place)
    told = json.loads(command("compare", run, "--contrast", "Debate,consultancy", "--json").out)
    assert [(each["first"][-6:], each["second"][-6:]) for each in told["contrasts"]] == [
        ("strong", "strong"),
        ("m/weak", "m/weak"),
    ]
    rows = read_rows(run)
    assert rows_meant("debate weak", rows.sweep.rows, rows.names) == [2]
    with pytest.raises(UsageError, match="no row is called 'debrief'; there are:\n  naive judge"):
        rows_meant("debrief", rows.sweep.rows, rows.names)
    wrong = command("compare", run, "--contrast", "naive judge,naive_judge")
    assert (wrong.code, "mean the same row" in wrong.err) == (2, True)


def test_every_format_has_every_contrast(place: Path, command: Command) -> None:
    assert command("run", "small.yaml").code == 0
    run = only_run(place)
    for format in ("text", "markdown", "latex"):
        out = command("compare", run, "--pairs", "all", "--format", format).out
        assert out.count("not determined") + out.count("better") + out.count("equivalent") >= 10
        assert "10 contrasts were looked at. p" in out.replace("\\", "")
    rows = list(
        csv.DictReader(
            io.StringIO(command("compare", run, "--pairs", "all", "--format", "csv").out)
        )
    )
    assert len(rows) == 10 and {"first", "mean", "bounds.low", "flips.right_wrong"} < set(rows[0])


def test_python_compares_what_the_command_line_does(place: Path, command: Command) -> None:
    assert command("run", "small.yaml").code == 0
    found = oversight.compare(only_run(place), contrasts=["debate strong,naive judge"])
    assert len(found.contrasts) == 1
    assert found.multiplicity == "1 contrast was looked at: p is not corrected."
    with pytest.raises(UsageError, match="baseline and --pairs are of one run"):
        oversight.compare(only_run(place), only_run(place), pairs="all")


def test_what_is_said_of_two_rows_is_read_or_refused_with_an_example() -> None:
    assert read_pair("debate, naive judge") == ("debate", "naive judge")
    condition = read_condition("debate gpt-4o - consultancy <= -0.05")
    assert (condition.first, condition.sign, condition.number) == ("debate gpt-4o", "<=", -0.05)
    assert read_precision("debate - consultancy ± 0.05") == read_precision(
        "debate - consultancy +- .05"
    )
    assert read_direction("debate > consultancy").threshold == 0
    assert read_direction("debate - consultancy > 0.1").threshold == 0.1
    for read, text in (
        (read_pair, "debate"),
        (read_condition, "debate-consultancy < 0.05"),
        (read_condition, "debate - consultancy < nan"),
        (read_precision, "debate - consultancy ± -1"),
        (read_precision, "debate > consultancy"),
        (read_direction, "debate - consultancy < 0.1"),
    ):
        with pytest.raises(UsageError, match="'debate"):
            read(text)


def test_all_pairs_give_every_row_the_ranks_that_it_may_have(place: Path, command: Command) -> None:
    assert command("run", "small.yaml").code == 0
    run = only_run(place)
    told = json.loads(command("compare", run, "--pairs", "all", "--json").out)
    ranks = {each["row"]: (each["best"], each["worst"]) for each in told["ranks"]}
    assert set(ranks) == set(read_rows(run).names)
    assert all(1 <= best <= worst <= 5 for best, worst in ranks.values())
    means = {name: sample.mean for name, sample in read_rows(run).asd("brier").items()}
    order = sorted(means, key=lambda name: -means[name])
    for place_of, name in enumerate(order, 1):
        assert ranks[name][0] <= place_of <= ranks[name][1]
    assert "ranks: the places" in command("compare", run, "--pairs", "all").out
    assert not json.loads(command("compare", run, "--json").out)["ranks"]
