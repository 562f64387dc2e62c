"""Workers on Ray: the same run as ever, also when one of them is killed."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from oversight.engine.mock.process import counts
from oversight.engine.runs.row_pauses import FAILED_ALIKE
from tests.desk import CANARY, Desk
from tests.ray_cluster import ray_cluster
from tests.waiting import end, until

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


def actors(place: Path) -> set[int]:
    """The workers of the cluster that has its files there, by their process ids."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"RAY_TMPDIR={place}".encode() in (process / "environ").read_bytes()
            if ours and b"ray::WorkerActor" in (process / "cmdline").read_bytes():
                found.add(int(process.name))
        except OSError:
            pass  # it has ended meanwhile
    return found


def shows_no_key(place: Path) -> None:
    """No file that Ray keeps there holds a key."""
    kept = [file for file in place.rglob("*") if file.is_file()]
    assert len(kept) > 10
    for file in kept:
        assert CANARY.encode() not in file.read_bytes(), file


def test_the_work_of_a_node_that_dies_and_of_a_killed_worker_goes_on_at_others(
    tmp_path: Path, place: Path
) -> None:
    desk = Desk(tmp_path, problems=16)
    with desk.server(SLOW) as url, ray_cluster(place, desk.environment) as cluster:
        process = desk.start("--workers", "2", "--ray", cluster.address)
        until(lambda: counts(url).get("ok", 0) >= 30, process, every=0.1)
        before = actors(place)
        cluster.kill_node()
        until(lambda: len(actors(place)) < len(before), process, every=0.1)
        lost = time.monotonic()
        until(lambda: len(actors(place)) == len(before) == 2, process, every=0.1)
        print(f"another worker after {time.monotonic() - lost:.1f} s")
        os.kill(min(actors(place)), signal.SIGKILL)
        done = end(process)
        again = desk.sit_here("--run-folder", "again", "--cache", "replay")
    assert done.returncode == again.code == 0, done.stderr
    # The node may have had both workers, and Ray may place one more there before it knows.
    assert done.stderr.count("is gone; what it had in hand is run again") in range(2, 6)
    outcomes, replayed = (desk.folder / run / "outcomes.jsonl" for run in ("run", "again"))
    assert outcomes.read_bytes() == replayed.read_bytes()
    assert done.stdout == again.out, "what Ray prints is no part of the result"
    shows_no_key(place)


WITHOUT_ITS_FILE = """
from pathlib import Path
from oversight.engine.cli.group import main
from oversight.engine.fleet.ray_fleet import RayWorker

spawn = RayWorker.spawn

async def on_another_machine():
    Path("mine.py").unlink(missing_ok=True)
    return await spawn()

RayWorker.spawn = staticmethod(on_another_machine)
main()
"""


def test_actors_on_a_cluster_of_this_machine_are_sent_the_code_of_a_file_and_show_no_key(
    tmp_path: Path, place: Path
) -> None:
    desk = Desk(tmp_path)
    desk.environment = {"RAY_TMPDIR": str(place), "OPENAI_API_KEY": CANARY}
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from oversight.protocols import NaiveJudge\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(NaiveJudge):\n"
        "    pass\n"
    )
    (tmp_path / "sweep.yaml").write_text(
        "name: s\nproblems: {bundled: arithmetic}\nagents: sim/strong\njudges: sim/judge\n"
        "protocols: ['mine.py:Mine']\n"
    )
    alone = desk.sit_here("--run-folder", "alone")
    actor = desk.sit("--ray", "auto", script=WITHOUT_ITS_FILE)
    assert actor.returncode == alone.code == 0, actor.stderr
    assert not (tmp_path / "mine.py").exists()
    run, other = (tmp_path / name / "outcomes.jsonl" for name in ("run", "alone"))
    assert run.read_bytes() == other.read_bytes()
    assert actor.stdout == alone.out, "what Ray prints is no part of the result"
    shows_no_key(place)


def test_a_row_that_is_never_readable_is_paused_and_the_other_goes_on(
    tmp_path: Path, place: Path
) -> None:
    desk = Desk(tmp_path, problems=60)
    desk.environment = {"RAY_TMPDIR": str(place)}
    (tmp_path / "sweep.yaml").write_text(
        "name: s\nproblems: {bundled: arithmetic}\nagents: sim/strong\n"
        "judges: {model: [sim/mute, sim/judge], kind: stated}\nprotocols: naive_judge\n"
        "models: {sim/mute: {muddle: 1, latency: 0.3}, sim/judge: {latency: 0.3}}\nmax_cells: 2\n"
    )
    ran = desk.sit("--ray", "auto")
    assert ran.returncode == 3, ran.stderr
    assert "the first 8 of their row all failed for one cause" in ran.stderr
    lines = (desk.run / "outcomes.jsonl").read_bytes().splitlines()
    failed = sum(b'"failure"' in line for line in lines)
    assert FAILED_ALIKE <= failed < 120 == len(lines) - failed


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with desk.server({}) as url:
        done = desk.sit_here("--ray", "127.0.0.1:1")
        assert "requests" not in counts(url)
    assert done.code == 2, done.err
    assert "--ray 127.0.0.1:1: no cluster can be reached there" in done.err
