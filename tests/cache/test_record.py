"""Records: what is stored comes back equal, is counted, and nothing altered is believed. Bundles:
the same bytes for the same replies.
"""

import hashlib
import math
import os
import random
import re
import struct
from contextlib import closing
from importlib.resources import files
from itertools import product
from pathlib import Path

import msgspec
import orjson
import pytest
import zstandard
from hypothesis import given
from msgspec import structs

from oversight.cache.address import store_key
from oversight.cache.bundle import MAGIC, BundleStore, export_bundle
from oversight.cache.cache import Cache
from oversight.cache.call import Call, Message, Request
from oversight.cache.checksum import add_checksum
from oversight.cache.disk import DiskStore
from oversight.cache.errors import BundleError, DamagedEntry, StoreError
from oversight.cache.memory import MemoryStore
from oversight.cache.merge import MergeStatistics, merge
from oversight.cache.record import (
    DICTIONARY,
    MAX_UNPACKED_BYTES,
    PACKED,
    PLAIN,
    Record,
    checked_records,
    new_record,
    read_record,
    split_shared,
    stored_reply,
)
from oversight.cache.reply import Reply, Token, Usage
from oversight.cache.stats import ReplyCounts, StoreStatistics, store_statistics
from oversight.cache.store import Store
from tests.cache.asking import FIRST, FULL, REPLY, any_calls, any_replies, record_of
from tests.fakes import Scripted
from tests.sessions import sessions
from tests.tables import printed

ADDRESS = FULL.address
KEY = store_key(ADDRESS, "here/v1")
RECORD = new_record(KEY, FULL, REPLY, "here/v1", 1_700_000_000).packed()


PACKED_ONCE = (
    "0101070000000000000007000a00d8010000b000000078020000a0000000686572652f763173696d2f737472"
    "6f6e6728b52ffd6369434e43d800150500f3041023921f2137680c4763382473cdb1c61e736d6432f2e3476c"
    "1a8e89a472b94fd5df34ba56de23fb7e655d329d48dc96f8000b5c20c5c691d9194b551002297cc224fc51d9"
    "53ae42aadef98b2f531f1dee0402fe51acd411e45ea729e195cb6e1a401b8ffc30048d91661e8bfad1afeb51"
    "5682dc76223da5b20f378f84a0247c4b88ade727f6fa95a329210c4aa46677a4ef56ab51921e54fb8be76d08"
    "9c0d5828b52ffd6369434e43780195040013440c3f467ebcc985a9382219a1d54f918e6ccd2f2291b8169f86"
    "4df8a3ddc0b51b70dfafac4ba61349db121fec4bb7b65a534a24fcf20df12ebe0f89af87ce5ab2b19d183853"
    "cc908e7a93ba121d5f81b633e643074d89d913e4168d2b54f95c9e49ba9caf3655ef0cd89705cd5bb609f269"
    "c8578c500c246c9b1f437eb98f277cf29039cf09f3d227d9be578deb315b75"
)
"""FIRST and REPLY, as a store once kept them."""


def with_reply(json: bytes) -> bytes:
    """RECORD with other JSON for its reply."""
    packed = zstandard.ZstdCompressor().compress(json)
    return structs.replace(RECORD, reply_size=len(json), reply_part=packed).to_bytes()


@given(any_calls, any_replies)
def test_a_call_and_its_reply_come_back_equal(call, reply):
    address = call.address
    key = store_key(address, "here/v1")
    new, stamped = new_record(key, call, reply, "here/v1", 7), structs.replace(reply, call=address)
    for form, value in ((PACKED, new.packed().to_bytes()), (PLAIN, new.to_bytes())):
        record = read_record(key, value)
        assert record.form == form
        assert record.call() == call
        assert record.reply() == stored_reply(key, value, address) == stamped
        assert (record.model, record.outcome, record.stored_at) == (call.model, reply.outcome, 7)
        record.check()
        wrong = structs.replace(record, call_size=7).to_bytes()
        assert isinstance(dict(checked_records([(key, wrong)]))[key], DamagedEntry)
        assert record.to_bytes() == value
        assert record.plain() == new and record.packed() == new.packed()
    assert new.plain() == new and (packed := new.packed()).packed() is packed


@pytest.mark.parametrize("clock", [-3 * 10**9, -1, 0, 10**15, 2**70])
def test_a_clock_that_is_wrong_costs_no_reply(clock):
    value = new_record(KEY, FULL, REPLY, "here/v1", clock).packed().to_bytes()
    record = read_record(KEY, value)
    record.check()
    assert 0 <= record.stored_at <= 253_370_764_800


def test_the_beginning_that_calls_share_is_a_part_of_its_own():
    passage = 'It was "so" – they said.\n' * 400
    call = FULL.changed(messages=(Message("system", passage + "Rules."), *FULL.messages))
    new = new_record(store_key(call.address, "here/v1"), call, REPLY, "here/v1", 7)
    packed = new.packed(passage)
    record = read_record(new.key, packed.to_bytes())
    assert record == packed and record.packed() is record and record.plain() == new
    assert record.call() == call and record.reply() == new.reply()
    record.check()
    head, shared = split_shared(packed.to_bytes())
    assert head + shared == packed.to_bytes() and zstandard.frame_content_size(shared) > 10_000
    # Without it the reply is as good as ever.
    lost = read_record(new.key, head)
    assert lost.reply() == stored_reply(new.key, head, call.address) == record.reply()
    with pytest.raises(DamagedEntry, match="lost the passage"):
        lost.call()
    for wrong in (
        structs.replace(packed, shared_at=2**20),
        structs.replace(packed, shared_part=shared[:-1]),
        structs.replace(packed, shared_part=b"no zstd"),
        structs.replace(packed, call_part=b"no zstd"),
    ):
        with pytest.raises(DamagedEntry):
            wrong.check()
    assert new.packed("short").form == new.packed("elsewhere" * 999).form == PACKED


WHOLE, BARE = RECORD.to_bytes(), RECORD.plain()
BOMB = zstandard.ZstdCompressor().compress(bytes(2**20))


def read(value: bytes) -> str:
    """What is wrong with bytes that are no record."""
    with pytest.raises(DamagedEntry) as damage:
        read_record(KEY, value)
    return str(damage.value)


def changed(**fields: object) -> Record:
    """RECORD with other parts."""
    return structs.replace(RECORD, **fields)


def called(json: bytes) -> Call:
    """The call of a record that holds this JSON for it."""
    return changed(call_size=len(json), call_part=zstandard.ZstdCompressor().compress(json)).call()


def replied(json: bytes) -> Reply:
    return stored_reply(KEY, with_reply(json), ADDRESS)


def reply_with(**fields: object) -> Reply:
    return replied(orjson.dumps(orjson.loads(msgspec.json.encode(REPLY)) | fields))


def kept(**fields: object) -> Record:
    """A record of a reply with other fields."""
    return new_record(KEY, FULL, structs.replace(REPLY, **fields), "here/v1", 7)


NAMES = {"math": math, "Token": Token, "Usage": Usage, "MOST": MAX_UNPACKED_BYTES}


@sessions(Path(__file__).with_name("record.md"))
def test_what_was_altered_is_not_believed(session, request):
    def told(text: str) -> list[str]:
        """Without what is said of each, and the words of libraries."""
        often = rf"stored reply {ADDRESS[:12]} is damaged: |; list all damage with: .*|: \w+\(.*"
        return [re.sub(often, "", line) for line in printed(NAMES | globals())(text)]

    session.check(request, told)


def test_the_layouts_of_records_stores_and_bundles_are_pinned(file):
    small = Record("k", PLAIN, "ok", 1, "i", "m", 2, b"{}", 3, b"[1]")
    head = "020001000000000000000100010002000000020000000300000003000000"
    assert small.to_bytes().hex() == head + b"im{}[1]".hex()
    assert add_checksum("k", b"v") == hashlib.sha256(b"k\0v").digest() + b"v"
    dictionary = files("oversight.cache").joinpath(DICTIONARY).read_bytes()
    digest = "41b3020c8f436ced586b505c908303b89beb39bc4db4c572de05be4b7fda2516"
    assert hashlib.sha256(dictionary).hexdigest() == digest
    assert export_bundle(MemoryStore(), [], file) == 0
    index = zstandard.ZstdCompressor(level=9).compress(b"")
    body = b"OVSIGHT\x01" + bytes(4) + index + struct.pack("<II", len(index), 0)
    assert file.read_bytes() == body + hashlib.sha256(body).digest()


def test_a_record_that_was_packed_with_this_dictionary_stays_readable():
    key = store_key(FIRST.address, "here/v1")
    record = read_record(key, bytes.fromhex(PACKED_ONCE))
    record.check()
    assert (record.call(), record.reply()) == (FIRST, structs.replace(REPLY, call=FIRST.address))


def test_every_reply_is_counted_once_in_each_table():
    assert store_statistics([]) == StoreStatistics(ReplyCounts(0, {}, 0), {}, {}, 0)
    new_year = 1_767_225_600
    replies = (("b", "ok", new_year), ("a", "ok", new_year), ("a", "refused", new_year - 1))
    stored = [
        structs.replace(kept(outcome=outcome), model=model, stored_at=at)
        for model, outcome, at in replies
    ]
    damage = DamagedEntry("z", "altered")
    counted = store_statistics([(KEY, each) for each in (*stored, damage)])
    sizes = [record.reply_size + record.call_size for record in stored]
    assert counted.total == ReplyCounts(3, {"ok": 2, "refused": 1}, sum(sizes))
    assert list(counted.models) == ["a", "b"]
    assert counted.models["a"] == ReplyCounts(2, {"ok": 1, "refused": 1}, sizes[1] + sizes[2])
    assert counted.months == {
        "2025-12": ReplyCounts(1, {"refused": 1}, sizes[2]),
        "2026-01": ReplyCounts(2, {"ok": 2}, sizes[0] + sizes[1]),
    }
    assert counted.damaged == 1


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


@pytest.mark.parametrize(
    ("count", "length"),
    [*product(range(10), (10, 1_000, 30_000)), (50, 9_000), (300, 10)],
)
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
    keys, again = list(memory.keys()), tmp_path / "again.oversight"
    with closing(disk), closing(exported(memory, file)) as bundle:
        for store, order in ((disk, keys[::-1]), (memory, keys + keys), (bundle, keys)):
            export_bundle(store, order, again)
            assert again.read_bytes() == file.read_bytes()


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


def test_what_cannot_be_exported_whole_changes_no_file(file):
    file.write_bytes(b"what was there before")
    store = filled(3)
    keys = list(store.keys())
    store.put_many([("damaged", b"\x01 no record")])
    for some, into, told in (
        ([*keys, "f" * 64], file, "not in the store"),
        ([*keys, "damaged"], file, "damaged"),
        (keys, file / "run.oversight", "cannot be written: "),
    ):
        with pytest.raises((BundleError, DamagedEntry), match=told):
            export_bundle(store, some, into)
        assert file.read_bytes() == b"what was there before"
        assert [name.name for name in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, ""),
        *((content, " is no bundle") for content in (b"", b"OVS", b"PK\x03\x04 zip", bytes(500))),
        (MAGIC[:-1] + b"\x02" + bytes(90), ".*version 2"),
        (MAGIC + bytes(90), " was cut short or altered"),
    ],
)
def test_what_is_no_bundle_of_this_version_is_named(file, content, told):
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BundleError, match=f"{file}{told}"):
        BundleStore(file)


def test_a_bundle_cut_short_or_flipped_anywhere_is_refused(file, whole):
    chance = random.Random(3)
    cuts = [*range(9, 90), *range(90, len(whole), 211), len(whole) - 1]
    altered = [whole + b"\0", *(whole[:length] for length in cuts)]
    for place in [*range(40), *(chance.randrange(len(whole)) for _ in range(100))]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        altered.append(flipped)
    for content in altered:
        file.write_bytes(content)
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
