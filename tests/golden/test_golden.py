"""Stores and run folders as earlier programs made them: they open, verify and report for ever,
and are not taken for runs of the words that seats read now.

`older` has a folder for each: `first` is of version 0.1.0, `worded` of the first prompt set. Its
`made` holds run folders: `golden`, a sweep on simulated models with failed cells; `in_python`,
which `run` made; and `wire`, one that was asked over HTTP and met faults, so that its ledger names
them. `store` holds the replies of all, `made.bundle` those of `golden`. They are never made anew:
what this test refuses, users' stores and run folders would be refused.
"""

import json
from contextlib import closing
from pathlib import Path

import pytest

from oversight.cache.disk import ReadOnlyStore
from oversight.cache.record import Record, records
from oversight.engine.accounting.ledger_file import read_ledger
from oversight.engine.cli.exit_codes import ExitCode
from oversight.engine.runs.manifest import MANIFEST_FILE
from tests.command_line import Command
from tests.golden.conftest import Copied
from tests.golden.reading import figures, halve, renamed
from tests.run_folders import everything

OLDER = Path(__file__).parent / "older"
RUNS = {"first": ("golden", "wire", "in_python"), "worded": ("golden", "in_python")}
EXPECTED = {age: json.loads((OLDER / age / "expected.json").read_text()) for age in RUNS}
"""By run: the rows of its report, the addresses of one problem's calls, and the ledger's faults."""

REPLIES = {"first": 248, "worded": 398}
each_run = pytest.mark.parametrize(
    ("age", "name"), [(age, name) for age, names in RUNS.items() for name in names]
)
each_age = pytest.mark.parametrize("age", list(RUNS))


@pytest.fixture
def folder(age: str, copied: Copied) -> Path:
    return copied(OLDER / age, REPLIES[age])


@each_run
def test_a_run_reports_the_same_figures(age: str, name: str, command: Command) -> None:
    report = command("report", name, "--json")
    assert report.code == 0, report.err
    assert figures(report.out) == renamed(EXPECTED[age][name]["rows"])


@each_run
def test_a_replay_tells_that_the_run_was_made_with_other_words_and_sends_nothing(
    age: str, name: str, command: Command
) -> None:
    replay = command("replay", name, "--json")
    assert replay.code != 0 and replay.out == ""
    assert "was never recorded" in replay.err and "nothing was sent" in replay.err
    assert "differs in: " in replay.err


@each_run
def test_an_export_of_a_run_without_a_record_says_how_to_make_one(
    age: str, name: str, folder: Path, command: Command
) -> None:
    export = command("export", "replies", name, "-o", "some.bundle")
    assert export.code == ExitCode.USAGE, export.err
    assert "make one with oversight replay --record" in export.err
    assert not (folder / "some.bundle").exists()
    frames = command("export", "tables", name, "--format", "jsonl", "-o", "frames")
    assert frames.code == ExitCode.USAGE and "make one with oversight replay --record" in frames.err
    assert (
        command("export", "tables", name, "--format", "jsonl", "-o", "rows", "--no-replies").code
        == 0
    )


@each_age
def test_every_reply_is_sound_under_its_address(age: str, command: Command) -> None:
    verified = command("cache", "verify")
    assert verified.code == 0, verified.err
    assert f"{REPLIES[age]} sound replies, 0 damaged" in verified.err + verified.out


@each_age
def test_every_call_still_has_the_address_that_it_had(age: str, folder: Path) -> None:
    with closing(ReadOnlyStore(folder / "store")) as replies:
        kept = [record for _, record in records(replies.items())]
        found = {each.call().address for each in kept if isinstance(each, Record)}
    assert len(kept) == REPLIES[age]
    assert found >= {each for name in RUNS[age] for each in EXPECTED[age][name]["addresses"]}


@each_age
def test_the_bundle_is_read_and_holds_what_the_store_holds(
    age: str, folder: Path, command: Command
) -> None:
    imported = command("cache", "import", OLDER / age / "made.bundle")
    assert imported.code == 0, imported.err
    # The store had them all; the fixture counts it again.
    replay = command("replay", "golden", "--store", OLDER / age / "made.bundle")
    assert replay.code != 0 and "nothing was sent" in replay.err


@each_run
def test_a_run_keeps_its_status_and_the_faults_in_its_ledger(
    age: str, name: str, folder: Path, command: Command
) -> None:
    status = command("status", name, "--json")
    assert status.code == 0, status.err
    cells = EXPECTED[age][name]["cells"]
    assert json.loads(status.out) | {"cells": cells, "finished": cells} == json.loads(status.out)
    accounts = read_ledger(folder / "runs" / name)
    faults = {model: [list(fault) for fault in each.faults] for model, each in accounts.items()}
    assert faults == EXPECTED[age][name].get("faults", {})


def refused_and_left(made: Path, command: Command) -> str:
    """Run the sweep of a run folder, which is refused and changes no file; what is said."""
    before = everything(made)
    refused = command("run", made / "sweep.yaml", "--run-folder", made)
    assert refused.code == 2, refused.err
    assert before.items() <= everything(made).items()
    return refused.err


@each_run
def test_half_a_run_is_not_finished_with_other_words(
    age: str, name: str, folder: Path, command: Command
) -> None:
    made = folder / "runs" / name
    halve(made)
    refused_and_left(made, command)


@each_age
def test_the_folder_of_a_run_by_other_code_is_refused_and_left_as_it_is(
    age: str, folder: Path, command: Command
) -> None:
    made = folder / "runs" / "golden"
    manifest = json.loads((made / MANIFEST_FILE).read_text()) | {"identity": "0" * 64}
    (made / MANIFEST_FILE).write_text(json.dumps(manifest))
    told = refused_and_left(made, command)
    cells = EXPECTED[age]["golden"]["cells"]
    other = f"belongs to another sweep (golden, {cells} cells)", "was run with other code than"
    assert any(each in told for each in other)
