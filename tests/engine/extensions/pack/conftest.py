"""The packs of two runs, of which one has a protocol of the user's: made once and copied."""

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
PLAIN = SWEEP.replace(', {"steel.py:Steelman": {strength: 3}}', "").replace("logprob", "stated")


@pytest.fixture(scope="session")
def packed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("packed")
    (place / "steel.py").write_text(STEEL)
    for name, sweep in {"run": SWEEP, "plain": PLAIN}.items():
        assert run_in(place, f"{name}.yaml", sweep, "--run-folder", name).code == 0
        flags = ("-o", f"{name}.oversight", "--sweep", f"{name}.yaml")
        packed = within("export", "pack", name, *flags, cwd=place)
        assert packed.code == 0, packed.err
        assert ("run/code/steel.py" in packed.err) == (name == "run") and "run/run.db" in packed.err
    (place / "executed").unlink()
    return place


@pytest.fixture
def pack(place: Path, packed_once: Path) -> Path:
    shutil.copytree(packed_once, place, dirs_exist_ok=True)
    moved(place / "run", packed_once, place)
    return place / "run.oversight"
