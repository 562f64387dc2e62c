"""Run folders of version 0.1, whose identity is over the bytes of the code that made them.

`raw_identity.tar.xz` holds `demo`, `mechanisms` (each protocol once), `own` (a protocol and
a loader in files), `interrupted` (killed), `workers`, `batches`, `in_python` and the two parts of
one sweep, with their store and their sweep files. It is never made anew. All open for ever; a run
goes on where its code is what it was, and where it is not, when it is told to.
"""

import json
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from oversight.engine.runs.code_changes import changed_rows, code_of_run
from oversight.engine.runs.loaded_sweep import open_run
from oversight.engine.runs.manifest import MANIFEST_FILE, read_manifest
from oversight.engine.sweeps.code import row_codes
from oversight.engine.sweeps.older_code import older_identity, older_row_codes
from tests.command_line import Command, calls, within
from tests.golden.reading import figures, halve, ordered, renamed
from tests.run_folders import everything

PACKED = Path(__file__).with_suffix("").parent / "raw_identity.tar.xz"
RUNS = ("batches", "demo", "in_python", "interrupted", "mechanisms", "own", "workers")
PARTS = ("one", "two")
SWEEPS = ("demo", "interrupted", "mechanisms", "own", "workers")
LIMITS = {"demo": ("--limit", "3"), "mechanisms": ("--limit", "1")}

each_run = pytest.mark.parametrize("name", [*RUNS, *PARTS])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    with tarfile.open(PACKED) as packed:
        packed.extractall(tmp_path, filter="data")
    # It names code, and was not made here.
    assert within("pack", "trust", "runs/own", "--yes", cwd=tmp_path).code == 0
    return tmp_path


@pytest.fixture
def command(folder: Path) -> Command:
    return partial(within, cwd=folder)


def run_of(folder: Path, name: str) -> Path:
    return folder / ("parts" if name in PARTS else "runs") / name


@each_run
def test_a_run_reports_the_same_figures(name: str, folder: Path, command: Command) -> None:
    expected = json.loads((folder / "expected.json").read_text())[name]
    report = command("report", run_of(folder, name), "--json")
    assert report.code == 0, report.err
    assert figures(report.out) == renamed(expected["rows"])
    assert read_manifest(run_of(folder, name)).cells == expected["cells"]


def same_code(folder: Path, name: str) -> bool:
    """Whether all rows of a run are what they were in version 0.1; and the run is known."""
    run = run_of(folder, name)
    sweep, manifest = open_run(run).sweep, read_manifest(run)
    code = code_of_run(run, manifest, sweep)
    assert code is not None
    # The frozen table does not know of later settings; those of its own are the same.
    if manifest.identity == older_identity(sweep):
        older = older_row_codes(sweep.rows)
        assert {row: codes[-1] for row, codes in code.rows.items()} == {
            row: each.digest for row, each in older.items()
        }
    return not any(changed_rows(code, row_codes(sweep.rows), sweep.rows))


@each_run
def test_a_run_is_known_by_the_code_that_made_it(name: str, folder: Path) -> None:
    same_code(folder, name)


@each_run
def test_another_seed_or_another_name_is_another_run(name: str, folder: Path) -> None:
    run = run_of(folder, name)
    sweep, manifest = open_run(run).sweep, read_manifest(run)
    for other in (replace(sweep, name="other"), replace(sweep, problems=sweep.problems[1:])):
        assert code_of_run(run, manifest, other) is None


@pytest.mark.campaign
@pytest.mark.parametrize("name", SWEEPS)
def test_a_run_goes_on_with_its_code_and_with_other_code_when_told_to(
    name: str, folder: Path, command: Command
) -> None:
    run, same = run_of(folder, name), same_code(folder, name)
    whole = halve(run) if name != "interrupted" else (run / "outcomes.jsonl").read_bytes()
    kept = (run / "outcomes.jsonl").read_bytes().splitlines()
    words = ("run", f"{name}.yaml", *LIMITS.get(name, ()), "--run-folder", run)
    before = everything(run)
    done = command(*words)
    if not same:
        assert done.code == 2 and "was run with other code than there is now" in done.err
        assert before.items() <= everything(run).items()
        done = command(*words, "--adopt-code")
    assert done.code in (0, 1), done.err
    now = (run / "outcomes.jsonl").read_bytes()
    assert len(now.splitlines()) == read_manifest(run).cells
    assert set(kept) <= set(now.splitlines())
    if same:
        assert ordered(now)[: len(ordered(whole))] == ordered(whole) or name == "interrupted"
        assert name == "interrupted" or calls(done.err).new == 0
    # The manifest tells what it went on with, and nothing is asked a second time.
    assert read_manifest(run).code is not None
    assert "already complete" in command(*words).err


def edited(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ('    """How often', '    # So often.\n    """How often', 0),
        ("answer the best", "meet the best", 2),
    ],
)
def test_an_edit_of_ones_own_protocol_is_told_row_by_row(
    old: str, new: str, changed: int, folder: Path, command: Command
) -> None:
    run = run_of(folder, "own")
    started = command("run", "own.yaml", "--run-folder", run, "--adopt-code")
    assert started.code == 0, started.err
    for _ in range(2):  # the words of seats are others now: what is left is asked, and then is not
        halve(run)
        assert command("run", "own.yaml", "--run-folder", run).code == 0
    halve(run)
    edited(folder / "steelman.py", old, new)
    done = command("run", "own.yaml", "--run-folder", run)
    if not changed:
        assert done.code == 0 and calls(done.err).new == 0
        return
    assert done.code == 2
    assert f"in {changed} of 3 rows" in done.err and done.err.count("  steelman.py") == changed
    adopted = command("run", "own.yaml", "--run-folder", run, "--adopt-code")
    assert adopted.code == 0, adopted.err
    code = read_manifest(run).code
    assert code is not None
    assert sum(len(set(each)) > 1 for each in code.rows.values()) >= changed
    # What is mixed is never silent.
    for told in (adopted.out, command("report", run).out):
        assert "other code was adopted on the way (--adopt-code)" in " ".join(told.split())
    assert len(json.loads(command("report", run, "--json").out)["adopted"]) >= changed


def test_a_protocol_that_was_edited_before_it_was_first_opened_needs_to_be_adopted(
    folder: Path, command: Command
) -> None:
    run = run_of(folder, "own")
    halve(run)
    edited(folder / "steelman.py", "# An example", "# Some example")
    refused = command("run", "own.yaml", "--run-folder", run)
    assert refused.code == 2 and "unknown" in refused.err
    assert command("report", run).code == 0
    assert command("run", "own.yaml", "--run-folder", run, "--adopt-code").code == 0


def test_parts_are_gathered(folder: Path, command: Command) -> None:
    gathered = command("cache", "gather", "parts", "--run-folder", "runs/all", "--json")
    assert gathered.code == 0, gathered.err
    assert len((folder / "runs/all/outcomes.jsonl").read_bytes().splitlines()) == 16
    manifest = json.loads((folder / "runs/all" / MANIFEST_FILE).read_text())
    assert len(manifest["code"]["rows"]) == 2
