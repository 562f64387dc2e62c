"""A store that is only read: nothing is written, and what others write is seen."""

from contextlib import closing

import pytest

from oversight.cache.cache import Cache
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.errors import StoreError
from oversight.cache.rows import STORE_FILE
from oversight.cache.store import Store
from tests.fakes import Scripted
from tests.stores import filled


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


def test_a_read_only_store_refuses_to_write(folder):
    filled(folder, {"a": b"1"})
    with closing(ReadOnlyStore(folder)) as store:
        assert not isinstance(store, Store)
        with pytest.raises(TypeError, match=r"ReadOnlyStore .*only reads"):
            Cache(store, Scripted(lambda call: ""), identity=lambda call: "here")


def test_a_read_only_store_leaves_no_file_behind(folder):
    filled(folder, {"a": b"1"})
    with closing(ReadOnlyStore(folder)) as store:
        assert store.get("a") == b"1" and len(store) == 1
        assert [file.name for file in folder.iterdir()] == [STORE_FILE]
    assert [file.name for file in folder.iterdir()] == [STORE_FILE]


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


def test_a_read_only_store_whose_file_is_gone_says_so(folder):
    filled(folder, {"a": b"1"})
    with closing(ReadOnlyStore(folder)) as reading:
        (folder / STORE_FILE).unlink()
        with pytest.raises(StoreError, match="is gone"):
            reading.get("b")


def test_a_closed_read_only_store_stays_closed(folder):
    filled(folder, {"a": b"1"})
    reading = ReadOnlyStore(folder)
    reading.close()
    filled(folder, {"b": b"2"})
    with pytest.raises(StoreError, match="closed"):
        reading.get("a")
