"""Names by strangers move no cursor, reverse no line and forge no line."""

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from shutil import copytree

import pytest

from oversight.engine.analysis.findings.finding import Finding, Part, word
from oversight.engine.display.text import CONTROL
from oversight.engine.run.record.database import RunDatabase
from tests.command_line import Command
from tests.engine.conftest import Finished
from tests.pages.browser import unpacked
from tests.run_folders import noted, reseal

NAME = 'x\x1b[2J\u202e"<b>\n· forged: yes\nforged: yes'
UNSHOWN = re.compile(CONTROL.pattern)


def planted(folder: Path) -> None:
    """Put the name in every field of the folder that holds a name."""
    noted(folder, name=NAME)
    names = "protocol = protocol || row || ?1, agent = iif(agent = '', '', agent || ?1), judge = ?1"
    with closing(RunDatabase(folder)) as database:
        database.db.execute(f"UPDATE rows SET {names}", (NAME,))
        reseal(database, "rows")
        database.tell("progress", json.dumps({"pending": NAME, "note": NAME}).encode())


def test_no_command_prints_foreign_names_raw(finished: Finished, command: Command) -> None:
    planted(finished.folder)
    run = finished.folder
    for words in (
        ("status",),
        ("status", run),
        ("human", "status", run),
        ("report", run),
        ("report", run, "--format", "markdown"),
        ("report", run, "--format", "latex"),
        ("show", run),
        ("compare", run),
        ("show", run, "--search", "apples"),
        ("measure", "calibration", run),
        ("cache", "export", run, "-o", "replies"),
    ):
        ran = command(*words)
        assert "Traceback" not in ran.err
        for text in (ran.out, ran.err):
            assert not UNSHOWN.search(text), (words, UNSHOWN.search(text))
            assert not re.search("^(· )?forged: yes", text, re.MULTILINE), (words, text)


@pytest.mark.wire
def test_no_page_has_foreign_names_raw(finished: Finished, command: Command, place: Path) -> None:
    planted(finished.folder)
    assert command("view", finished.folder, "--write", "site").code == 0
    pages = list((place / "site").rglob("*.html"))
    assert len(pages) > 5
    for page in pages:
        text = unpacked(page)
        assert not UNSHOWN.search(text), (page, UNSHOWN.search(text))
        assert "<b>\n" not in text


@pytest.mark.wire
def test_damaged_run_leaves_no_partial_site(finished, command, place):
    assert command("view", finished.folder, "--write", "site").code == 0
    before = {file.name: file.read_bytes() for file in (place / "site").iterdir()}
    with closing(RunDatabase(finished.folder)) as database:
        database.db.execute("UPDATE turns SET text = 'other' WHERE place = 39")
    for to in ("site", "new/site"):
        ran = command("view", finished.folder, "--write", to)
        assert ran.code == 2 and "run.db is damaged" in ran.err, ran.err
    assert {file.name: file.read_bytes() for file in (place / "site").iterdir()} == before
    assert not list((place / "new").glob("*")) and not list(place.glob(".site*"))


def test_name_of_five_megabytes_is_cut_to_one_line() -> None:
    lines = [type("Line", (), {"name": ("y" * 2**20 + "\n| forged |") * 5})]
    finding = Finding((Part("rows", "t", [word("name", "name")], lines),))
    for format in ("text", "markdown", "latex"):
        assert len(finding.text(format)) < 2**15 and "\n| forged" not in finding.text(format)


@pytest.mark.wire
def test_full_disk_is_reported_in_one_line_and_leaves_nothing(finished, place):
    copytree(finished.folder, place / "run")
    before = {*place.rglob("*")}
    words = ["export", "pack", "run", "-o", "p.oversight", "--no-store"]
    full = [sys.executable, "-m", "oversight.engine", *words]
    ran = subprocess.run(
        ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *full], cwd=place, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 3, ran.stderr
    assert "raise it (ulimit -f)" in ran.stderr.splitlines()[-1] and "Traceback" not in ran.stderr
    assert {*place.rglob("*")} == before
