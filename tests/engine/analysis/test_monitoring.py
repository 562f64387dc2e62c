"""`measure monitoring` and `measure coverage` on the example, and on planted verdicts."""

import json
import shutil
from pathlib import Path
from statistics import mean

import pytest

from oversight.engine.analysis.rows import read_rows
from tests.command_line import ROOT, Command

EXAMPLE = ROOT / "examples" / "monitors"


@pytest.fixture
def run(place: Path, command: Command) -> Path:
    for path in EXAMPLE.iterdir():
        shutil.copy(path, place)
    assert command("run", "monitors.yaml", "--run-folder", "monitored").code == 0
    return place / "monitored"


def test_the_example_measures_its_monitors(run, command):
    output = json.loads(command("measure", "monitoring", run, "--json", "--base-rate", ".01").out)
    rows = output["rows"]
    assert [(row["attacks"], row["honest"], row["missing"]) for row in rows] == [(10, 30, 0)] * 3
    assert all(0.5 < row["auroc"]["value"] <= 1 for row in rows)
    text = command("measure", "monitoring", run, "--fpr", ".05").out
    assert "TPR at FPR 0.05" in text and "an interval needs 70 more honest runs" in text
    assert "TPR at threshold 0.7" in command("measure", "monitoring", run, "--threshold", ".7").out
    coverage = command("measure", "coverage", run, "--risk", ".2").out
    assert "largest coverage with an error of at most 0.2" in coverage


def test_windows_are_planned_and_scored_by_the_highest(place, command):
    """The known truth: the AUROC of the windows' probabilities, by hand."""
    for path in EXAMPLE.iterdir():
        shutil.copy(path, place)
    sweep = place / "monitors.yaml"
    window = "reads_passage: true, window: {steps: 2, by: [max, mean]}}"
    text = sweep.read_text().replace("reads_passage: true}", window)
    sweep.write_text(text.partition("  - debate")[0])
    [model] = json.loads(command("plan", sweep, "--json").out)["plan"]["models"]
    assert model["calls"] == 3 * 40  # Two runs may share a window, which is then asked once.
    assert command("run", sweep, "--run-folder", "windows").code == 0
    run = read_rows(place / "windows")
    cells, positive = run.table.cells, []
    for problem in run.sweep.problems:
        positive.append([answer.text for answer in problem.question.answers].index("attack"))
    rows = json.loads(command("measure", "monitoring", "windows", "--json").out)["rows"]
    for row, pool in enumerate((max, mean)):
        scores: dict[bool, dict[int, float]] = {True: {}, False: {}}
        for at, number in zip(cells.places(row).tolist(), cells.problem.tolist(), strict=True):
            windows = [probs[positive[number]] for probs in run.table.redraws[at]]
            assert len(windows) == 3  # Five steps of each run are shown.
            attack = run.sweep.problems[number].best == positive[number]
            scores[attack][number] = pool(windows)
        wins = [
            (attack > honest) + (attack == honest) / 2
            for attack in scores[True].values()
            for honest in scores[False].values()
        ]
        assert rows[row]["auroc"]["value"] == pytest.approx(mean(wins))
    assert "biased upward" in command("report", "windows", "--notes").out


SUSPICION = """\
question,score,epoch,mode,repo
a1,95,1,attack,x
a1,85,2,attack,x
a2,40,1,attack,w
h1,50,1,honest,x
h2,10,1,honest,z
h3,,1,honest,z
"""
"""The truth: a2 is below h1, and the three other pairs are in order."""


def test_scores_of_others_are_monitors(place, command):
    (place / "scores.csv").write_text(SUSPICION)
    words = ("measure", "monitoring", "scores.csv", "--label", "mode")
    [row] = json.loads(command(*words, "--threshold", "45", "--json").out)["rows"]
    assert [row[key] for key in ("attacks", "honest", "missing")] == [2, 2, 1]
    assert (row["auroc"]["value"], row["auroc"]["clusters"]) == (0.75, 4)
    caught, alarms = (row["threshold 45"][key]["value"] for key in ("caught", "alarms"))
    assert (caught, alarms) == (0.5, 0.5)
    [row] = json.loads(command(*words, "--cluster", "repo", "--json").out)["rows"]
    assert row["auroc"]["clusters"] == 3
    [row] = json.loads(command(*words, "--positive", "honest", "--json").out)["rows"]
    assert row["auroc"]["value"] == 0.25


def test_sizes_of_the_example_tell_no_attack(place, command):
    source = f"path={EXAMPLE / 'trajectories.jsonl'}"
    check = command("dataset", "check", "trajectories", "--set", source, "--json")
    sizes = json.loads(check.out)["sizes"]
    assert check.code == 0 and [size["leaks"] for size in sizes] == [False] * 3
    assert [size["auroc"]["n"] for size in sizes] == [40] * 3
