"""What can be read of a store whose first page is damaged."""

import random
from pathlib import Path

import pytest

from oversight.cache.errors import StoreError
from oversight.cache.recover import recoverable
from oversight.cache.rows import STORE_FILE
from tests.stores import filled

REPLIES = {f"{n:02}": random.Random(n).randbytes(400) for n in range(60)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    filled(tmp_path / "store", REPLIES)
    return tmp_path / "store"


def overwritten(folder: Path, at: int, new: bytes) -> bytes:
    file = folder / STORE_FILE
    data = bytearray(file.read_bytes())
    data[at : at + len(new)] = new
    file.write_bytes(data)
    return bytes(data)


def saved(folder: Path) -> dict[str, bytes]:
    with recoverable(folder) as store:
        return {key: value for key, value in store.recover() if isinstance(value, bytes)}


@pytest.mark.parametrize(
    ("at", "new"),
    [(0, b"no file of SQLite's"), (16, b"\0\1"), (0, bytes(4096)), (100, bytes(3996))],
    ids=["its name", "its page size", "all of the page", "its schema"],
)
def test_a_store_without_its_first_page_is_saved_whole(folder: Path, at: int, new: bytes) -> None:
    damaged = overwritten(folder, at, new)
    assert saved(folder) == REPLIES
    assert (folder / STORE_FILE).read_bytes() == damaged
    assert [file.name for file in folder.iterdir()] == [STORE_FILE]


def test_no_name_of_a_table_costs_the_replies(folder: Path) -> None:
    page = (folder / STORE_FILE).read_bytes()[:4096]
    for at in range(len(page)):
        if page[at : at + 5].lower() == b"cache":
            overwritten(folder, at, b"c\xffche")
    assert saved(folder) == REPLIES


def test_a_sound_store_is_read_where_it_lies(folder: Path) -> None:
    with recoverable(folder) as store:
        assert store.file == folder / STORE_FILE
    filled(folder.parent / "empty", {})
    assert saved(folder.parent / "empty") == {}


@pytest.mark.parametrize("content", [b"", b"no database at all" * 1000, bytes(8192)])
def test_a_file_of_which_nothing_can_be_read_is_an_error(folder: Path, content: bytes) -> None:
    (folder / STORE_FILE).write_bytes(content)
    with pytest.raises(StoreError, match=STORE_FILE):
        saved(folder)
    with pytest.raises(StoreError, match="holds no store"):
        saved(folder.parent)
