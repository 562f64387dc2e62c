"""Runs on workers of Ray: the same run as ever, also when a worker or all of it is killed."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen

import pytest

from oversight.engine.extensions.mock.process import counts
from tests.desk import CANARY, Desk
from tests.run_folders import spoken
from tests.waiting import end, until

lacks_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not installed: pip install 'oversight-bench[ray]'"
)
SLOW = {"latency": 0.3, "spread": 0.5}


@pytest.fixture
def short() -> Iterator[str]:
    """Where Ray keeps its files; its sockets need a short path."""
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def started(desk: Desk, short: str, *flags: str) -> "Popen[str]":
    desk.environment |= {"RAY_TMPDIR": short}
    return desk.start("--workers", "3", *flags)


def workers(short: str) -> list[int]:
    """The workers that keep their files there, by their process ids."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"RAY_TMPDIR={short}".encode() in (process / "environ").read_bytes()
            if ours and b"ray::Worker" in (process / "cmdline").read_bytes():
                pids.append(int(process.name))
        except OSError:
            pass  # it has ended meanwhile
    return pids


@pytest.mark.real
@lacks_ray
def test_three_workers_write_what_one_process_writes(tmp_path, short):
    desk = Desk(tmp_path)
    desk.file.write_text(
        "name: s\nproblems: {bundled: arithmetic}\njudges: {kind: stated, model: sim/judge}\n"
        "agents: [{model: sim/strong}, {model: sim/unruly, best_of: 2}]\n"
        "protocols: [naive_judge, debate, market_making]\n"
    )
    alone = desk.sit_here("--run-folder", "alone", "--store", "other")
    result = end(started(desk, short))
    assert result.returncode == alone.code, result.stderr
    assert result.stdout == alone.out, "what Ray prints is no part of the result"
    run, other = desk.run, tmp_path / "alone"
    assert (run / "outcomes.jsonl").read_bytes() == (other / "outcomes.jsonl").read_bytes()
    assert (run / "report" / "report.json").read_bytes() == (
        other / "report" / "report.json"
    ).read_bytes()
    assert spoken(run) == spoken(other)


@pytest.mark.real
@lacks_ray
def test_three_workers_keep_the_limits_of_one_ask_once_and_show_no_key(tmp_path, short):
    desk = Desk(tmp_path, problems=4)
    # The server refuses what exceeds these, and counts it.
    desk.file.write_text(desk.file.read_text().replace("concurrency: 6", "requests: 1200"))
    with desk.server({"requests_per_minute": 1200}) as url:
        result, served = end(started(desk, short)), counts(url)
        again = desk.sit_here("--run-folder", "again", "--cache", "replay")
    assert result.returncode == again.code == 0, result.stderr
    assert result.stdout == again.out and served.get("rate_limit", 0) == 0
    assert desk.account().stored == desk.account().sent == served["ok"] == served["requests"]
    assert served.get("repeats", 0) == 0
    files = [file for file in Path(short).rglob("*") if file.is_file()]
    assert files and not any(CANARY.encode() in file.read_bytes() for file in files)


@pytest.mark.real
@lacks_ray
def test_a_killed_worker_is_replaced_and_loses_and_counts_nothing_twice(tmp_path, short):
    desk = Desk(tmp_path, problems=6)
    with desk.server(SLOW) as url:
        process = started(desk, short)
        until(lambda: counts(url).get("ok", 0) >= 30, process)
        os.kill(workers(short)[0], signal.SIGKILL)
        result, served = end(process), counts(url)
        again = desk.sit_here("--run-folder", "again", "--cache", "replay")
    assert result.returncode == again.code == 0, result.stderr
    assert result.stdout == again.out
    outcomes = [(tmp_path / run / "outcomes.jsonl").read_bytes() for run in ("run", "again")]
    assert outcomes[0] == outcomes[1] and b'"failure"' not in outcomes[0]
    account = desk.account()
    # Calls in flight at the dead worker's last report are unconfirmed; the rest is known.
    assert account.stored <= served["ok"] and account.sent <= served["requests"]
    assert spoken(desk.run) == spoken(tmp_path / "again")


@pytest.mark.real
@lacks_ray
def test_the_cap_is_kept_by_all_workers_together(tmp_path, short):
    desk = Desk(tmp_path, problems=6)
    with desk.server({}):
        stopped = end(started(desk, short, "--max-cost", "0.02"))
        assert stopped.returncode == 4, stopped.stderr
        account = desk.account()
        assert 0.005 < account.dollars + account.unconfirmed <= 0.02
        enough = desk.sit_here()
    assert enough.code == 0, enough.err


@pytest.mark.real
@lacks_ray
def test_a_stop_saves_what_is_in_flight_and_the_same_command_goes_on(tmp_path, short):
    desk = Desk(tmp_path, problems=6)
    with desk.server(SLOW) as url:
        process = started(desk, short)
        until(lambda: counts(url).get("ok", 0) >= 30, process)
        # As a terminal does it: every process of the group gets it.
        os.killpg(process.pid, signal.SIGINT)
        result = end(process)
        assert result.returncode == 130, result.stderr
        landed = counts(url)["ok"]
        assert desk.account().stored == landed
        went = end(started(desk, short))
        assert went.returncode == 0, went.stderr
        assert desk.account().stored == counts(url)["ok"] > landed
        assert counts(url).get("repeats", 0) == 0
    assert not workers(short)


@pytest.mark.real
@lacks_ray
def test_cell_that_kills_every_worker_is_the_only_failure(tmp_path, short):
    desk = Desk(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import os\nfrom dataclasses import dataclass\n"
        "from oversight.protocols import NaiveJudge\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Deadly(NaiveJudge):\n"
        "    async def play(self, question, side, ask):\n"
        "        if 'pple' in question.text or 'RAY_TMPDIR' not in os.environ:\n"
        "            os.abort()\n"
        "        return await super().play(question, side, ask)\n"
    )
    desk.file.write_text(
        "name: s\nproblems: {bundled: arithmetic}\nagents: sim/strong\njudges: sim/judge\n"
        "protocols: ['mine.py:Deadly']\n"
    )
    result = end(started(desk, short))
    assert result.returncode == 1, result.stderr
    lines = (desk.run / "outcomes.jsonl").read_bytes().splitlines()
    failed = [line for line in lines if b'"failure"' in line]
    assert failed and all(b'"kind":"crash"' in line for line in failed) and len(lines) == 4


@pytest.mark.wire
@lacks_ray
def test_a_cluster_needs_a_store_that_its_machines_reach(tmp_path):
    desk = Desk(tmp_path)
    with desk.server({}) as url:
        result = desk.sit_here("--ray", "127.0.0.1:1")
        assert "requests" not in counts(url)
    assert result.code == 2
    assert "is a folder, which the machines of a cluster do not share" in result.err


@pytest.mark.wire
def test_without_ray_one_line_names_the_extra(tmp_path):
    desk = Desk(tmp_path)
    hidden = (
        "import sys; sys.modules['ray'] = None\nfrom oversight.engine.__main__ import main\nmain()"
    )
    with desk.server({}) as url:
        result = desk.sit("--workers", "2", script=hidden)
        assert "requests" not in counts(url)
    assert result.returncode == 2
    (line,) = [line for line in result.stderr.splitlines() if "Ray" in line]
    assert line.startswith("several workers need Ray: ") and "pip install" in line
