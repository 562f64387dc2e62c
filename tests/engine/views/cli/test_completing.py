"""Completions of the shell on TAB."""

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from oversight.engine.run.record.database import RunDatabase
from oversight.engine.views.cli.group import oversight
from tests.command_line import ROOT, environment
from tests.engine.conftest import Finished
from tests.run_folders import outcomes

SWITCH_ON = 'eval "$(_OVERSIGHT_COMPLETE=bash_source oversight)"'
"""As docs/commands.md has it."""


def offered(*words: str) -> list[str]:
    """Completions of the last word of a line."""
    shell = ShellComplete(oversight, {}, "oversight", "_OVERSIGHT_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.wire
def test_bash_completion_of_the_page_offers_runs(place: Path, finished: Finished) -> None:
    assert SWITCH_ON in (ROOT / "docs" / "commands.md").read_text()
    (place / "bin").mkdir()
    program = place / "bin" / "oversight"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m oversight.engine "$@"\n')
    program.chmod(0o755)
    completion = "COMP_WORDS=(oversight report sm); COMP_CWORD=2; _oversight_completion oversight"
    process = subprocess.run(
        ["bash", "-c", f"{SWITCH_ON}; {completion}; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
        env=environment({"PATH": f"{place / 'bin'}:/usr/bin:/bin"}),
        capture_output=True,
        text=True,
    )
    assert (process.stdout.split(), process.stderr) == ([finished.folder.name, "small.yaml"], "")


def test_commands_runs_sweep_files_problems_and_cells_are_offered(place, finished):
    (place / "sweeps").mkdir()
    shutil.copy(place / "small.yaml", place / "sweeps" / "large.yaml")
    assert {"replay", "report", "run"} <= set(offered("r"))
    assert offered("report", "") == [finished.folder.name, "small.yaml", "sweeps/large.yaml"]
    assert offered("report", "sm") == [finished.folder.name, "small.yaml"]
    assert offered("status", "runs/sm") == [f"runs/{finished.folder.name}"]
    assert offered("run", "sw") == ["sweeps/large.yaml"]
    assert offered("plan", "sweeps/") == ["sweeps/large.yaml"]
    problems = offered("show", "small", "")
    assert len(problems) == 4
    assert offered("show", finished.folder.name, "--draw", "0", problems[0][:5])[0] == problems[0]
    cell = outcomes(finished.folder)[0].cell
    assert offered("show", "small", cell[:6]) == [cell]


def test_unreadable_folders_offer_nothing_and_print_nothing(finished, capfd):
    with closing(RunDatabase(finished.folder)) as database:
        database.db.execute("UPDATE problems SET question = 'other'")
    assert offered("show", finished.folder.name, "") == []
    (finished.folder / "run.db").write_text("{")
    assert offered("report", "sm") == ["small.yaml"] and offered("show", "nowhere", "x") == []
    assert capfd.readouterr() == ("", "")
