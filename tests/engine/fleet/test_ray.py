"""Workers on Ray: the same run as ever, also when one of them is killed."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from oversight.engine.rehearsal.process import counts
from tests.desk import CANARY, Desk

pytestmark = [
    pytest.mark.wire,
    pytest.mark.skipif(
        find_spec("ray") is None, reason="Ray is not installed: pip install 'oversight-bench[ray]'"
    ),
]

SLOW = {"latency": 0.4, "spread": 0.5}


@pytest.fixture
def place() -> Iterator[Path]:
    """Where Ray keeps its files; its sockets need a short path."""
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def actors(place: Path) -> list[int]:
    """The workers of the cluster that has its files there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"RAY_TMPDIR={place}".encode() in (process / "environ").read_bytes()
            if ours and b"ray::WorkerActor" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            pass  # it has ended meanwhile
    return found


@pytest.mark.timeout(280)
def test_a_run_on_ray_whose_worker_is_killed_ends_as_the_store_has_it_and_shows_no_key(
    tmp_path: Path, place: Path
) -> None:
    desk = Desk(tmp_path, problems=8)
    with desk.server(SLOW) as url:
        desk.environment |= {"RAY_TMPDIR": str(place), "RAY_USAGE_STATS_ENABLED": "0"}
        process = desk.start("--workers", "2", "--ray", "auto")
        deadline = time.monotonic() + 200
        while counts(url).get("ok", 0) < 30:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(actors(place)[0], signal.SIGKILL)
        out, err = process.communicate(timeout=200)
        again = desk.sit("--run-folder", "again", "--cache", "replay")
    assert process.returncode == again.returncode == 0, err
    assert err.count("is gone; what it had in hand is run again") == 1
    assert (tmp_path / "run/outcomes.jsonl").read_bytes() == (
        tmp_path / "again/outcomes.jsonl"
    ).read_bytes()
    assert out == again.stdout, "what Ray prints is no part of the result"
    kept = [file for file in place.rglob("*") if file.is_file()]
    assert len(kept) > 10
    for file in kept:
        assert CANARY.encode() not in file.read_bytes(), file


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with desk.server({}) as url:
        done: subprocess.CompletedProcess[str] = desk.sit("--ray", "127.0.0.1:1")
        assert "requests" not in counts(url)
    assert done.returncode == 2, done.stderr
    assert "--ray 127.0.0.1:1: no cluster can be reached there" in done.stderr
