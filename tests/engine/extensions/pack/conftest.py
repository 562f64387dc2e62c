"""The pack of a run with a protocol of one's own, made once and copied where a test is."""

import shutil
from pathlib import Path

import pytest

from tests.command_line import run_in, within
from tests.own_protocol import STEEL
from tests.run_folders import moved

SWEEP = """\
name: own
problems: {bundled: {name: arithmetic, limit: 2}}
agents: [sim/strong]
judges: {kind: logprob, model: sim/judge}
protocols: [naive_judge, debate, {"steel.py:Steelman": {strength: 3}}]
draws: 2
"""
CELLS = 24
"""2 problems, 3 rows, 2 draws, 2 worlds."""


@pytest.fixture(scope="session")
def packed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("packed")
    (place / "steel.py").write_text(STEEL)
    assert run_in(place, "own.yaml", SWEEP, "--run-folder", "run").code == 0
    made = within("export", "pack", "run", "-o", "run.oversight", "--sweep", "own.yaml", cwd=place)
    assert made.code == 0, made.err
    assert "code/steel.py" in made.err and "cells.jsonl" in made.err
    (place / "executed").unlink()
    return place


@pytest.fixture
def pack(place: Path, packed_once: Path) -> Path:
    shutil.copytree(packed_once, place, dirs_exist_ok=True)
    moved(place / "run", packed_once, place)
    return place / "run.oversight"
