"""Replies asked for in about the order in which they were stored are read a block at a time; what
each read gives is what it would give alone."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from time import sleep

import pytest

from oversight.cache.checksum import add_checksum
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.errors import DamagedEntry
from oversight.cache.read_ahead import BLOCK_ROWS, KEPT_SECONDS, MAX_BLOCKS
from oversight.cache.rows import STORE_FILE
from tests.stores import filled

NAMES = [f"reply {n}" for n in range(1000)]


def value(name: str) -> bytes:
    return name.encode() * 20


@pytest.fixture
def folder(tmp_path):
    filled(tmp_path / "store", {name: value(name) for name in NAMES})
    return tmp_path / "store"


def statements(store: DiskStore, names: list[str]) -> int:
    """How many statements SQLite runs for these reads, all of which must be right."""
    ran: list[str] = []
    store._db.set_trace_callback(ran.append)
    assert [store.get(name) for name in names] == [value(name) for name in names]
    store._db.set_trace_callback(None)
    return len(ran)


def test_streams_side_by_side_are_read_by_the_block(folder):
    """As cells under way ask: each of five goes on at a place of its own, one of them backwards."""
    streams = [NAMES[start : start + 100] for start in (0, 100, 200, 300)]
    asked = [name for each in zip(*streams, NAMES[499:399:-1], strict=True) for name in each]
    with closing(DiskStore(folder)) as store:
        assert statements(store, asked) < 40


def test_a_value_that_is_replaced_or_deleted_is_not_served_from_memory(folder):
    with closing(DiskStore(folder)) as store:
        statements(store, NAMES[:10])
        store.put_many([(NAMES[10], b"new")])
        assert store.get(NAMES[10]) == b"new"
        statements(store, NAMES[11:20])
        assert store.delete_many([NAMES[20]]) == 1
        assert store.get(NAMES[20]) is None


@pytest.mark.parametrize("kind", [DiskStore, ReadOnlyStore])
def test_what_another_process_replaces_or_deletes_is_served_for_a_moment_at_most(folder, kind):
    with closing(DiskStore(folder)) as other, closing(kind(folder)) as store:
        assert [store.get(name) for name in NAMES[:5]] == [value(name) for name in NAMES[:5]]
        other.put_many([(NAMES[5], b"new")])
        other.delete_many([NAMES[6]])
        sleep(KEPT_SECONDS)
        assert (store.get(NAMES[5]), store.get(NAMES[6])) == (b"new", None)


def test_where_the_order_is_another_one_hardly_any_block_is_read(folder):
    """Streams so many that each block is gone before its next row is asked for."""
    filled(folder, {f"more {n}": b"x" for n in range(8000)})
    scattered = [
        f"more {n * 389 % 1000 + start}" for start in range(0, 7000, 50) for n in range(20)
    ]
    ran: list[str] = []
    with closing(DiskStore(folder)) as store:
        store._db.set_trace_callback(ran.append)
        assert all(store.get(name) == b"x" for name in scattered)
    assert len(ran) < 1.1 * len(scattered)


def test_threads_that_read_side_by_side_get_what_each_would_alone(folder):
    filled(folder, {f"more {n}": value(f"more {n}") for n in range(4000)})

    def read(start: int) -> bool:
        names = [f"more {n}" for n in range(start, 4000, 3)]
        return [store.get(name) for name in names] == [value(name) for name in names]

    with closing(DiskStore(folder)) as store, ThreadPoolExecutor(3) as pool:
        assert all(pool.map(read, range(3)))


def test_a_planted_key_that_is_no_text_is_never_read(folder):
    with sqlite3.connect(folder / STORE_FILE) as db:
        planted = add_checksum(NAMES[7], b"planted")
        db.execute(
            "INSERT INTO Cache(key, raw, mode, value) VALUES (?, 1, 1, ?)",
            (NAMES[7].encode(), planted),
        )
    db.close()
    with closing(DiskStore(folder)) as store:
        statements(store, NAMES[-10:])
        assert store.get(NAMES[7]) == value(NAMES[7])


def test_what_is_added_meanwhile_is_found(folder):
    with closing(DiskStore(folder)) as store:
        statements(store, NAMES[-10:])
        store.keep_many([("later", b"value"), (NAMES[5], b"another")])
        assert store.get("later") == b"value"
        assert store.get(NAMES[5]) == value(NAMES[5])


def test_a_damaged_neighbour_is_damage_only_to_itself(folder):
    with sqlite3.connect(folder / STORE_FILE) as db:
        moved = add_checksum(NAMES[3], value(NAMES[3]))
        db.execute("UPDATE Cache SET value = ? WHERE key = ?", (moved, NAMES[7]))
    db.close()
    with closing(DiskStore(folder)) as store:
        statements(store, NAMES[:7] + NAMES[8:20])
        with pytest.raises(DamagedEntry):
            store.get(NAMES[7])


def test_large_values_are_read_only_when_they_are_asked_for(folder):
    large = {f"large {n}": b"x" * (1 << 20) for n in range(5)}
    filled(folder, large)
    with closing(DiskStore(folder)) as store:
        statements(store, NAMES[-20:])
        assert store.get("large 0") == large["large 0"]
        assert sum(len(row[2]) for row in store._ahead._rows.values()) < 1 << 20


def test_memory_stays_bounded_however_much_is_read(folder):
    filled(folder, {f"more {n}": b"x" for n in range(5000)})
    with closing(DiskStore(folder)) as store:
        for n in range(0, 5000, 10):
            store.get(f"more {n}")
        assert len(store._ahead._rows) <= BLOCK_ROWS * MAX_BLOCKS
