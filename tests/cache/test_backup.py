"""A backup is the store as it was at one moment, whoever writes meanwhile."""

import threading
from pathlib import Path

import pytest

from oversight.cache.backup import back_up
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.errors import StoreError


def entries(first: int, count: int) -> list[tuple[str, bytes]]:
    return [(f"key-{n:06}", bytes(str(n), "ascii") * 100) for n in range(first, first + count)]


def test_a_backup_is_whole_while_another_thread_writes(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "store")
    store.put_many(entries(0, 2000))
    going, stop = threading.Event(), threading.Event()

    def write() -> None:
        first = 2000
        while not stop.is_set():
            store.put_many(entries(first, 50))
            first += 50
            going.set()
        store.close_thread()

    writer = threading.Thread(target=write)
    writer.start()
    going.wait()
    count = back_up(tmp_path / "store", tmp_path / "copy")
    stop.set()
    writer.join()
    copy = ReadOnlyStore(tmp_path / "copy")
    assert len(copy) == count >= 2050
    # Commits are of fifty: all of one or nothing.
    assert count % 50 == 0
    assert dict(copy.items()) == dict(entries(0, count))
    assert copy.id == store.id
    copy.close()
    store.close()


def test_a_backup_replaces_no_store_and_needs_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no store"):
        back_up(tmp_path / "none", tmp_path / "copy")
    DiskStore(tmp_path / "store").close()
    back_up(tmp_path / "store", tmp_path / "copy")
    with pytest.raises(StoreError, match="holds a store already"):
        back_up(tmp_path / "store", tmp_path / "copy")
    assert [each.name for each in (tmp_path / "copy").iterdir()] == ["cache.db"]
