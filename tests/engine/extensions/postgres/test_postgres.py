"""Replies in a real PostgreSQL: killed, restarted, full, shared by runs, and told no password."""

import os
import pwd
from collections.abc import Iterator
from contextlib import closing

import pytest

from oversight.cache.errors import DamagedEntry, StoreError
from oversight.engine.extensions.mock.process import counts
from oversight.engine.run.settings import open_for_reading, open_store
from tests.databases import SYSTEM_USER, Server, lacking, serving
from tests.desk import Desk
from tests.disks import MOUNTS, disk
from tests.run_folders import everything
from tests.waiting import end, until

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
pytestmark = pytest.mark.real

SLOW = {"latency": 0.2, "spread": 0.5}


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


@pytest.fixture
def private_server() -> Iterator[Server]:
    """A server that writes to its disk, and that a test may stop."""
    if why := lacking():
        pytest.skip(why)
    with serving(durable=True) as server:
        yield server


def outcomes(desk: Desk, run: str = "run") -> bytes:
    return (desk.folder / run / "outcomes.jsonl").read_bytes()


def replies(url: str) -> int:
    with closing(open_store(url)) as store:
        return len(store)


def test_server_killed_and_restarted_in_a_run_loses_nothing_acknowledged(tmp_path, private_server):
    url, desk = private_server.database(), Desk(tmp_path, problems=3)
    with desk.server(SLOW) as server:
        process = desk.start("--store", url)
        until(lambda: counts(server).get("ok", 0) >= 30, process)
        private_server.stop("immediate")
        private_server.start()
        result = end(process)
        assert result.returncode == 0, result.stderr
        assert replies(url) == counts(server)["ok"], "a reply was lost, or paid twice"
        again = desk.sit_here("--store", url, "--run-folder", "again", "--cache", "replay")
    assert again.code == 0, again.err
    assert outcomes(desk) == outcomes(desk, "again") and b'"failure"' not in outcomes(desk)


def test_an_absent_server_stops_the_run_and_it_can_go_on(tmp_path, private_server, monkeypatch):
    monkeypatch.setattr("oversight.engine.extensions.postgres.store.OUTAGE", 0.5)
    url, desk = private_server.database(), Desk(tmp_path, problems=1)
    with closing(open_store(url)) as store:
        store.put_many([("a", b"1")])
        private_server.stop("fast")
        with pytest.raises(StoreError, match="cannot be reached"):
            store.keep_many([("b", b"2")])
        private_server.start()
        assert store.keep_many([("a", b"other"), ("b", b"2")]) == {"a": b"1"}
    with desk.server({}):
        private_server.stop("fast")
        refused = desk.sit_here("--store", url)
        assert refused.code == 2 and "cannot be reached" in refused.err
        private_server.start()
        assert desk.sit_here("--store", url).code == 0


@pytest.mark.skipif(not MOUNTS, reason="no file system can be mounted here")
def test_full_disk_of_the_server_stops_the_run_which_goes_on_with_room(tmp_path, private_server):
    url, user = private_server.database(), pwd.getpwnam(SYSTEM_USER)
    desk = Desk(tmp_path, problems=2)
    with disk(private_server.folder / "small") as small:
        place = small.folder / "space"
        place.mkdir()
        for path in (small.folder, place):
            os.chown(path, user.pw_uid, user.pw_gid)
        with closing(open_store(url)) as store:
            store.put_many([("a", b"1")])
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
            db.execute("ALTER TABLE replies SET TABLESPACE small")
            small.leave(0)
        with desk.server({}) as server:
            stopped = desk.sit_here("--store", url)
            assert stopped.code == 3 and "No space left" in stopped.err, stopped.err
            small.make_room()
            answered, stored = counts(server)["ok"], replies(url)
            result = desk.sit_here("--store", url)
            assert result.code == 0, result.err
            assert replies(url) - stored == counts(server)["ok"] - answered
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("ALTER TABLE replies SET TABLESPACE pg_default")
            db.execute("DROP TABLESPACE small")


def test_two_runs_on_one_store_end_with_the_replies_that_were_stored_first(tmp_path, url):
    desk = Desk(tmp_path, problems=2)
    with desk.server(SLOW):
        one = desk.start("--store", url)
        two = desk.start("--store", url, "--run-folder", "two")
        first, second = end(one), end(two)
        assert first.returncode == second.returncode == 0, first.stderr + second.stderr
        again = desk.sit_here("--store", url, "--run-folder", "again", "--cache", "replay")
    assert again.code == 0, again.err
    assert outcomes(desk) == outcomes(desk, "two") == outcomes(desk, "again")


def test_a_password_is_in_no_file_and_no_message(tmp_path, postgres, url):
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE ROLE taster LOGIN PASSWORD 'pw-91d0c3b5'")
        db.execute("GRANT ALL ON SCHEMA public TO taster")
    theirs, desk = url.replace("oversight@", "taster@"), Desk(tmp_path, problems=1)
    with desk.server({}):
        desk.environment |= {"PGPASSWORD": "pw-91d0c3b5", "OVERSIGHT_STORE": theirs}
        first = desk.here("run", "sweep.yaml", "--limit", "1", "--run-folder", "run")
        secret = theirs.replace("taster@", "taster:pw-91d0c3b5@")
        refused = desk.here("run", "sweep.yaml", "--run-folder", "other", "--store", secret)
    assert first.code == 0, first.err
    assert refused.code == 2 and "PGPASSWORD" in refused.err
    assert not (tmp_path / "other").exists()
    output = "".join((first.out, first.err, refused.out, refused.err)).encode()
    assert not any(b"pw-91d0c3b5" in text for text in (output, *everything(tmp_path).values()))
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("DROP OWNED BY taster CASCADE")
        db.execute("DROP ROLE taster")


@pytest.mark.parametrize("lacking", ["INSERT", "UPDATE", "DELETE"])
def test_a_role_without_a_right_is_refused_before_a_call_is_paid_for(tmp_path, url, lacking):
    open_store(url).close()
    role = f"without_{lacking.lower()}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE ROLE {role} LOGIN")
        db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
        db.execute(f"REVOKE {lacking} ON replies FROM {role}")
    desk = Desk(tmp_path, problems=1)
    with desk.server({}) as server:
        ran = desk.sit_here("--store", url.replace("oversight@", f"{role}@"))
        assert counts(server).get("requests", 0) == 0
    assert ran.code == 2 and f"{role} may not {lacking}" in ran.err and "GRANT" in ran.err
    assert replies(url) == 0


def test_a_damaged_reply_is_reported_and_another_database_is_refused(url, postgres):
    with closing(open_store(url)) as store:
        store.put_many([("a", b"1"), ("b", b"2")])
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("UPDATE replies SET value = value || 'x' WHERE key = 'a'")
        values = store.get_many(["a", "b", "c"])
        assert isinstance(values["a"], DamagedEntry) and values["b"] == b"2" and len(values) == 2
        assert store.delete_many(["a", "c"]) == 1
    with pytest.raises(StoreError, match="holds no store"):
        open_for_reading(postgres.database())
    with pytest.raises(StoreError, match="cannot be reached"):
        open_store("postgresql://127.0.0.1:9/x")
