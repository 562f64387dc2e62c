"""A store that runs share: each call is paid once, whoever asks, and a database may restart."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from oversight.cache.cache import Cache
from oversight.cache.errors import StoreError, StoreGone
from oversight.cache.reply import Reply
from oversight.engine.mock.process import counts
from oversight.engine.runs.stores import open_store
from tests.calls import FULL as CALL
from tests.command_line import Ran, within
from tests.desk import CONCURRENCY, MODELS, ROOT, Desk
from tests.waiting import end, until

pytest.importorskip("psycopg", reason="psycopg is not installed")

from oversight.cache import postgres as postgres_store
from oversight.cache.database import MAX_OUTAGE_SECONDS
from oversight.cache.postgres import PostgresStore

pytestmark = pytest.mark.wire

SLOW = {"latency": 0.15, "spread": 0.5}


@pytest.fixture
def url(postgres) -> str:
    return postgres.database()


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path, problems=4)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> bytes:
    """The outcomes over a store of its own, in SQLite."""
    desk = Desk(tmp_path_factory.mktemp("undisturbed"), problems=4)
    with desk.server({}):
        done = desk.sit()
    assert done.returncode == 0, done.stderr
    return written(desk)


def written(desk: Desk, run: str = "run") -> bytes:
    return (desk.folder / run / "outcomes.jsonl").read_bytes()


def cache_over(store, inner, mode="use") -> Cache:
    return Cache(store, inner, identity=lambda call: "vendor", mode=mode)


async def test_a_call_that_failed_elsewhere_is_asked_by_whoever_waited(url):
    async def failing(call):
        await asyncio.sleep(0.2)
        raise ValueError("down")

    async def inner(call):
        return Reply("here")

    with closing(PostgresStore(url)) as one, closing(PostgresStore(url)) as other:
        first, second = cache_over(one, failing), cache_over(other, inner)
        lost = asyncio.create_task(first(CALL))
        await asyncio.sleep(0.1)
        reply = await second(CALL)
        assert reply.text == "here"
        with pytest.raises(ValueError, match="down"):
            await lost
        await first.close()
        await second.close()


async def test_a_lease_ends_with_its_process_or_a_while_after_it_vanished(url, monkeypatch):
    monkeypatch.setattr(postgres_store, "LEASE_SECONDS", 0.6)
    gone = PostgresStore(url)
    assert gone.acquire(["a", "b"]).leased == {"a", "b"}
    with closing(PostgresStore(url)) as store:
        found = store.acquire(["a", "c"])
        assert found.leased == {"c"}
        assert found.holders == {"a": f"process {os.getpid()} of {socket.gethostname()}"}
        gone.free(["b"])
        assert store.acquire(["b"]).leased == {"b"}
        await asyncio.sleep(1.0)
        assert not store.acquire(["a"]).leased, "a process that lives keeps what it pays for"
        # As a machine that loses its power, or a process that is suspended.
        gone._ended.set()
        until(lambda: store.acquire(["a"]).leased == {"a"})
        assert not store.lost
    gone.close()


async def test_whoever_loses_a_lease_knows_it(url, monkeypatch):
    import psycopg

    monkeypatch.setattr(postgres_store, "LEASE_SECONDS", 0.3)
    with closing(PostgresStore(url)) as store, psycopg.connect(url, autocommit=True) as db:
        assert store.acquire(["a", "b"]).leased == {"a", "b"}
        db.execute("UPDATE reservations SET owner = 'x another run' WHERE key LIKE '%a'")
        until(lambda: store.lost == 1)
        # A store that was emptied has lost no call to anybody: the lease is made again.
        db.execute("DELETE FROM reservations WHERE key LIKE '%b'")
        await asyncio.sleep(0.4)
        assert store.lost == 1


async def test_sessions_that_the_server_ends_when_idle_lose_nothing(url):
    """A lease is a row, not a session."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        name = db.info.dbname
        db.execute(f"ALTER DATABASE {name} SET idle_session_timeout = '300ms'")
    asked = []

    async def inner(call):
        asked.append(call)
        await asyncio.sleep(1.0)
        return Reply("yes")

    with closing(PostgresStore(url)) as one, closing(PostgresStore(url)) as other:
        first, second = cache_over(one, inner), cache_over(other, inner)
        paying = asyncio.create_task(first(CALL))
        await asyncio.sleep(0.6)
        assert (await asyncio.gather(paying, second(CALL)))[1].text == "yes"
        await first.close()
        await second.close()
    assert len(asked) == 1


async def test_one_damaged_reply_is_told_to_its_caller_and_not_to_the_others(url):
    import psycopg

    async def inner(call):
        return Reply(str(call.draw))

    with closing(PostgresStore(url)) as store:
        cache = cache_over(store, inner)
        for n in range(3):
            await cache(CALL.drawn(n))
        await cache.close()
        with psycopg.connect(url, autocommit=True) as db:
            ((key,),) = db.execute("SELECT min(key) FROM replies").fetchall()
            db.execute("UPDATE replies SET value = value || 'x' WHERE key = %s", (key,))
        again = cache_over(store, inner)
        met = await asyncio.gather(
            *(again(CALL.drawn(n)) for n in range(3)), return_exceptions=True
        )
        assert sum(isinstance(each, StoreError) for each in met) == 1
        assert sum(isinstance(each, Reply) for each in met) == 2
        await again.close()


def test_a_database_that_restarts_is_waited_for(postgres, url):
    with closing(PostgresStore(url)) as store:
        store.put_many([("a", b"1")])
        postgres.stop()
        starting = subprocess.Popen([sys.executable, "-c", START, str(ROOT), str(postgres.folder)])
        assert store.get("a") == b"1"
        assert store.keep_many([("a", b"2"), ("b", b"3")]) == {"a": b"1"}
        assert starting.wait() == 0


START = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.databases import Server
server = Server.__new__(Server)
server.folder, server._durable = Path(sys.argv[2]), False
server.settings, server._within = "", []
server.start()
"""


@pytest.mark.parametrize(
    "given",
    ["postgresql://me:secret@h/db", "postgresql://h/db?password=secret&user=me"],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(given):
    with pytest.raises(StoreError, match=r"~/\.pgpass, or into the variable PGPASSWORD") as told:
        open_store(given)
    assert "secret" not in str(told.value)


def test_a_server_that_is_not_there_is_told_at_once():
    began = time.monotonic()
    with pytest.raises(StoreError, match="cannot be reached"):
        PostgresStore("postgresql://me@/db?host=/nowhere")
    assert time.monotonic() - began < MAX_OUTAGE_SECONDS


def test_a_foreign_table_is_told_and_an_emptied_database_is_gone(url):
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        with closing(PostgresStore(url)) as store:
            store.check()
            db.execute("DROP TABLE store, replies")
            with pytest.raises(StoreGone, match="holds no store any more"):
                store.check()
        db.execute("CREATE TABLE store (name text)")
        with pytest.raises(StoreError, match="is another program's"):
            PostgresStore(url)


def test_two_runs_of_one_sweep_at_one_moment_pay_each_call_once(desk, url, undisturbed):
    with desk.server(SLOW) as server:
        runs = [
            desk.start("--store", url, "--run-folder", name, *more)
            for name, more in (("one", ()), ("two", ("--workers", "2")))
        ]
        for done in map(end, runs):
            assert done.returncode == 0, done.stderr
        seen = counts(server)
    assert seen["repeats"] == 0
    assert written(desk, "one") == written(desk, "two") == undisturbed
    with closing(open_store(url)) as store:
        assert len(store) == seen["requests"]


def test_after_a_kill_the_other_run_goes_on_at_once_and_pays_what_was_in_flight_again(desk, url):
    with desk.server(SLOW) as server:
        desk.environment["OVERSIGHT_LEASE_SECONDS"] = "6"
        killed = desk.start("--store", url, "--run-folder", "killed")
        other = desk.start("--store", url)
        while counts(server).get("ok", 0) < 20:
            assert killed.poll() is None
        killed.kill()
        killed.communicate()
        done = end(other)
        seen = counts(server)
        assert done.returncode == 0, done.stderr
        # A reply gives its slot back before it is stored: what was in flight, and as many again
        # whose replies were on their way into the database.
        assert seen["repeats"] <= 2 * CONCURRENCY * len(MODELS)
        # What is paid again is answered anew: what the store has stands for all.
        again = desk.sit("--store", url, "--run-folder", "again", "--cache", "replay")
    assert again.returncode == 0, again.stderr
    assert written(desk) == written(desk, "again")


def test_a_run_outlives_a_restart_of_its_database_and_fails_no_cell(
    desk, url, undisturbed, postgres
):
    with desk.server(SLOW) as server:
        process = desk.start("--store", url, "--workers", "2")
        while counts(server).get("ok", 0) < 20:
            assert process.poll() is None
        postgres.stop()
        postgres.start()
        done = end(process)
    assert done.returncode == 0, done.stderr
    assert written(desk) == undisturbed


def test_the_run_folder_names_the_database_and_show_replay_and_resume_find_it(desk, url):
    with desk.server({"latency": 0.05}) as server:
        process = desk.start("--store", url)
        desk.until(20)
        process.send_signal(signal.SIGINT)
        assert end(process).returncode == 130
        desk.environment["OVERSIGHT_STORE"] = url
        where = ["--run-folder", "run", "--limit", "4"]
        again = oversight(desk, "run", "sweep.yaml", *where)
        assert again.code == 0, again.err
        asked = counts(server)["requests"]
        elsewhere = [*where, "--store", "elsewhere", "--retry-failed"]
        wrong = oversight(desk, "run", "sweep.yaml", *elsewhere)
        assert wrong.code == 0, "a complete run asks nothing of any store"
    for words in (("replay", "run"), ("show", "run", "0")):
        done = oversight(desk, *words)
        assert done.code in (0, 2), done.err
        assert "no store" not in done.err
    assert asked == counts_of(url)
    assert url in (desk.run / "manifest.json").read_text()


def oversight(desk: Desk, *words: str) -> Ran:
    return within(*words, cwd=desk.folder, **desk.environment)


def counts_of(url: str) -> int:
    with closing(open_store(url)) as store:
        return len(store)


def test_a_store_on_disk_is_brought_into_it(desk, url, tmp_path: Path):
    with desk.server({}):
        assert desk.sit().returncode == 0
        done = oversight(desk, "cache", "import", "store", "--store", url)
        assert done.code == 0, done.err
        again = desk.sit("--store", url, "--run-folder", "again")
        assert again.returncode == 0, again.stderr
    assert "new" not in again.stderr
    assert written(desk, "again") == written(desk)


def test_it_is_looked_into_checked_and_pruned_by_the_same_commands_as_a_folder(desk, url):
    def cache(*words: str) -> str:
        done = oversight(desk, "cache", *words, "--store", url)
        assert done.code == 0, done.err
        return done.out

    with desk.server({}):
        assert desk.sit("--store", url).returncode == 0
    held = counts_of(url)
    assert json.loads(cache("stats", "--json"))["total"]["replies"] == held
    assert len(cache("list", "--json", "--limit", "0").splitlines()) == held
    checked = json.loads(cache("verify", "--json"))
    assert (checked["sound"], checked["damaged"], checked["faults"]) == (held, [], [])
    cache("export", "--all", "-o", "replies.bundle")
    assert f"{held:,} of {held:,} replies removed" in cache("prune", "--older-than", "0d", "--yes")
    assert counts_of(url) == 0
    cache("import", "replies.bundle")
    assert counts_of(url) == held
