"""The store on disk: its settings are kept, and nothing that was planted is run or believed."""

import os
import pickle
import re
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import diskcache
import pytest

from oversight.cache import sqlite
from oversight.cache.cache import Cache
from oversight.cache.call import Call, Message, store_key
from oversight.cache.disk import SETTINGS, DiskStore, ReadOnlyStore, recoverable
from oversight.cache.entry import add_checksum, checked_entries, new_entry, read_entries, read_entry
from oversight.cache.errors import DamagedEntry, PassageLost, StoreError, StoreGone
from oversight.cache.portable import merge
from oversight.cache.sqlite import STORE_FILE
from tests.cache.asking import FULL, REPLY, answers, home
from tests.world import filled


def sql(folder: Path, statement: str, *values: object) -> list[tuple]:
    with closing(sqlite3.connect(folder / STORE_FILE)) as db, db:
        return db.execute(statement, values).fetchall()


def plant(folder: Path, key: object, value: object, mode: int = 1, raw: int = 1, filename=None):
    insert = "INSERT OR REPLACE INTO Cache(key, raw, mode, filename, value) VALUES (?, ?, ?, ?, ?)"
    sql(folder, insert, key, raw, mode, filename, value)


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return (open, (str(self.file), "w"))


def test_the_settings_that_keep_a_reply_are_on(folder):
    filled(folder, {})
    for key, value in (("sqlite_synchronous", 0), ("cull_limit", 10), ("size_limit", 1)):
        sql(folder, "UPDATE Settings SET value = ? WHERE key = ?", value, key)
    with closing(DiskStore(folder)) as store:
        # FULL: every commit is synced.
        assert store._writing.execute("PRAGMA synchronous").fetchone() == (2,)
    expected = {"eviction_policy": "none", "sqlite_synchronous": 2}
    settings = dict(sql(folder, "SELECT key, value FROM Settings"))
    assert expected.items() <= SETTINGS.items() <= settings.items()


def test_a_store_has_an_id_that_it_keeps_wherever_it_is_moved(folder, tmp_path):
    with closing(DiskStore(folder)) as store, closing(DiskStore(folder)) as beside:
        store_id = store.id
        assert re.fullmatch("[0-9a-f]{32}", store_id) and beside.id == store_id
    moved = folder.rename(tmp_path / "moved")
    for opened in (DiskStore, ReadOnlyStore):
        with closing(opened(moved)) as store:
            assert store.id == store_id
    with closing(DiskStore(folder)) as other:
        assert other.id != store_id


def test_a_store_without_an_id_opens_as_before_and_gets_one_when_it_is_written(folder):
    filled(folder, {"a": b"1"})
    sql(folder, "DELETE FROM Settings WHERE key = 'store_id'")
    with closing(ReadOnlyStore(folder)) as store:
        assert (store.id, store.get("a")) == ("", b"1")
    with closing(DiskStore(folder)) as store:
        assert len(store.id) == 32 and store.get("a") == b"1"


@pytest.mark.parametrize("table", ["bookmarks", "moz_places"])
def test_nothing_is_added_to_the_file_of_another_program(folder, table):
    folder.mkdir()
    sql(folder, f"CREATE TABLE {table} (url TEXT)")
    before = (folder / STORE_FILE).read_bytes()
    with pytest.raises(StoreError, match=f"has a table '{table}'.*another program.*--store"):
        DiskStore(folder)
    assert (folder / STORE_FILE).read_bytes() == before


@pytest.mark.parametrize("replaced", [False, True])
def test_writes_to_a_deleted_store_are_not_acknowledged(folder, tmp_path, replaced):
    with closing(DiskStore(folder)) as store:
        store.put_many([("a", b"1")])
        store.check()
        folder.rename(tmp_path / "gone")
        if replaced:
            filled(folder, {"theirs": b"1"})
        for write in (store.put_many, store.keep_many):
            with pytest.raises(
                StoreGone, match=f"{folder / STORE_FILE} was deleted, moved or replaced"
            ):
                write([("b", b"2")])
        with pytest.raises(StoreGone):
            store.check()
    if replaced:
        with closing(ReadOnlyStore(folder)) as theirs:
            assert dict(theirs.items()) == {"theirs": b"1"}


def test_a_new_store_is_one_file_of_its_owners_however_large_a_value(folder):
    filled(folder, {"big": os.urandom(2**21)})
    assert [file.name for file in folder.iterdir()] == [STORE_FILE]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_planted_pickle_runs_nothing_and_is_damage(folder, tmp_path):
    filled(folder, {"good": b"1"})
    mark = tmp_path / "run"
    evil = pickle.dumps(Touch(mark))
    plant(folder, "row", evil, mode=4)
    plant(folder, pickle.dumps(Touch(mark)), evil, mode=4, raw=0)
    plant(folder, "file", None, mode=4, filename="evil.val")
    (folder / "evil.val").write_bytes(evil)
    for opened in (DiskStore, ReadOnlyStore):
        with closing(opened(folder)) as store:
            for key in ("row", "file"):
                with pytest.raises(DamagedEntry, match="mode 4"):
                    store.get(key)
            entries = dict(store.items())
            assert entries.pop("good") == b"1" and len(entries) == 2
            assert all(isinstance(value, DamagedEntry) for value in entries.values())
            assert any("not written by this program" in fault for fault in store.faults())
    with closing(DiskStore(folder)) as writing:
        writing.put_many([("row", b"2")])
        assert writing.get("row") == b"2"
    assert not mark.exists()


def test_a_planted_row_cannot_have_a_file_removed(folder, tmp_path):
    filled(folder, {})
    precious = tmp_path / "precious"
    precious.write_text("keep")
    for key in ("replaced", "deleted"):
        plant(folder, key, b"", filename=str(precious))
    with closing(DiskStore(folder)) as store:
        store.put_many([("replaced", b"1")])
        assert store.delete_many(["deleted"]) == 1
    assert precious.read_text() == "keep"


def test_planted_triggers_do_not_run_and_diskcache_triggers_are_dropped(folder):
    filled(folder, {"a": b"1"})
    for statement in ("INSERT", "DELETE"):
        trigger = f'"on ""{statement}" AFTER {statement} ON Cache BEGIN DELETE FROM Cache; END'
        sql(folder, f"CREATE TRIGGER {trigger}")
    filled(folder, {"b": b"2"})
    with closing(ReadOnlyStore(folder)) as store:
        assert dict(store.items()) == {"a": b"1", "b": b"2"}
    assert not sql(folder, "SELECT name FROM sqlite_schema WHERE type = 'trigger'")


def test_diskcache_opens_a_store_and_finds_its_bytes(folder):
    filled(folder, {"a": b"1", "b": b"2"})
    with diskcache.Cache(str(folder)) as cache:
        assert sorted(cache) == ["a", "b"] and cache["a"] == add_checksum("a", b"1")
    filled(folder, {"c": b"3"})
    with closing(ReadOnlyStore(folder)) as store:
        assert dict(store.items()) == {"a": b"1", "b": b"2", "c": b"3"}
    assert not sql(folder, "SELECT name FROM sqlite_schema WHERE type = 'trigger'")


@pytest.mark.parametrize("statements", [0, 1, 2])
def test_a_store_whose_making_was_cut_off_is_made_whole(folder, statements):
    with diskcache.Cache(str(folder), eviction_policy="none"):
        pass
    for statement in ("DROP TABLE Cache", "DROP TABLE Settings")[statements:]:
        sql(folder, statement)
    filled(folder, {"a": b"1"})
    with closing(ReadOnlyStore(folder)) as store:
        assert dict(store.items()) == {"a": b"1"}


def test_a_store_whose_first_transaction_was_cut_off_is_made_again(folder, tmp_path):
    making = tmp_path / "making"
    for place in (making, folder):
        place.mkdir()
    with closing(sqlite3.connect(making / STORE_FILE, isolation_level=None)) as db:
        db.executescript("PRAGMA cache_size = 1; BEGIN; CREATE TABLE Other (value)")
        db.executemany("INSERT INTO Other VALUES (?)", [("x" * 4000,)] * 60)
        for name in (STORE_FILE, f"{STORE_FILE}-journal"):
            shutil.copy(making / name, folder / name)
    with pytest.raises(StoreError, match=r"creation was interrupted.*oversight run"):
        ReadOnlyStore(folder)
    filled(folder, {"a": b"1"})
    with closing(ReadOnlyStore(folder)) as store:
        assert dict(store.items()) == {"a": b"1"}


@pytest.mark.parametrize("value", [None, 5, 1.5, "text", b"", b"short", b"x" * 100])
def test_a_value_that_was_not_sealed_is_damage(folder, value):
    filled(folder, {})
    plant(folder, "a", value)
    with closing(DiskStore(folder)) as store:
        with pytest.raises(DamagedEntry):
            store.get("a")
        ((key, damage),) = store.items()
        assert key == "a" and isinstance(damage, DamagedEntry)


def test_a_value_moved_to_another_key_is_damage(folder):
    filled(folder, {"a": b"1", "b": b"2"})
    sql(folder, "UPDATE Cache SET key = 'c' WHERE key = 'a'")
    with closing(ReadOnlyStore(folder)) as store:
        with pytest.raises(DamagedEntry):
            store.get("c")
        assert store.get("b") == b"2"


def beginning(call: Call) -> str:
    return call.messages[0].text.removesuffix("Rules.")


def about(passage: str, n: int = 1) -> Call:
    return FULL.changed(messages=(Message("system", f"{passage} " * 999 + "Rules."),), max_tokens=n)


async def test_a_passage_that_many_calls_carry_is_kept_once(folder):
    first, second = about("A long story."), about("A long story.", 2)
    other = about("Another story.")

    def kept() -> list[tuple]:
        return sql(folder, "SELECT length(value) FROM Cache WHERE raw = 0")

    with closing(DiskStore(folder)) as store:
        async with Cache(store, answers(), identity=home, shared=beginning) as cache:
            for call in (first, second, other):
                await cache(call)
        assert len(kept()) == 2 and len(store) == 3 and list(store.faults()) == []
        checked = dict(checked_entries(store.items()))
        assert {record.call() for record in checked.values()} == {first, second, other}
        assert dict(store.recover()) == dict(store.items())
        # As another process finds them.
        assert store.keep_many([(key, store.get(key)) for key in checked]) == {}
        plain = [(key, record.plain().to_bytes()) for key, record in checked.items()]
        for place, entries in (("copy", store.items()), ("plain", plain)):
            with closing(DiskStore(folder / place)) as into:
                merge(read_entries(entries), into, foreign=True, shared=beginning)
                assert {r.call() for _, r in read_entries(into.items())} == {first, second, other}
            assert len(sql(folder / place, "SELECT 1 FROM Cache WHERE raw = 0")) == 2
        by_call = {record.call(): key for key, record in checked.items()}
        store.delete_many([by_call[first]])
        store.drop_unused()
        assert len(kept()) == 2
        store.delete_many([by_call[second]])
        store.drop_unused()
        assert len(kept()) == 1


def keep(folder: Path, *new_calls: Call, at: int = 7) -> dict[str, bytes]:
    """Add replies to these calls to a store; the entries."""
    entries = {}
    for call in new_calls:
        new = new_entry(store_key(call.address, "here/v1"), call, REPLY, "here/v1", at)
        entries[new.key] = new.packed(beginning(call)).to_bytes()
    filled(folder, entries)
    return entries


@pytest.mark.parametrize(
    "loss",
    ["UPDATE Cache SET value = zeroblob(99)", "UPDATE Cache SET mode = 4", "DELETE FROM Cache"],
)
def test_without_its_passage_a_reply_is_whole_and_a_backup_brings_it_back(folder, loss):
    stories = about("A story."), about("A story.", 2)
    entries = keep(folder, *stories)
    keep(folder / "backup", *stories, at=8)
    sql(folder, f"{loss} WHERE raw = 0")
    with closing(ReadOnlyStore(folder)) as reading:
        for key, record in read_entries(reading.items()):
            assert record.reply() == read_entry(key, entries[key]).reply()
        assert {type(damage) for _, damage in checked_entries(reading.items())} == {PassageLost}
        with (
            closing(DiskStore(folder)) as store,
            closing(ReadOnlyStore(folder / "backup")) as backup,
        ):
            # A store that is recovered without the passage has the replies, and not its address.
            with closing(DiskStore(folder / "recovered")) as recovered:
                merged = merge(read_entries(store.recover()), recovered)
                assert merged.new == 2 and len(merged.damaged) == ("DELETE" not in loss)
                assert merge(read_entries(backup.items()), recovered, foreign=True).known == 2
                assert dict(recovered.items()) == entries
            assert merge(read_entries(store.items()), store, foreign=True).damaged
            assert merge(read_entries(backup.items()), store, foreign=True).known == 2
        assert dict(reading.items()) == entries
    assert len(sql(folder, "SELECT 1 FROM Cache WHERE raw = 0")) == 1


def test_recovery_keeps_apart_replies_and_passages_whatever_their_rows_say(folder):
    entries = keep(folder, *(about(f"Story {n}.") for n in range(70)))
    ((lost,),) = sql(folder, "SELECT min(key) FROM Cache WHERE raw = 0")
    sql(folder, "UPDATE Cache SET value = zeroblob(99) WHERE key = ?", lost)
    # One bit of a row's head is the difference between the two.
    sql(folder, "UPDATE Cache SET raw = 0 WHERE key = ?", min(entries))
    texts = "SELECT max(key) FROM Cache WHERE length(key) = 64"
    sql(folder, f"UPDATE Cache SET raw = 1 WHERE key = ({texts})")
    with closing(DiskStore(folder)) as store:
        store.drop_unused()
        assert len(list(store.faults())) == 1
        recovered = dict(store.recover())
    assert isinstance(recovered.pop(lost), DamagedEntry) and recovered.keys() == entries.keys()
    assert sum(recovered[key] != entries[key] for key in entries) == 1


def test_a_path_that_cannot_be_a_store_is_an_error_that_names_it(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StoreError, match="is a file, and a store is a folder"):
        DiskStore(file)
    with pytest.raises(StoreError, match="holds no store"):
        ReadOnlyStore(tmp_path)


def test_a_second_name_for_a_store_is_refused(tmp_path):
    filled(tmp_path / "one", {})
    (tmp_path / "two").mkdir()
    os.link(tmp_path / "one" / STORE_FILE, tmp_path / "two" / STORE_FILE)
    for name in ("one", "two"):
        with pytest.raises(StoreError, match="through a hard link"):
            DiskStore(tmp_path / name)


def test_a_row_planted_far_away_does_not_hold_up_a_salvage(folder):
    filled(folder, {"a": b"1"})
    statement = "INSERT INTO Cache(rowid, key, raw, mode, value) VALUES (?, 'z', 1, 1, ?)"
    sql(folder, statement, 2**62, b"")
    with closing(ReadOnlyStore(folder)) as store:
        entries = dict(store.recover())
    assert entries["a"] == b"1" and isinstance(entries["z"], DamagedEntry)


def test_keys_that_are_not_ascii_any_more_are_reported(folder):
    filled(folder, {"a": b"1", "b": b"2"})
    odd = "INSERT INTO Cache(key, raw, mode, value) VALUES (CAST(? AS TEXT), 1, 1, ?)"
    sql(folder, odd, b"\xe1\xff", add_checksum("a", b"1"))
    with closing(ReadOnlyStore(folder)) as store:
        entries = dict(store.items())
    assert isinstance(entries.pop("\\xe1\\xff"), DamagedEntry) and entries == {"a": b"1", "b": b"2"}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs a list of open files")
def test_failed_open_leaves_no_file_open(folder):
    filled(folder, {"k": b"v"})
    sql(folder, "DROP TABLE Cache")
    with pytest.raises(StoreError) as reading:
        ReadOnlyStore(folder)
    # Settings cannot be written into a view.
    sql(folder, "DROP TABLE Settings")
    sql(folder, "CREATE VIEW Settings AS SELECT 'disk_min_file_size' AS key, 1 AS value")
    with pytest.raises(StoreError) as writing:
        DiskStore(folder)
    assert str(folder) in str(reading.value) and str(folder) in str(writing.value)
    assert not [file for file in _open_files() if str(folder) in file]


def _open_files() -> list[str]:
    numbers = os.listdir("/proc/self/fd")
    links = [f"/proc/self/fd/{number}" for number in numbers]
    return [os.readlink(link) for link in links if os.path.lexists(link)]


def test_a_read_only_store_sees_what_a_writer_adds_later(folder):
    filled(folder, {"a": b"1"})
    reading = ReadOnlyStore(folder)
    assert reading.get("b") is None
    writing = DiskStore(folder)
    writing.put_many([("b", b"2")])
    assert reading.get("b") == b"2"
    writing.put_many([("c", b"3")])
    writing.close()
    assert reading.get("c") == b"3" and reading.get("a") == b"1"
    reading.close()


def test_a_read_only_store_that_is_closed_or_whose_file_is_gone_says_so(folder):
    filled(folder, {"a": b"1"})
    reading, closed = ReadOnlyStore(folder), ReadOnlyStore(folder)
    closed.close()
    filled(folder, {"b": b"2"})
    with pytest.raises(StoreError, match="closed"):
        closed.get("a")
    with closing(reading):
        (folder / STORE_FILE).unlink()
        with pytest.raises(StoreError, match="is gone"):
            reading.get("c")


def test_a_copy_that_a_writer_disturbed_is_made_again(tmp_path, monkeypatch) -> None:
    file = tmp_path / "some.db"
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE t(x)")
    heads = iter([b"1", b"2", b"2", b"2"])
    monkeypatch.setattr(sqlite, "_log_head", lambda log: next(heads))
    sqlite.log_of(file).write_bytes(b"")
    with closing(sqlite.open_copied(file)) as copy:
        assert copy.execute("SELECT name FROM sqlite_schema").fetchone() == ("t",)
    assert not list(heads)
    os.truncate(sqlite.log_of(file), 2**40)
    with pytest.raises(sqlite3.OperationalError, match="too many to copy"):
        sqlite.open_copied(file)
    os.truncate(sqlite.log_of(file), 0)
    endless = iter(range(99))
    monkeypatch.setattr(sqlite, "_log_head", lambda log: next(endless))
    with pytest.raises(sqlite3.OperationalError, match="it is being written"):
        sqlite.open_copied(file)


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
def test_a_store_with_a_file_that_is_a_link_is_refused_by_name(end, tmp_path) -> None:
    DiskStore(tmp_path).close()
    file, other = tmp_path / f"{STORE_FILE}{end}", tmp_path / "other"
    if not end:
        file.rename(other)
    file.symlink_to(other)
    for use in (DiskStore, ReadOnlyStore, lambda at: recoverable(at).__enter__()):
        with pytest.raises(StoreError, match=f"{STORE_FILE}{end} is not a regular file"):
            use(tmp_path)


def test_a_statement_that_goes_on_for_ever_is_ended_and_many_short_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "STEPS", 2 * sqlite.BETWEEN)
    with closing(sqlite.open_untrusted(tmp_path / "some.db", "mode=rwc")) as db:
        db.execute("CREATE TABLE numbers(n)")
        db.execute("BEGIN")
        db.executemany("INSERT INTO numbers VALUES(?)", ((n,) for n in range(50_000)))
        assert db.execute("SELECT count(*) FROM numbers").fetchone() == (50_000,)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            db.execute("SELECT count(*) FROM numbers, numbers AS n, numbers AS m").fetchone()


def test_a_new_store_is_made_where_it_is_named_or_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "other"))
    with pytest.raises(StoreError, match="the name of a variable"):
        DiskStore(tmp_path / "$ELSEWHERE")
    assert not (tmp_path / "other").exists()
    DiskStore(tmp_path / "$UNKNOWN").close()
