"""One contract for every store."""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from oversight.cache.disk import DiskStore
from oversight.cache.errors import StoreError
from oversight.cache.memory import MemoryStore
from oversight.cache.store import Store
from oversight.engine.run.stores import open_store
from tests.documents import shown

OPENERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "disk": lambda folder: DiskStore(folder / "store"),
    "docs/extending.md": lambda folder: shown("extending.md", "plain.py")["open_plain"](
        f"plain:{folder}/store", True
    ),
}


@pytest.fixture(params=[*OPENERS, pytest.param("postgres", marks=pytest.mark.real)])
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
    held = {name: name.encode() for name in names}
    for _ in range(40):
        given = [
            (chance.choice(names), str(chance.random()).encode() * chance.choice((0, 1, 200)))
            for _ in range(chance.randrange(60))
        ]
        match chance.choice(("put", "keep", "delete")):
            case "put":
                store.put_many(given)
                held |= dict(given)
            case "keep":
                # Of one key that comes twice at once the first is kept, too.
                earlier = {}
                for key, value in given:
                    if held.setdefault(key, value) != value:
                        earlier[key] = held[key]
                assert store.keep_many(given) == earlier
            case "delete":
                gone = {key for key, _ in given}
                assert store.delete_many([*gone, "nowhere"]) == len(gone & held.keys())
                held = {key: value for key, value in held.items() if key not in gone}
        assert len(store) == len(held)
        key = chance.choice(names)
        assert store.get(key) == held.get(key)
        for prefix in ("", "3-", key[:4], key, "8"):
            expected = sorted(pair for pair in held.items() if pair[0].startswith(prefix))
            assert list(store.items(prefix)) == expected
            assert list(store.keys(prefix)) == [key for key, _ in expected]
    assert store.get("3") is None and store.get(f"{names[0]}0") is None
    assert store.keep_many([]) == {}


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
    assert met == names
    assert sum(value == b"seen" for _, value in store.items()) == 11


def test_a_thread_that_wrote_can_leave_and_others_read_it(store):
    found: list[bytes | None] = []

    def write(key: str) -> None:
        found.append(store.get("a"))
        store.put_many([(key, b"1")])
        store.close_thread()

    for key in ("a", "b"):
        thread = threading.Thread(target=write, args=(key,))
        thread.start()
        thread.join()
    assert list(store.keys()) == ["a", "b"] and found == [None, b"1"]
    store.close()
    store.close()


def test_a_closed_store_on_disk_says_so(tmp_path):
    store = DiskStore(tmp_path)
    store.put_many([("a", b"1")])
    store.close()
    for use in (lambda: store.put_many([("b", b"2")]), lambda: store.get("a")):
        with pytest.raises(StoreError, match="closed"):
            use()
