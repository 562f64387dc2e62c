"""Stores and run folders as the program of version 0.1.0 made them: they open, resume, replay and
report for ever.

`made` holds three run folders: `golden`, a sweep on simulated models with failed cells; `wire`,
one that was asked over HTTP and met faults, so that its ledger names them; and `in_python`, which
`run` made. `store` holds the replies of all three, `made.bundle` those of `golden`. They are never
made anew: what this test refuses, users' stores and run folders would be refused.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oversight import run
from oversight.cache.disk import ReadOnlyStore
from oversight.engine.accounting.ledger_file import read_ledger
from oversight.engine.cli.group import main
from oversight.engine.runs.loaded_sweep import open_run
from oversight.engine.runs.manifest import MANIFEST_FILE, read_manifest
from oversight.protocols import Agent, BestOf, Debate, Jury, LogprobJudge, NaiveJudge, StatedJudge
from oversight.protocols.datasets import bundled
from oversight.protocols.protocol import Protocol
from tests.command_line import Command, Ran, calls

HERE = Path(__file__).parent
RUNS = ("golden", "wire", "in_python")
EXPECTED = json.loads((HERE / "expected.json").read_text())
"""By run: the rows of its report, the addresses of one problem's calls, and the ledger's faults."""

REPLIES = 248


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with copies of the store and of the run folders."""
    shutil.copytree(HERE / "store", tmp_path / "store")
    shutil.copytree(HERE / "made", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    yield tmp_path
    # Nothing of this asks anybody anything.
    with closing(ReadOnlyStore(tmp_path / "store")) as replies:
        assert len(replies) == REPLIES


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command in this process."""

    def ran(*words: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["oversight", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        return Ran(int(left.value.code or 0), out, err)

    return ran


def figures(report: str) -> list[list[object]]:
    """Of each row of a JSON report: its names, how many problems and failed cells, and its ASD."""
    return [
        [
            *(row[key] for key in ("protocol", "agent", "judge", "n", "failed", "failures")),
            round(row["asd"]["mean"], 9) if row["asd"] else None,
        ]
        for row in json.loads(report)["rows"]
    ]


def addresses(value: object) -> list[str]:
    """Every address of a call in what `show --json` prints, in order."""
    if isinstance(value, list):
        return [found for part in value for found in addresses(part)]
    if not isinstance(value, dict):
        return []
    own = [value["call"]] if isinstance(value.get("call"), str) else []
    return own + [found for part in value.values() for found in addresses(part)]


def in_python() -> list[Protocol]:
    """What the run that was made from Python was made of."""
    stated, logprob = StatedJudge("sim/judge"), LogprobJudge("sim/weak")
    drafting = BestOf(n=2, agent=Agent("sim/medium"), judge=stated)
    return [
        NaiveJudge(stated),
        Debate(judge=Jury((stated, logprob), pool="logodds"), agent=drafting),
        Debate(judge=logprob, agent=Agent("sim/medium", tools=("calculator",)), rounds=1),
    ]


def of_this_code(run: Path) -> None:
    """Make the run one of the code as it is now, in place of the code that made it."""
    manifest = json.loads((run / MANIFEST_FILE).read_text())
    manifest["identity"] = open_run(run).sweep.identity
    (run / MANIFEST_FILE).write_text(json.dumps(manifest))


def halve(run: Path) -> bytes:
    """Forget every second outcome that came of replies alone; what all of them were.

    What failed at its provider stays: it has no reply that could be had again without asking.
    """
    whole = (run / "outcomes.jsonl").read_bytes()
    kept = [
        line
        for place, line in enumerate(whole.splitlines(keepends=True))
        if place % 2 == 0 or b'"kind":"TooLong"' in line
    ]
    (run / "outcomes.jsonl").write_bytes(b"".join(kept))
    return whole


def ordered(outcomes: bytes) -> list[bytes]:
    return sorted(outcomes.splitlines())


@pytest.mark.parametrize("name", RUNS)
def test_a_run_reports_the_same_figures(name: str, command: Command) -> None:
    report = command("report", name, "--json")
    assert report.code == 0, report.err
    assert figures(report.out) == EXPECTED[name]["rows"]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_replays_to_equal_bytes(name: str, command: Command) -> None:
    replay = command("replay", name, "--json")
    assert replay.code == 0, replay.err
    asked = EXPECTED[name]["replayed"]
    assert f"{asked} of {asked} outcomes are equal to the byte" in replay.err
    assert figures(replay.out) == EXPECTED[name]["rows"]


def test_a_run_replays_from_its_bundle(command: Command) -> None:
    replay = command("replay", "golden", "--store", HERE / "made.bundle", "--json")
    assert replay.code == 0, replay.err
    assert figures(replay.out) == EXPECTED["golden"]["rows"]


def test_a_run_exports_the_same_bundle(folder: Path, command: Command) -> None:
    assert command("export", "golden", "-o", "again.bundle").code == 0
    assert (folder / "again.bundle").read_bytes() == (HERE / "made.bundle").read_bytes()


@pytest.mark.parametrize("name", RUNS)
def test_a_run_shows_the_same_calls(name: str, command: Command) -> None:
    shown = command("show", name, *EXPECTED[name]["show"], "--json")
    assert shown.code == 0, shown.err
    assert addresses(json.loads(shown.out)) == EXPECTED[name]["addresses"]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_keeps_its_status_and_the_faults_in_its_ledger(
    name: str, folder: Path, command: Command
) -> None:
    status = command("status", name, "--json")
    assert status.code == 0, status.err
    cells = EXPECTED[name]["cells"]
    assert json.loads(status.out) | {"cells": cells, "finished": cells} == json.loads(status.out)
    accounts = read_ledger(folder / "runs" / name)
    faults = {model: [list(fault) for fault in each.faults] for model, each in accounts.items()}
    assert faults == EXPECTED[name]["faults"]


@pytest.mark.parametrize("name", ["golden", "wire"])
def test_half_a_run_is_finished_from_the_store_to_equal_bytes(
    name: str, folder: Path, command: Command
) -> None:
    made = folder / "runs" / name
    whole = halve(made)
    of_this_code(made)
    again = command("run", made / "sweep.yaml", "--run-folder", made)
    assert again.code == 1, again.err  # cells failed, as before
    assert calls(again.err).new == 0
    assert ordered((made / "outcomes.jsonl").read_bytes()) == ordered(whole)


def test_half_a_run_made_from_python_is_finished_from_the_store(folder: Path) -> None:
    made = folder / "runs" / "in_python"
    whole = halve(made)
    of_this_code(made)
    report = run(in_python(), bundled("arithmetic")[:2], name="in_python", folder=made, quiet=True)
    assert report.stopped is None
    assert ordered((made / "outcomes.jsonl").read_bytes()) == ordered(whole)


def test_a_sweep_run_again_by_other_code_is_a_new_run_with_equal_outcomes(
    folder: Path, command: Command
) -> None:
    again = command("run", folder / "runs" / "golden" / "sweep.yaml", "--run-folder", "new")
    assert calls(again.err).new == 0
    whole = (folder / "runs" / "golden" / "outcomes.jsonl").read_bytes()
    assert ordered((folder / "new" / "outcomes.jsonl").read_bytes()) == ordered(whole)


def test_the_folder_of_a_run_by_other_code_is_refused_and_left_as_it_is(
    folder: Path, command: Command
) -> None:
    made = folder / "runs" / "golden"
    manifest = json.loads((made / MANIFEST_FILE).read_text()) | {"identity": "0" * 64}
    (made / MANIFEST_FILE).write_text(json.dumps(manifest))
    before = {each.name: each.read_bytes() for each in made.iterdir()}
    refused = command("run", made / "sweep.yaml", "--run-folder", made)
    assert refused.code == 2
    assert "belongs to another sweep (golden, 72 cells)" in refused.err
    assert {name: (made / name).read_bytes() for name in before} == before


def test_the_manifests_are_read_whole(folder: Path) -> None:
    for name in RUNS:
        manifest = read_manifest(folder / "runs" / name)
        assert (manifest.name, manifest.cells) == (name, EXPECTED[name]["cells"])
