"""Acknowledged entries are found again; flipped, truncated or full files serve nothing wrong."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from oversight.cache.disk import DiskStore, ReadOnlyStore, recoverable
from oversight.cache.entry import checked_entries
from oversight.cache.errors import DamagedEntry, StoreError, StoreFull
from oversight.cache.sqlite import STORE_FILE
from tests.cache.asking import entry
from tests.command_line import ROOT
from tests.starting import Started
from tests.world import filled


def leave_pages(store: DiskStore, count: int) -> None:
    """Limit a store's file to this many pages on the open connection."""
    ((pages,),) = store._writing.execute("PRAGMA page_count").fetchall()
    store._writing.execute(f"PRAGMA max_page_count = {pages + count}")


def flip_a_bit(folder: Path, content: bytes, chance: random.Random) -> None:
    """Make the store in a folder one of these bytes with one bit flipped."""
    flipped = bytearray(content)
    flipped[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    folder.mkdir(exist_ok=True)
    (folder / STORE_FILE).write_bytes(flipped)


def test_a_malformed_file_says_so_and_what_can_be_saved(folder):
    entries = {f"{n:04}": os.urandom(1500) for n in range(400)}
    filled(folder, entries)
    file = folder / STORE_FILE
    content = bytearray(file.read_bytes())
    middle = len(content) // 4096 // 2 * 4096
    content[middle : middle + 8 * 4096] = random.Random(1).randbytes(8 * 4096)
    file.write_bytes(content)
    store = ReadOnlyStore(folder)
    assert any(store.faults())
    remedy = f"oversight cache verify --recover --store {folder}"
    with pytest.raises(StoreError, match=f"malformed.*{remedy}") as error:
        for key in entries:
            store.get(key)
    assert not isinstance(error.value, DamagedEntry)
    recovered = dict(store.recover())
    # Each row that can be reached by itself.
    assert len(recovered) == sum(len(store._at(n + 1)) for n in range(400)) < 400
    store.close()
    saved = {key: value for key, value in recovered.items() if isinstance(value, bytes)}
    assert len(saved) > 300 and saved.items() <= entries.items()


@pytest.mark.wire
def test_p3_no_flipped_byte_serves_a_wrong_value_or_goes_unreported(folder, tmp_path, campaign):
    truth = dict(entry(n) for n in range(60))
    filled(folder, truth)
    content, copy = (folder / STORE_FILE).read_bytes(), tmp_path / "copy"
    chance = random.Random(20)
    ends: Counter[str] = Counter()
    lost: Counter[int] = Counter()
    flips = campaign.size(150, 5000)
    for _ in range(flips):
        flip_a_bit(copy, content, chance)
        with recoverable(copy) as recovering:
            sound = {
                key: record.to_bytes()
                for key, record in checked_entries(recovering.recover())
                if not isinstance(record, DamagedEntry)
            }
        assert sound.items() <= truth.items()
        lost[len(truth) - len(sound)] += 1
        try:
            store = ReadOnlyStore(copy)
        except StoreError:
            ends["refused to open"] += 1
            continue
        reported = missing = 0
        for key, value in truth.items():
            try:
                served = store.get(key)
            except StoreError:
                reported += 1
            else:
                assert served in (value, None), "a wrong value was served"
                missing += served is None
        if reported or missing:
            damaged = any(isinstance(salvaged, DamagedEntry) for _, salvaged in store.recover())
            assert damaged or any(store.faults()), "damage went unreported"
        ends["told when read" if reported else "not found" if missing else "harmless"] += 1
        store.close()
    print(f"{flips} flips: {dict(ends)}; so many replies were lost to a recover: {dict(lost)}")
    assert len(ends) == 4, "the flips must have met every kind of page"
    # A damaged inner page takes its children with it; only few pages are inner ones.
    assert sum(count for missing, count in lost.items() if missing > 1) <= 0.02 * flips


def test_flipped_bytes_are_refused_or_survived_by_a_store_that_writes(folder, tmp_path):
    entries = {f"{n:03}": random.Random(n).randbytes(300) for n in range(20)}
    filled(folder, entries)
    content, chance = (folder / STORE_FILE).read_bytes(), random.Random(21)
    for trial in range(25):
        copy = tmp_path / f"copy{trial}"
        flip_a_bit(copy, content, chance)
        try:
            store = DiskStore(copy)
        except StoreError:
            continue
        try:
            store.put_many([("new", b"1")])
            assert store.get("new") == b"1"
        except StoreError:
            pass
        for key, value in entries.items():
            try:
                assert store.get(key) in (value, None)
            except StoreError:
                continue
        store.close()


def test_full_disk_loses_nothing_and_writing_resumes_with_room(folder):
    store = DiskStore(folder)
    store.put_many([(f"{n:03}", b"x" * 1000) for n in range(50)])
    leave_pages(store, 5)
    acknowledged = 50
    with pytest.raises(StoreFull, match="make room"):
        while True:
            store.put_many([(f"{acknowledged:03}", b"x" * 1000)])
            acknowledged += 1
    assert len(store) == acknowledged
    # The connection that was full is gone, and its limit with it: as if room had been made.
    store.put_many([("later", b"2")])
    assert store.get("later") == b"2" and not list(store.faults())
    assert dict(store.items())["000"] == b"x" * 1000
    store.close()


def test_a_transaction_that_fails_keeps_none_of_its_entries(folder):
    store = DiskStore(folder)
    store.put_many([("a", b"1")])
    leave_pages(store, 5)
    with pytest.raises(StoreFull):
        store.put_many([("a", b"2"), ("b", b"3"), *((f"{n}", b"x" * 1000) for n in range(100))])
    assert dict(store.items()) == {"a": b"1"}
    store.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from oversight.cache.disk import DiskStore
from oversight.cache.writer import Writer

folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

async def main():
    store = DiskStore(folder)
    writer = Writer(store)

    async def lane(lane):
        for n in range(count):
            key = f"{name}-{lane}-{n}"
            known = asyncio.get_running_loop().create_future()
            writer.put((key, lambda: key.encode() * 40, known.set_result))
            assert await known is None
            print(key, flush=True)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(lane(number))
    await writer.end()
    store.close()

asyncio.run(main())
"""


def writer(folder: Path, name: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, str(folder), name, str(count)]
    return Started(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.wire
def test_two_processes_write_one_store_at_once(folder):
    with writer(folder, "one", 60) as one, writer(folder, "two", 60) as two:
        outputs = [process.communicate()[0].split() for process in (one, two)]
        assert (one.returncode, two.returncode) == (0, 0)
    assert [len(keys) for keys in outputs] == [480, 480]
    store = ReadOnlyStore(folder)
    assert dict(store.items()) == {key: key.encode() * 40 for keys in outputs for key in keys}
    assert not list(store.faults())
    store.close()


def test_two_processes_can_create_a_store_at_once(folder, monkeypatch):
    folder.mkdir()
    with closing(sqlite3.connect(folder / STORE_FILE, isolation_level=None)) as other:
        other.executescript("CREATE TABLE Settings (key UNIQUE, value); BEGIN IMMEDIATE")
        monkeypatch.setattr(time, "sleep", lambda _: other.close())
        DiskStore(folder).close()


@pytest.mark.wire
@pytest.mark.parametrize("after", [1, 50, 400])
def test_a_killed_writer_loses_nothing_that_it_acknowledged(folder, after):
    with writer(folder, "one", 10**6) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        acknowledged += process.stdout.readlines()
    # The last line may be torn: it was never read whole by anybody.
    keys = [line[:-1] for line in acknowledged if line.endswith("\n")]
    assert len(keys) >= after
    with closing(ReadOnlyStore(folder)) as reading:
        assert reading.get(keys[0]) == keys[0].encode() * 40
    store = DiskStore(folder)
    assert [key for key in keys if store.get(key) != key.encode() * 40] == []
    assert not list(store.faults())
    store.put_many([("later", b"1")])
    store.close()


REPLIES = {f"{n:02}": random.Random(n).randbytes(400) for n in range(60)}


@pytest.fixture
def replies_folder(folder: Path) -> Path:
    filled(folder, REPLIES)
    return folder


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
def test_a_store_without_its_first_page_is_saved_whole(replies_folder, at, new):
    damaged = overwritten(replies_folder, at, new)
    assert saved(replies_folder) == REPLIES
    assert (replies_folder / STORE_FILE).read_bytes() == damaged
    assert [file.name for file in replies_folder.iterdir()] == [STORE_FILE]


def test_no_name_of_a_table_costs_the_replies(replies_folder):
    page = (replies_folder / STORE_FILE).read_bytes()[:4096]
    for at in range(len(page)):
        if page[at : at + 5].lower() == b"cache":
            overwritten(replies_folder, at, b"c\xffche")
    assert saved(replies_folder) == REPLIES


def test_a_sound_store_is_read_where_it_lies(replies_folder):
    with recoverable(replies_folder) as store:
        assert store.file == replies_folder / STORE_FILE
    filled(replies_folder.parent / "empty", {})
    assert saved(replies_folder.parent / "empty") == {}


@pytest.mark.parametrize("content", [b"", b"\0", b"no database at all" * 1000, bytes(8192)])
def test_a_file_of_which_nothing_can_be_read_is_an_error_that_names_it(folder, content):
    with pytest.raises(StoreError, match="holds no store"):
        saved(folder)
    folder.mkdir()
    (folder / STORE_FILE).write_bytes(content)
    for read in (saved, ReadOnlyStore):
        with pytest.raises(StoreError, match=f"{folder / STORE_FILE} "):
            read(folder)
