"""A working folder for sweeps on the real model, where its weights and llama.cpp are installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oversight.engine.errors import UsageError
from oversight.engine.extensions.local.server import weights


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The working folder; no server that was started from it outlives the test.

    Skips, with the commands that bring them, where weights or llama.cpp are missing."""
    try:
        weights()
    except UsageError as exc:
        pytest.skip(" ".join(str(exc).split()))
    yield tmp_path
    assert not servers(tmp_path)


def servers(place: Path) -> set[int]:
    """The processes that serve the local model and were started from a working folder."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if (
                b"oversight.engine.extensions.local" in words
                and (folder / "cwd").readlink() == place
            ):
                found.add(int(folder.name))
        except OSError:
            continue  # it has ended, or is another user's
    return found
