"""Run folders, a store and a bundle as this program makes them with the words of its prompts: they
replay, resume, show and export to equal bytes.

A change of any word, or of what any call of theirs is made of, makes them the runs of other code:
then they join those of version 0.1.0 (test_golden.py), and others take their place here.
"""

import json
from pathlib import Path

import pytest

from oversight import run
from oversight.engine.runs.loaded_sweep import open_run
from tests.command_line import Command, calls
from tests.golden.conftest import Copied
from tests.golden.reading import addresses, figures, halve, in_python, of_this_code, ordered

HERE = Path(__file__).parent / "worded"
RUNS = ("golden", "in_python")
EXPECTED = json.loads((HERE / "expected.json").read_text())


@pytest.fixture
def folder(copied: Copied) -> Path:
    return copied(HERE, EXPECTED["replies"])


@pytest.mark.parametrize("name", RUNS)
def test_a_run_replays_to_equal_bytes_and_figures(
    name: str, folder: Path, command: Command
) -> None:
    replay = command("replay", name, "--json")
    assert replay.code == 0, replay.err
    asked = EXPECTED[name]["replayed"]
    assert f"{asked} of {asked} outcomes are equal to the byte" in replay.err
    report = command("report", name, "--json")
    assert figures(replay.out) == figures(report.out) == EXPECTED[name]["rows"]


def test_a_run_replays_from_its_bundle(folder: Path, command: Command) -> None:
    replay = command("replay", "golden", "--store", HERE / "made.bundle", "--json")
    assert replay.code == 0, replay.err
    assert figures(replay.out) == EXPECTED["golden"]["rows"]


def test_a_run_exports_the_same_bundle(folder: Path, command: Command) -> None:
    assert command("replay", "--record", "golden").code == 0
    assert command("export", "replies", "golden", "-o", "again.bundle").code == 0
    assert (folder / "again.bundle").read_bytes() == (HERE / "made.bundle").read_bytes()


@pytest.mark.parametrize("name", RUNS)
def test_a_run_shows_the_same_calls(name: str, folder: Path, command: Command) -> None:
    assert command("replay", "--record", name).code == 0
    shown = command("show", name, *EXPECTED[name]["show"], "--json")
    assert shown.code == 0, shown.err
    assert set(EXPECTED[name]["addresses"]) <= set(addresses(json.loads(shown.out)))


def test_half_a_run_is_finished_from_the_store_to_equal_bytes(
    folder: Path, command: Command
) -> None:
    made = folder / "runs" / "golden"
    whole = halve(made)
    of_this_code(made)
    again = command("run", made / "sweep.yaml", "--run-folder", made)
    assert again.code == 1, again.err  # cells failed, as before
    assert calls(again.err).new == 0
    assert ordered((made / "outcomes.jsonl").read_bytes()) == ordered(whole)


def test_half_a_run_made_from_python_is_finished_from_the_store(folder: Path) -> None:
    made = folder / "runs" / "in_python"
    problems, whole = open_run(made).sweep.problems, halve(made)
    of_this_code(made)
    report = run(in_python(), problems, name="in_python", folder=made, quiet=True)
    assert report.stopped is None
    assert ordered((made / "outcomes.jsonl").read_bytes()) == ordered(whole)


def test_a_sweep_run_again_is_a_new_run_with_equal_outcomes(folder: Path, command: Command) -> None:
    again = command("run", folder / "runs" / "golden" / "sweep.yaml", "--run-folder", "new")
    assert calls(again.err).new == 0
    whole = (folder / "runs" / "golden" / "outcomes.jsonl").read_bytes()
    assert ordered((folder / "new" / "outcomes.jsonl").read_bytes()) == ordered(whole)
