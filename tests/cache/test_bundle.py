"""Bundles: the same bytes for the same replies, and not one byte believed that was altered."""

import hashlib
import os
import random
import struct
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from oversight.cache.bundle import MAGIC, BundleStore, export_bundle
from oversight.cache.cache import Cache
from oversight.cache.call import Call, Message, Request
from oversight.cache.disk import DiskStore, ReadOnlyStore
from oversight.cache.errors import BundleError, DamagedEntry, StoreError
from oversight.cache.memory import MemoryStore
from oversight.cache.merge import MergeStatistics, merge
from oversight.cache.record import read_record
from oversight.cache.reply import Reply
from oversight.cache.store import Store
from tests.cache.asking import record_of
from tests.fakes import Scripted


def call(number: int) -> Call:
    passage = "Each crate holds twelve apples, and there are four crates in the yard. " * 3
    return Call(
        Request("sim/strong", (Message("user", f"{passage}Question {number}?"),)), (number,)
    )


def filled(count: int, store: Store | None = None) -> Store:
    store = store if store is not None else MemoryStore()
    store.put_many(record_of(call(n), Reply(f"reply {n} " * (n % 9 + 1))) for n in range(count))
    return store


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.oversight"


def exported(store: Store, file: Path) -> BundleStore:
    """The bundle of all that a store holds, opened."""
    export_bundle(store, store.keys(), file)
    return BundleStore(file)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """The bytes of a bundle of 40 replies."""
    file = tmp_path_factory.mktemp("whole") / "run.oversight"
    exported(filled(40), file).close()
    return file.read_bytes()


def records(store: Store) -> dict[str, object]:
    """What a store holds, however it is packed."""
    return {key: read_record(key, value).packed() for key, value in store.items()}


def test_the_layout_is_pinned(file):
    assert export_bundle(MemoryStore(), [], file) == 0
    index = zstandard.ZstdCompressor(level=9).compress(b"")
    body = b"OVSIGHT\x01" + bytes(4) + index + struct.pack("<II", len(index), 0)
    assert file.read_bytes() == body + hashlib.sha256(body).digest()


@pytest.mark.parametrize("count", [*range(10), 50, 300])
@pytest.mark.parametrize("length", [10, 1_000, 30_000])
def test_what_went_in_comes_out_few_and_many_of_any_length(file, count, length):
    store = MemoryStore()
    words = "".join(random.Random(length).choices("abcdefgh ", k=length))
    store.put_many(record_of(call(n), Reply(words)) for n in range(count))
    assert export_bundle(store, store.keys(), file) == count
    with closing(BundleStore(file)) as bundle:
        assert records(bundle) == records(store) and len(bundle) == count
        assert bundle.get("0" * 64) is None and bundle.get("g") is None and bundle.get("") is None


def test_the_same_replies_give_the_same_bytes_whatever_their_order(file, tmp_path):
    memory, disk = filled(100), filled(100, DiskStore(tmp_path / "store"))
    keys = list(memory.keys())
    written = []
    for store, order in ((memory, keys), (disk, keys[::-1]), (memory, keys + keys)):
        export_bundle(store, order, file)
        written.append(file.read_bytes())
    disk.close()
    assert len(set(written)) == 1


def test_a_bundle_of_a_bundle_is_the_same_file(file, tmp_path):
    with closing(exported(filled(100), file)) as bundle:
        export_bundle(bundle, bundle.keys(), tmp_path / "again.oversight")
    assert (tmp_path / "again.oversight").read_bytes() == file.read_bytes()


def test_a_part_of_a_store_can_be_written(file):
    store = filled(100)
    some = list(store.keys())[10:20]
    assert export_bundle(store, some, file) == 10
    bundle = BundleStore(file)
    assert list(bundle.keys()) == some
    assert list(bundle.keys(some[3][:20])) == [some[3]]
    bundle.close()


def test_what_records_share_is_kept_once(file):
    store = filled(300)
    exported(store, file).close()
    plain = sum(len(read_record(key, value).plain().to_bytes()) for key, value in store.items())
    assert file.stat().st_size < plain / 3


def test_a_cache_that_is_to_store_replies_takes_no_bundle(file):
    export_bundle(filled(1), [], file)
    with closing(BundleStore(file)) as bundle:
        assert not isinstance(bundle, Store)
        for mode in ("use", "refresh"):
            with pytest.raises(TypeError, match=r"BundleStore .*only reads"):
                Cache(bundle, Scripted(lambda call: ""), identity=lambda call: "here", mode=mode)


def test_a_key_that_is_not_in_the_store_exports_nothing(file):
    file.write_bytes(b"what was there before")
    with pytest.raises(BundleError, match="not in the store"):
        export_bundle(filled(3), [*filled(3).keys(), "f" * 64], file)
    assert file.read_bytes() == b"what was there before"
    assert [name.name for name in file.parent.iterdir()] == [file.name]


def test_damage_is_not_exported(file):
    store = filled(3)
    store.put_many([(next(store.keys()), b"\x01 no record")])
    with pytest.raises(DamagedEntry):
        export_bundle(store, store.keys(), file)
    assert not list(file.parent.iterdir())


def test_a_bundle_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match=r"cannot be written: "):
        export_bundle(filled(1), [], tmp_path / "file" / "run.oversight")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, ""),
        *((content, " is no bundle") for content in (b"", b"OVS", b"PK\x03\x04 zip", bytes(500))),
        (MAGIC[:-1] + b"\x02" + bytes(90), ".*version 2"),
    ],
)
def test_what_is_no_bundle_of_this_version_is_named(file, content, told):
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BundleError, match=f"{file}{told}"):
        BundleStore(file)


def test_a_bundle_cut_short_anywhere_is_refused(file, whole):
    for length in [*range(9, 90), *range(90, len(whole), 211), len(whole) - 1]:
        file.write_bytes(whole[:length])
        with pytest.raises(BundleError, match=str(file)):
            BundleStore(file)
    file.write_bytes(whole + b"\0")
    with pytest.raises(BundleError, match="cut short or altered"):
        BundleStore(file)


def test_no_flipped_bit_of_a_bundle_goes_unnoticed(file, whole):
    chance = random.Random(3)
    for place in [*range(40), *(chance.randrange(len(whole)) for _ in range(100))]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        file.write_bytes(flipped)
        with pytest.raises(BundleError, match=str(file)):
            BundleStore(file)


def test_a_forged_bundle_with_a_right_checksum_is_an_error_and_no_crash(file, whole):
    whole = whole[:-32]
    chance = random.Random(4)
    refused = 0
    # The parts that say where the others are: the dictionary's length, the index and the tail.
    places = [*range(8, 12), *range(len(whole) - 200, len(whole), 2)]
    for place in places:
        forged = bytearray(whole)
        forged[place] ^= 1 << chance.randrange(8)
        file.write_bytes(forged + hashlib.sha256(forged).digest())
        try:
            bundle = BundleStore(file)
        except BundleError:
            refused += 1
            continue
        for key, found in bundle.items():
            if not isinstance(found, DamagedEntry):
                merge([(key, found)], MemoryStore())
        bundle.close()
    assert refused > len(places) / 2


def test_a_bundle_altered_while_it_is_open_serves_no_wrong_reply(file):
    bundle = exported(filled(40), file)
    size = file.stat().st_size
    with file.open("r+b") as out:
        out.seek(12)
        out.write(os.urandom(size - 12))
    for key, _ in bundle.items():
        with pytest.raises(StoreError):
            read_record(key, bundle.get(key) or b"").check()
    bundle.close()


def test_a_closed_bundle_says_so(file):
    store = filled(2)
    bundle = exported(store, file)
    bundle.close()
    bundle.close()
    with pytest.raises(StoreError, match=str(file)):
        bundle.get(next(store.keys()))


def test_importing_stores_what_is_new_and_keeps_what_is_there(file, tmp_path):
    theirs = filled(600)
    ours = DiskStore(tmp_path / "store")
    ours.put_many(
        [record_of(call(0), Reply("ours")), record_of(call(1), Reply("reply 1 reply 1 "))]
    )
    with closing(exported(theirs, file)) as bundle:
        assert merge(bundle.items(), ours) == MergeStatistics(new=598, known=1, other=1, damaged=())
        assert merge(bundle.items(), ours) == MergeStatistics(new=0, known=599, other=1, damaged=())
    kept, theirs_now = records(ours), records(theirs)
    zero = record_of(call(0), Reply("ours"))[0]
    assert kept.pop(zero).reply().text == "ours"
    del theirs_now[zero]
    assert kept == theirs_now
    ours.close()


def test_importing_leaves_out_what_is_damaged_and_names_it():
    theirs = filled(5)
    good, bad, moved = list(theirs.keys())[:3]
    entries = [
        (good, theirs.get(good)),
        (bad, b"\x01 no record"),
        (moved, theirs.get(good)),
        ("z", DamagedEntry("z", "was met on the way")),
    ]
    ours = MemoryStore()
    result = merge(entries, ours)
    assert (result.new, [damage.key for damage in result.damaged]) == (1, [bad, moved, "z"])
    assert list(ours.keys()) == [good]


def test_importing_mends_what_is_damaged_here():
    theirs, ours = filled(3), filled(3)
    key = next(ours.keys())
    ours.put_many([(key, b"\x01 no record")])
    assert merge(theirs.items(), ours) == MergeStatistics(new=1, known=2, other=0, damaged=())
    assert records(ours) == records(theirs)


def test_everything_readable_of_a_malformed_store_can_be_moved_to_another(tmp_path):
    broken: Path = tmp_path / "broken"
    filled(400, DiskStore(broken)).close()
    data = bytearray((broken / "cache.db").read_bytes())
    data[20 * 4096 : 24 * 4096] = bytes(4 * 4096)
    (broken / "cache.db").write_bytes(data)
    reading = ReadOnlyStore(broken)
    saved = MemoryStore()
    result = merge(reading.recover(), saved)
    reading.close()
    assert 300 < result.new < 400 and records(saved).items() <= records(filled(400)).items()
