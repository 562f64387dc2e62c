"""A database that hangs, is gone, or is far: how a run ends, and what distance costs."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oversight.engine.mock.process import counts
from tests.databases import Server
from tests.desk import Desk
from tests.proxy import Proxy
from tests.waiting import end

pytest.importorskip("psycopg", reason="psycopg is not installed")
pytestmark = pytest.mark.wire

SLOW = {"latency": 0.15, "spread": 0.5}
PATIENCE = {"OVERSIGHT_OUTAGE_SECONDS": "3"}
LEASE = {"OVERSIGHT_LEASE_SECONDS": "6"}
PROBLEMS = 4


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    with Proxy(postgres.folder / ".s.PGSQL.5432") as made:
        yield made


@pytest.fixture
def url(postgres: Server, proxy: Proxy) -> str:
    return proxy.url(postgres)


@pytest.mark.parametrize(
    ("workers", "signals", "most"),
    [("1", (signal.SIGINT,), 25.0), ("2", (signal.SIGTERM, signal.SIGTERM), 12.0)],
)
def test_a_run_ends_though_its_database_hangs(
    tmp_path: Path, url: str, proxy: Proxy, signals: tuple[int, ...], most: float, workers: str
) -> None:
    desk = Desk(tmp_path, problems=PROBLEMS)
    with desk.server(SLOW) as server:
        desk.environment |= LEASE
        process = desk.start("--store", url, "--workers", workers)
        while counts(server).get("ok", 0) < 20:
            assert process.poll() is None, process.communicate()
        proxy.stall()
        time.sleep(1.0)
        began = time.monotonic()
        for number in signals:
            process.send_signal(number)
            time.sleep(0.3)
        _, told = process.communicate(timeout=90)
        took = time.monotonic() - began
        assert process.returncode == 128 + signals[0], told
        assert took < most, told
        assert "Traceback" not in told
        proxy.flow()
        # Nothing of what was acknowledged is asked again.
        assert desk.sit("--store", url, "--accept-empty").returncode == 0


@pytest.mark.parametrize(("how", "workers"), [("stall", "1"), ("vanish", "2")])
def test_a_database_that_stays_away_ends_the_run_once_with_the_count_of_what_is_lost(
    tmp_path: Path, url: str, proxy: Proxy, how: str, workers: str
) -> None:
    desk = Desk(tmp_path, problems=PROBLEMS)
    with desk.server(SLOW) as server:
        desk.environment |= PATIENCE
        process = desk.start("--store", url, "--workers", workers)
        while counts(server).get("ok", 0) < 20:
            assert process.poll() is None, process.communicate()
        getattr(proxy, how)()
        began = time.monotonic()
        done = end(process)
        took = time.monotonic() - began
    assert done.returncode == 3, done.stderr
    assert took < 50.0, done.stderr
    assert "Traceback" not in done.stderr
    lost = re.search(r"([\d,]+) paid repl(?:y|ies) could not be saved", done.stderr)
    assert lost, done.stderr
    assert 0 < int(lost[1]) <= counts_lost(desk)


def counts_lost(desk: Desk) -> int:
    return desk.account().sent


def test_a_call_waits_for_one_round_trip_to_its_store(tmp_path: Path, postgres: Server) -> None:
    """While a reply is being stored and its lease given back, the next call of the cell is looked
    up and leased. Counted where one call is asked after another: in two round trips a call."""
    with Proxy(postgres.folder / ".s.PGSQL.5432", delay=0.05) as proxy:
        desk = Desk(tmp_path, problems=1)
        sweep = tmp_path / "sweep.yaml"
        sweep.write_text("max_cells: 1\n" + sweep.read_text())
        with desk.server({"latency": 0.01}):
            began = time.monotonic()
            done = desk.sit("--store", proxy.url(postgres))
            renewals = int((time.monotonic() - began) / 10)
        assert done.returncode == 0, done.stderr
    calls = desk.account().sent
    to_connect, to_open_and_close = 3 * len(proxy.trips), 9
    opening = to_connect + to_open_and_close + renewals
    # Between two cells one waits for the reply too. On a busy machine an answer arrives in pieces,
    # and the next word counts as another trip.
    cells = len((desk.run / "outcomes.jsonl").read_bytes().splitlines())
    pieces = calls // 4
    print(f"{calls} calls, {cells} cells: {proxy.waits} waits, {sum(proxy.trips)} trips")
    assert proxy.waits <= calls + cells + opening + pieces
    assert sum(proxy.trips) <= 2 * calls + opening + 2 * pieces
