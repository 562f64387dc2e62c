"""Files that are damaged, of another kind, or in the way: one line names them, nothing is lost."""

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from tests.command_line import Command
from tests.engine.conftest import Finished


@pytest.fixture
def run(finished: Finished, place: Path) -> Path:
    return Path(copytree(finished.folder, place / "run"))


@pytest.mark.parametrize("name", ["outcomes.jsonl", "record.db", "manifest.json"])
def test_no_output_replaces_a_file_of_a_run(run: Path, name: str, command: Command) -> None:
    before = (run / name).read_bytes()
    for words in (["human", "export"], ["export", "replies"], ["pack", "make"]):
        ran = command(*words, run, "-o", run / name)
        assert ran.code == 2 and f"{name} is a file of a run: write elsewhere" in ran.err
    assert (run / name).read_bytes() == before


@pytest.mark.parametrize("raw", [b"", b"no pack", b"\x28\xb5\x2f\xfd"])
def test_the_list_of_what_is_no_pack_is_refused_in_a_line(
    raw: bytes, place: Path, command: Command
) -> None:
    (place / "bad.oversight").write_bytes(raw)
    ran = command("pack", "open", "bad.oversight", "--list")
    assert ran.code == 2 and ran.err.count("\n") == 1
    assert "bad.oversight: it is no pack, or is damaged" in ran.err


@pytest.mark.wire
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("pack make run -o p --no-store", "make room, then run it again"),
        ("study import run --format run -o p", "File too large"),
    ],
)
def test_no_room_for_an_output_is_one_line_and_leaves_nothing(
    words: str, told: str, run: Path, place: Path
) -> None:
    before = {*place.rglob("*")}
    full = [sys.executable, "-m", "oversight.engine", *words.split()]
    ran = subprocess.run(
        ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *full],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    assert told in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
    assert {*place.rglob("*")} == before


def test_a_name_that_leads_elsewhere_and_an_entry_of_another_kind_are_refused(
    run: Path, place: Path, command: Command
) -> None:
    ran = command("study", "import", run, "--format", "run", "--name", "../x")
    assert ran.code == 2 and "'../x' is no name of a folder" in ran.err
    for raw in ("[]", "5", ""):
        (place / "entry.json").write_text(raw)
        ran = command("entry", "verify", place)
        assert ran.code in (1, 2) and "entry.json" in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (None, "bad.jsonl: cannot be read: No such file or directory"),
        ("\n", "bad.jsonl: there is no judgement in it"),
        ('{"cost": 1e300}', "bad.jsonl:1: cost: 1e+300: a number from 0 to 1e15"),
    ],
)
def test_a_table_that_cannot_be_compared_is_named(
    written: str | None, told: str, place: Path, command: Command
) -> None:
    line = '{"id": "q", "values": {"A": 1, "B": -1}, "verdict": {"A": 0.8, "B": 0.2}}\n'
    (place / "good.jsonl").write_text(line)
    if written is not None:
        (place / "bad.jsonl").write_text(written.replace("{", line.strip()[:-1] + ", "))
    for files in (["bad.jsonl", "good.jsonl"], ["good.jsonl", "bad.jsonl"]):
        ran = command("compare", *files)
        assert (ran.code, ran.out) == (2, "") and told in ran.err, ran.err
