"""A finished run of `small.yaml`, to be looked at and to be damaged."""

import shutil
from pathlib import Path

import pytest

from tests.command_line import within
from tests.engine.conftest import SWEEP
from tests.run_folders import only_run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder in which small.yaml was run."""
    place = tmp_path_factory.mktemp("finished")
    (place / "small.yaml").write_text(SWEEP)
    ran = within("run", "small.yaml", cwd=place, OVERSIGHT_STORE=str(place / "store"))
    assert ran.code == 0
    return place


@pytest.fixture
def made(place: Path, finished: Path) -> Path:
    """The folder of one finished run of small.yaml; what it paid for is in the store."""
    for folder in ("runs", "store"):
        shutil.copytree(finished / folder, place / folder)
    return only_run(place)
