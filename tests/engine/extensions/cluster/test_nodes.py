"""A run on two real nodes of Ray, each with its own home and environment, over one PostgreSQL: a
worker, the driver and a node are killed, and only calls in flight are asked again."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from oversight.engine.extensions.mock.process import counts
from tests.databases import lacking, serving
from tests.desk import CANARY, Desk
from tests.run_folders import spoken
from tests.waiting import end, until

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.real,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
]
KEYS = {"OPENAI_API_KEY": CANARY, "ANTHROPIC_API_KEY": CANARY}
CONCURRENCY = 8
IN_FLIGHT = 3 * CONCURRENCY
"""Calls in flight at most: three models are asked."""


class Nodes:
    """Two nodes of one cluster on this machine."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, number: int, **environment: str) -> None:
        """Start a node with two CPUs, and only this environment, in a folder without a sweep."""
        home = self._folder / str(number)
        home.mkdir(exist_ok=True)
        port = self.address.rpartition(":")[2]
        role = ["--head", "--port", port] if number == 1 else ["--address", self.address]
        folder = ["--temp-dir", str(home), "--include-dashboard", "false"] if number == 1 else []
        basis = {"HOME": str(home), "PATH": os.environ["PATH"], "NODE": f"{self._folder}/{number}"}
        self._started.append(
            subprocess.Popen(
                [
                    *(str(Path(sys.executable).parent / "ray"), "start", "--block", *role, *folder),
                    *("--num-cpus", "2", "--node-ip-address", "127.0.0.1"),
                    *("--disable-usage-stats", "--object-store-memory", "100000000"),
                ],
                cwd=home,
                env=basis | {"RAY_memory_monitor_refresh_ms": "0"} | environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        until(lambda: b"raylet" in b"".join(self.commands(number).values()), every=0.2)

    def commands(self, number: int) -> dict[int, bytes]:
        """The command lines of a node's processes, by process id."""
        marker = f"NODE={self._folder}/{number}\0".encode()
        commands: dict[int, bytes] = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if marker in (process / "environ").read_bytes():
                    commands[int(process.name)] = (process / "cmdline").read_bytes()
            except OSError:
                continue  # it has ended, or is another user's
        return commands

    def kill(self, number: int, only: bytes = b"") -> None:
        """Kill the processes of a node at once; only: the first of those with this name."""
        killed = [pid for pid, command in self.commands(number).items() if only in command]
        for pid in killed[:1] if only else killed:
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        for number in (2, 1):
            self.kill(number)
        for started in self._started:
            started.wait()


@contextmanager
def two_nodes(**second: str) -> Iterator[Nodes]:
    """second: the environment of the second node; by default it has the keys."""
    folder = Path(tempfile.mkdtemp(prefix="n", dir="/tmp"))
    nodes = Nodes(folder)
    try:
        nodes.start(1, **KEYS)
        nodes.start(2, **(second or KEYS))
        yield nodes
    finally:
        nodes.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_kills_of_a_worker_the_driver_and_a_node_lose_only_calls_in_flight(tmp_path):
    with serving() as database, two_nodes() as nodes:
        for killed in ("nothing", "worker", "driver", "node"):
            folder = tmp_path / killed
            folder.mkdir()
            desk = Desk(folder, problems=6, concurrency=CONCURRENCY)
            flags = "--ray", nodes.address, "--workers", "4", "--store", database.database()
            with desk.server({"latency": 0.3, "spread": 0.5}) as url:
                process = desk.start(*flags)
                if killed != "nothing":
                    until(lambda url=url: counts(url).get("ok", 0) >= 40, process)
                if killed == "worker":
                    nodes.kill(2, b"ray::Worker")
                elif killed == "driver":
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                    process = desk.start(*flags)
                elif killed == "node":
                    nodes.kill(2)
                result = end(process)
                assert result.returncode == 0, f"{killed}: {result.stderr}"
                received = counts(url)
                again = desk.sit_here(*flags[4:], "--run-folder", "again", "--cache", "replay")
            assert again.code == 0, again.err
            assert result.stdout == again.out, killed
            assert b'"failure"' not in (desk.run / "outcomes.jsonl").read_bytes(), killed
            for name in ("outcomes.jsonl", "report/report.json"):
                written = [(folder / run / name).read_bytes() for run in ("run", "again")]
                assert written[0] == written[1], f"{killed}: {name}"
            assert spoken(desk.run) == spoken(folder / "again"), killed
            twice = received.get("repeats", 0)
            assert twice <= (0 if killed == "nothing" else IN_FLIGHT), f"{killed}: {received}"
            if killed == "nothing":
                account = desk.account()
                assert account.stored == account.sent == received["ok"] == received["requests"]


def test_nodes_that_differ_are_refused_by_name_before_the_first_call(tmp_path):
    other = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    for environment in ({"OPENAI_API_KEY": CANARY}, KEYS | other):
        with serving() as database, two_nodes(**environment) as nodes:
            desk = Desk(tmp_path)
            flags = "--ray", nodes.address, "--workers", "4", "--store", database.database()
            with desk.server({}) as url:
                result = end(desk.start(*flags))
                assert counts(url).get("requests", 0) == 0
        assert result.returncode == 2, result.stderr
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("node ")]
        lacks = "has no ANTHROPIC_API_KEY: set it in the environment"
        differs = [*other, *other.values(), f"{url}/v1"]
        words = differs if environment.keys() > KEYS.keys() else [lacks]
        assert all(word in line for word in words), line
        shutil.rmtree(desk.run, ignore_errors=True)
