"""`measure monitoring` and `measure coverage` on the example, and on planted verdicts."""

import json
import shutil
from pathlib import Path

import pytest

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
    fixed = command("measure", "monitoring", run, "--threshold", ".7").out
    assert "TPR at threshold 0.7" in fixed
    coverage = command("measure", "coverage", run, "--risk", ".2").out
    assert "largest coverage with an error of at most 0.2" in coverage


def test_sizes_of_the_example_tell_no_attack(place, command):
    source = f"path={EXAMPLE / 'trajectories.jsonl'}"
    check = command("dataset", "check", "trajectories", "--set", source, "--json")
    sizes = json.loads(check.out)["sizes"]
    assert check.code == 0 and [size["leaks"] for size in sizes] == [False] * 3
    assert [size["auroc"]["n"] for size in sizes] == [40] * 3


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["--positive", "evil"], "name the answer that marks an attack with --positive"),
        (["--fpr", "0"], "0"),
        (["--threshold", "2"], "2"),
    ],
)
def test_wrong_settings_are_refused(run, command, flags, fault):
    ran = command("measure", "monitoring", run, *flags)
    assert ran.code == 2 and fault in ran.err
