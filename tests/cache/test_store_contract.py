"""One contract for every store. Group commit: one thread, many entries to a commit, all told."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from oversight.cache.cache import Cache
from oversight.cache.disk import DiskStore
from oversight.cache.errors import StoreError, StoreFull
from oversight.cache.store import MemoryStore, Store
from oversight.cache.writer import MAX_COMMIT_ENTRIES, Kept, Writer
from oversight.engine.run.settings import open_store
from tests.documents import shown
from tests.waiting import PATIENCE

OPENERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "disk": lambda folder: DiskStore(folder / "store"),
    "docs/extending.md": lambda folder: shown("extending.md", "plain.py")["open_plain"](
        f"plain:{folder}/store", True
    ),
}
RINGS = {"docs/extending.md": pytest.mark.wire, "postgres": pytest.mark.real}


@pytest.fixture(
    params=[pytest.param(name, marks=RINGS.get(name, ())) for name in (*OPENERS, "postgres")]
)
def store(request, tmp_path):
    if request.param == "postgres":
        opened = open_store(request.getfixturevalue("postgres").database())
    else:
        opened = OPENERS[request.param](tmp_path)
    yield opened
    opened.close()


def test_a_store_holds_what_a_dict_would_and_tells_what_it_had_first(store):
    """More keys than are read at a time; some come twice at once."""
    chance, names = random.Random(1), [f"{n % 7}-{n:04}" for n in range(1100)]
    store.put_many([(name, name.encode()) for name in names])
    model = {name: name.encode() for name in names}
    for _ in range(40):
        batch = [
            (chance.choice(names), str(chance.random()).encode() * chance.choice((0, 1, 200)))
            for _ in range(chance.randrange(60))
        ]
        match chance.choice(("put", "keep", "delete")):
            case "put":
                store.put_many(batch)
                model |= dict(batch)
            case "keep":
                # Of one key that comes twice at once the first is kept, too.
                earlier = {}
                for key, value in batch:
                    if model.setdefault(key, value) != value:
                        earlier[key] = model[key]
                assert store.keep_many(batch) == earlier
            case "delete":
                gone = {key for key, _ in batch}
                assert store.delete_many([*gone, "nowhere"]) == len(gone & model.keys())
                model = {key: value for key, value in model.items() if key not in gone}
        assert len(store) == len(model)
        key = chance.choice(names)
        assert store.get(key) == model.get(key)
        for prefix in ("", "3-", key[:4], key, "8"):
            expected = sorted(pair for pair in model.items() if pair[0].startswith(prefix))
            assert list(store.items(prefix)) == expected
            assert list(store.keys(prefix)) == [key for key, _ in expected]
    assert store.get("3") is None and store.get(f"{names[0]}0") is None
    assert store.keep_many([]) == {}


def test_the_trial_of_a_store_leaves_no_entry(store):
    store.put_many([("kept", b"1")])
    store.require_rights()
    assert dict(store.items()) == {"kept": b"1"}


class Forgetful(MemoryStore):
    def put_many(self, entries):
        """Keeps nothing."""


class Sticky(MemoryStore):
    def delete_many(self, keys):
        return 0


@pytest.mark.parametrize("kind", [Forgetful, Sticky])
def test_a_store_that_does_not_keep_and_delete_is_refused_before_any_call(kind):
    with pytest.raises(StoreError, match="fails to store and delete"):
        Cache(kind(), lambda call: pytest.fail("asked"), identity=lambda call: "")


@pytest.mark.parametrize("key", ["", "ä", "a\nb", "a\0b", "\ud800"])
def test_a_key_that_is_not_printable_ascii_is_refused_and_nothing_is_kept(store, key):
    with pytest.raises(ValueError, match="not printable ASCII"):
        store.put_many([("good", b"1"), (key, b"2")])
    assert store.get("good") is None and len(store) == 0


def test_every_key_is_met_once_where_batches_meet_and_a_walk_may_be_written_into(store):
    names = [f"{n:05}" for n in range(1024)]
    store.put_many([(name, b"") for name in names])
    met = []
    for key in store.keys():  # noqa: SIM118
        met.append(key)
        if int(key) % 100 == 0:
            store.put_many([(key, b"seen")])
    assert met == names and sum(value == b"seen" for _, value in store.items()) == 11


def test_a_thread_that_wrote_can_leave_and_others_read_it(store):
    values: list[bytes | None] = []

    def write(key: str) -> None:
        values.append(store.get("a"))
        store.put_many([(key, b"1")])
        store.close_thread()

    for key in ("a", "b"):
        thread = threading.Thread(target=write, args=(key,))
        thread.start()
        thread.join()
    assert list(store.keys()) == ["a", "b"] and values == [None, b"1"]
    store.close()
    store.close()


def test_a_closed_store_on_disk_says_so(tmp_path):
    store = DiskStore(tmp_path)
    store.put_many([("a", b"1")])
    store.close()
    for use in (lambda: store.put_many([("b", b"2")]), lambda: store.get("a")):
        with pytest.raises(StoreError, match="closed"):
            use()


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
    """The result of an entry, once it is known."""
    future = asyncio.get_running_loop().create_future()
    writer.put((key, pack, future.set_result))
    return future


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
async def test_entries_queued_during_a_commit_form_the_next_up_to_its_bound(count, sizes):
    store, names = Slow(), [f"{n:05}" for n in range(count)]
    writer = Writer(store)
    puts = await begun(store, writer, names)
    store.go.set()
    await asyncio.wait(puts)
    await writer.end()
    assert [len(commit) for commit in store.commits] == sizes
    assert [key for commit in store.commits for key in commit] == ["first", *names]


async def test_entries_within_a_moment_form_one_commit():
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
    assert [type(waiter.result()) for waiter in puts] == [StoreFull] * waiters
    await writer.end()


async def test_closing_writes_what_is_queued_and_lets_the_thread_leave():
    store = Slow()
    store.go.set()
    writer = Writer(store)
    puts = putting(writer, map(str, range(300)))
    await asyncio.sleep(0)
    await writer.end()
    await writer.end()
    assert len(store) == 300 and store.left == 1
    assert [waiter.result() for waiter in puts] == [None] * 300
    with pytest.raises(StoreError, match="closed"):
        put(writer, "late", lambda: b"")
