"""What the shell offers on TAB, asked of a real bash."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oversight.engine.runs.run_folder import outcomes
from tests.command_line import environment
from tests.engine.conftest import Command

pytestmark = pytest.mark.wire

SWITCH_ON = 'eval "$(_OVERSIGHT_COMPLETE=bash_source oversight)"'
"""As the README has it."""
README = (Path(__file__).parents[3] / "README.md").read_text()


class Offered:
    """What bash has to offer for the last word of a line."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, *words: str) -> list[str]:
        offer = "_oversight_completion oversight; printf '%s\\n' \"${COMPREPLY[@]}\""
        line = ("oversight", *words)
        wanted = " ".join(f"'{word}'" for word in line)
        done = subprocess.run(
            ["bash", "-c", f"{SWITCH_ON}; COMP_WORDS=({wanted}); COMP_CWORD={len(words)}; {offer}"],
            cwd=self.place,
            env=environment({"PATH": f"{self.place / 'bin'}:/usr/bin:/bin"}),
            capture_output=True,
            text=True,
        )
        assert done.stderr == ""
        return done.stdout.split()


@pytest.fixture
def offered(place: Path, command: Command) -> Offered:
    """A folder with a run of small.yaml, and a bash that has completion switched on."""
    assert command("run", "small.yaml").code == 0
    (place / "bin").mkdir()
    program = place / "bin" / "oversight"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m oversight.engine "$@"\n')
    program.chmod(0o755)
    (place / "sweeps").mkdir()
    shutil.copy(place / "small.yaml", place / "sweeps" / "large.yaml")
    return Offered(place)


def test_the_readme_says_how_to_switch_it_on() -> None:
    assert SWITCH_ON in README


def test_commands_runs_sweep_files_problems_and_cells_are_offered(offered: Offered) -> None:
    (run,) = (offered.place / "runs").iterdir()
    assert {"runs", "rehearse", "run"} <= set(offered("r"))
    assert offered("report", "") == [run.name, "small.yaml", "sweeps/large.yaml"]
    assert offered("report", "sm") == [run.name, "small.yaml"]
    assert offered("status", "runs/sm") == [f"runs/{run.name}"]
    assert offered("run", "sw") == ["sweeps/large.yaml"]
    assert offered("plan", "sweeps/") == ["sweeps/large.yaml"]

    problems = offered("show", "small", "")
    assert len(problems) == 4
    assert offered("show", run.name, "--draw", "0", problems[0][:5])[0] == problems[0]
    cell = next(outcomes(run)).cell
    assert offered("show", "small", cell[:6]) == [cell]


def test_where_nothing_can_be_read_nothing_is_offered_and_nothing_told(offered: Offered) -> None:
    (run,) = (offered.place / "runs").iterdir()
    for damaged in ("{", "{}", "[]"):
        (run / "problems.jsonl").write_text(damaged)
        assert offered("show", run.name, "") == []
    (run / "manifest.json").write_text("{")
    assert offered("report", "sm") == ["small.yaml"]
    assert offered("show", "nowhere", "x") == []
