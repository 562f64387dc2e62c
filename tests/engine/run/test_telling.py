"""What commands say about runs, judges, the store, and what is only tried out."""

import json
from pathlib import Path

import pytest

from oversight.engine.run.manifest import read_manifest
from oversight.engine.views.api.library import run
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.baselines import Propaganda
from tests.command_line import ROOT, Command
from tests.engine.conftest import Finished
from tests.run_folders import only_run
from tests.shipments import shipments


def test_runs_of_one_sweep_are_told_apart_by_what_they_were_started_with(
    command: Command, finished: Finished
) -> None:
    assert "--set" not in command("status").out
    command("run", "small.yaml", "--run-folder", "runs/two", "--set", "seed=7")
    (two,) = (line for line in command("status").out.splitlines() if "runs/two" in line)
    assert two.endswith("seed=7")
    told = {
        each["folder"]: each["overrides"] for each in json.loads(command("status", "--json").out)
    }
    assert told == {f"runs/{finished.folder.name}": [], "runs/two": ["seed=7"]}


def test_show_prints_what_the_judge_wrote(command: Command, finished: Finished) -> None:
    folder = finished.folder
    shown = command("show", folder, "--protocol", "naive", "--json").out
    written = [each["judgements"][0]["text"] for each in json.loads(shown)["worlds"].values()]
    printed = command("show", folder, "--protocol", "naive").out
    for text in written:
        assert f"wrote: {text.splitlines()[0]}" in printed


def test_a_run_folder_does_not_tell_whose_home_its_store_is_in(
    place: Path, command: Command, monkeypatch
) -> None:
    monkeypatch.setenv("HOME", str(place))
    command("run", "small.yaml")
    folder = only_run(place)
    assert read_manifest(folder).store == "~/store"
    monkeypatch.setenv("OVERSIGHT_STORE", str(place / "elsewhere"))
    assert command("replay", folder).code == 0, "it is found again"


def test_a_notebook_is_shown_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = run([Propaganda(StatedJudge("sim/judge"), Agent("sim/strong"))], shipments(3))
    assert report._repr_markdown_() == report.table("markdown")
    assert len(repr(report)) < 200


def test_the_sweep_of_a_shared_run_says_whence_its_replies_can_be_had(
    place: Path, command: Command, finished: Finished
) -> None:
    folder = finished.folder.relative_to(place)
    told = command("run", folder / "sweep.yaml").err
    assert f"oversight cache export {folder}\n· then here: oversight cache import" in told
    assert "oversight export" not in command("run", "small.yaml").err


@pytest.mark.wire
def test_what_init_writes_can_be_rehearsed_as_it_says(place: Path, command: Command) -> None:
    command("init", "mine.yaml")
    assert "oversight rehearse THIS-FILE" in (place / "mine.yaml").read_text()
    ran = command("rehearse", "mine.yaml", "--limit", "1", "--profile", "calm", "--speed", "50")
    assert ran.code == 0, ran.err


def test_wrong_answers_of_a_simulated_model_are_told_to_be_made_up(
    place: Path, command: Command
) -> None:
    (place / "known.jsonl").write_text('{"id": "a", "question": "2 + 2?", "answer": "4"}\n')
    words = ("known.jsonl", "--model", "sim/strong", "-o", "wrong.jsonl")
    told = command("dataset", "generate", "wrong", *words).err
    assert "sim/strong is simulated: what it writes is made up, to try this out only" in told


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")))
def test_every_example_can_be_started_from(place: Path, command: Command, example: Path) -> None:
    assert command("init", "mine.yaml", "--example", example.stem).code == 0
    assert (place / "mine.yaml").read_text() == example.read_text()
    help = command("init", "--help").out
    assert example.stem in help


def test_an_example_that_there_is_not_is_told_with_those_that_there_are(command: Command) -> None:
    assert (
        "there are appendix_a, appendix_a_sim, appendix_a_solib, asymmetric, first-live, "
        "hidden_passage, instead_of_people, mechanisms, pressure"
        in command("init", "mine.yaml", "--example", "nothing").err
    )
