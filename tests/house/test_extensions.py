"""The core knows no extension: with any of them gone, with all of them gone, it runs as before."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.weight import ROOMS, ROOT

pytestmark = pytest.mark.wire
EXTENSIONS = sorted(
    folder.name
    for folder in (ROOT / "engine" / "extensions").iterdir()
    if (folder / "__init__.py").exists()
)


def without(gone: list[str], place: Path) -> Path:
    """A copy of the packages without these extensions."""
    for room in (*ROOMS, "oversight"):
        shutil.copytree(ROOT / room, place / room, symlinks=True)
    for name in gone:
        shutil.rmtree(place / "engine" / "extensions" / name)
    (place / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "core_run.py", place / "tests")
    (place / "work").mkdir()
    return place


def python(copy: Path, *words: str) -> str:
    """Return the output of Python with a copy of the packages."""
    process = subprocess.run(
        [sys.executable, *words],
        cwd=copy / "work",
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_core_runs_without_any_extension(tmp_path):
    lines = python(without(EXTENSIONS, tmp_path / "copy"), "-m", "tests.core_run").splitlines()
    assert lines[-1] == "extensions:"


@pytest.mark.nightly
@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_core_and_the_demo_run_without(name, tmp_path):
    copy = without([name], tmp_path / "copy")
    assert name not in python(copy, "-m", "tests.core_run").splitlines()[-1].split()
    if name != "simulation":
        assert "demo: agent score difference" in python(copy, "-m", "oversight.engine", "demo")
