"""A working folder with a small sweep on simulated models, and the command line in this process."""

import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.command_line import Command, Ran, run_in, within
from tests.run_folders import moved, only_run

SWEEP = """\
name: small
problems: {bundled: {name: arithmetic, limit: 4}}
agents: {model: [sim/strong, sim/weak]}
judges: sim/judge
protocols:
  naive_judge:
  debate: {rounds: 1}
  consultancy: {turns: 2}
"""
"""40 cells: 4 problems, 5 rows, 2 worlds."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `small.yaml` and an empty store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    (tmp_path / "small.yaml").write_text(SWEEP)
    return tmp_path


@pytest.fixture
def command(place: Path) -> Command:
    """Runs a command in this process, in the working folder."""
    return partial(within, cwd=place)


class Finished(NamedTuple):
    """A finished run of `small.yaml`."""

    folder: Path
    ran: Ran
    """Result of `oversight run small.yaml`."""


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The one run that `finished` copies."""
    place = tmp_path_factory.mktemp("finished")
    ran = run_in(place, "small.yaml", SWEEP)
    assert ran.code == 0, ran.err
    return Finished(only_run(place), ran)


@pytest.fixture
def finished(place: Path, finished_once: Finished) -> Finished:
    """`small.yaml` has been run in the working folder; its replies are in the store."""
    home = finished_once.folder.parents[1]
    for name in ("runs", "store"):
        shutil.copytree(home / name, place / name)
    moved(folder := only_run(place), home, place)
    return Finished(folder, finished_once.ran)
