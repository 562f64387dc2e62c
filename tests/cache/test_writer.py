"""Group commit: one thread, many entries to a commit, every waiter told."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import closing

import pytest

from oversight.cache.disk import DiskStore
from oversight.cache.errors import StoreError, StoreFull
from oversight.cache.memory import MemoryStore
from oversight.cache.writer import MAX_COMMIT_ENTRIES, Kept, Writer
from tests.waiting import PATIENCE


class Slow(MemoryStore):
    """Remembers its commits; the first waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[list[str]] = []
        self.begun = threading.Event()
        self.go = threading.Event()
        self.left = 0

    def keep_many(self, entries):
        entries = list(entries)
        self.commits.append([key for key, _ in entries])
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return super().keep_many(entries)

    def close_thread(self) -> None:
        self.left += 1


class Full(MemoryStore):
    def keep_many(self, entries):
        raise StoreFull("no room")


def put(writer: Writer, key: str, pack: Callable[[], bytes]) -> "asyncio.Future[Kept]":
    """What became of an entry, once it is known."""
    known = asyncio.get_running_loop().create_future()
    writer.put((key, pack, lambda kept: None if known.done() else known.set_result(kept)))
    return known


def putting(writer: Writer, names: Iterable[str]) -> "list[asyncio.Future[Kept]]":
    """An entry of each name."""
    return [put(writer, name, lambda: b"") for name in names]


async def begun(store: Slow, writer: Writer, more: Iterable[str]) -> list[asyncio.Future[Kept]]:
    """The tasks of a first entry, whose commit waits, and of more entries behind it."""
    puts = putting(writer, ["first"])
    await asyncio.to_thread(store.begun.wait, PATIENCE)
    puts += putting(writer, more)
    await asyncio.sleep(0)
    return puts


async def test_an_entry_is_packed_on_the_writers_thread_and_durable_when_put_returns(tmp_path):
    threads: list[str] = []

    def pack() -> bytes:
        threads.append(threading.current_thread().name)
        return b"1"

    with closing(DiskStore(tmp_path)) as store:
        writer = Writer(store)
        await put(writer, "a", pack)
        assert store.get("a") == b"1"
        await writer.end()
    assert threads == ["store-writer"]


async def test_a_value_that_cannot_be_packed_takes_no_neighbour_down_with_it():
    store = MemoryStore()
    writer = Writer(store)

    def broken() -> bytes:
        raise ValueError("broken")

    ends = await asyncio.gather(
        put(writer, "a", lambda: b"1"), put(writer, "b", broken), put(writer, "c", lambda: b"3")
    )
    assert [type(end) for end in ends] == [type(None), ValueError, type(None)]
    assert list(store.keys()) == ["a", "c"]
    await put(writer, "later", lambda: b"4")
    await writer.end()


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(200, [1, 200]), (2 * MAX_COMMIT_ENTRIES + 1, [1, MAX_COMMIT_ENTRIES, MAX_COMMIT_ENTRIES, 1])],
)
async def test_what_is_queued_during_a_commit_shares_the_next_up_to_its_bound(count, sizes):
    store, names = Slow(), [f"{n:05}" for n in range(count)]
    writer = Writer(store)
    puts = await begun(store, writer, names)
    store.go.set()
    await asyncio.wait(puts)
    await writer.end()
    assert [len(commit) for commit in store.commits] == sizes
    assert [key for commit in store.commits for key in commit] == ["first", *names]


async def test_what_comes_within_a_moment_of_the_first_shares_its_commit():
    store = Slow()
    store.go.set()
    writer = Writer(store)
    puts = putting(writer, ["first"])
    await asyncio.sleep(0)
    puts += putting(writer, map(str, range(20)))
    await asyncio.wait(puts)
    await writer.end()
    assert store.commits == [["first", *map(str, range(20))]]


async def test_giving_up_on_closing_does_not_stop_the_writing():
    store = Slow()
    writer = Writer(store)
    puts = await begun(store, writer, [])
    leaving = asyncio.create_task(writer.end())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    store.go.set()
    await asyncio.wait(puts)
    await writer.end()
    assert store.get("first") == b"" and store.left == 1


@pytest.mark.parametrize("waiters", [1, 50])
async def test_every_waiter_learns_that_the_store_is_full(waiters):
    writer = Writer(Full())
    puts = putting(writer, map(str, range(waiters)))
    await asyncio.wait(puts)
    assert [type(each.result()) for each in puts] == [StoreFull] * waiters
    await writer.end()


async def test_a_waiter_that_went_away_does_not_keep_the_others_waiting():
    store = Slow()
    writer = Writer(store)
    puts = putting(writer, "012")
    await asyncio.to_thread(store.begun.wait, PATIENCE)
    puts[1].cancel()
    store.go.set()
    await asyncio.wait(puts)
    await writer.end()
    assert [put.cancelled() for put in puts] == [False, True, False]
    assert set(store.keys()) == {"0", "1", "2"}


async def test_closing_writes_what_is_queued_and_lets_the_thread_leave():
    store = Slow()
    store.go.set()
    writer = Writer(store)
    puts = putting(writer, map(str, range(300)))
    await asyncio.sleep(0)
    await writer.end()
    await writer.end()
    assert len(store) == 300 and store.left == 1
    assert [each.result() for each in puts] == [None] * 300
    with pytest.raises(StoreError, match="closed"):
        put(writer, "late", lambda: b"")


async def test_a_writer_that_never_wrote_starts_no_thread():
    before = threading.active_count()
    writer = Writer(MemoryStore())
    assert threading.active_count() == before
    await writer.end()
