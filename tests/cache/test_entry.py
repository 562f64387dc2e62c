"""Records: stored values come back equal, are counted, and nothing altered is believed."""

import hashlib
import math
import re
from importlib.resources import files
from pathlib import Path

import msgspec
import orjson
import pytest
import zstandard
from hypothesis import given
from msgspec import structs

from oversight.cache import entry
from oversight.cache.call import Call, Message, store_key
from oversight.cache.entry import (
    PACKED,
    PLAIN,
    StoreEntry,
    checked_entries,
    new_entry,
    read_entry,
    split_shared,
    stored_reply,
)
from oversight.cache.errors import DamagedEntry
from oversight.cache.reply import Reply, Token, Usage
from tests.cache.asking import FIRST, FULL, REPLY, any_calls, any_replies
from tests.sessions import sessions
from tests.tables import printed

ADDRESS = FULL.address
KEY = store_key(ADDRESS, "here/v1")
RECORD = new_entry(KEY, FULL, REPLY, "here/v1", 1_700_000_000).packed()

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
    new, stamped = new_entry(key, call, reply, "here/v1", 7), structs.replace(reply, call=address)
    for form, value in ((PACKED, new.packed().to_bytes()), (PLAIN, new.to_bytes())):
        record = read_entry(key, value)
        assert record.form == form and record.call() == call
        assert record.reply() == stored_reply(key, value, address) == stamped
        assert (record.model, record.outcome, record.stored_at) == (call.model, reply.outcome, 7)
        record.check()
        wrong = structs.replace(record, call_size=7).to_bytes()
        assert isinstance(dict(checked_entries([(key, wrong)]))[key], DamagedEntry)
        assert record.to_bytes() == value
        assert record.plain() == new and record.packed() == new.packed()
    assert new.plain() == new and (packed := new.packed()).packed() is packed


def stored_at(clock: float) -> float:
    """The time of a record that is kept when the clock says this."""
    record = read_entry(KEY, new_entry(KEY, FULL, REPLY, "here/v1", clock).packed().to_bytes())
    record.check()
    return record.stored_at


def test_common_beginning_of_calls_is_a_separate_part():
    passage = 'It was "so" – they said.\n' * 400
    call = FULL.changed(messages=(Message("system", passage + "Rules."), *FULL.messages))
    new = new_entry(store_key(call.address, "here/v1"), call, REPLY, "here/v1", 7)
    packed = new.packed(passage)
    record = read_entry(new.key, packed.to_bytes())
    assert record == packed and record.packed() is record and record.plain() == new
    assert record.call() == call and record.reply() == new.reply()
    record.check()
    head, shared = split_shared(packed.to_bytes())
    assert head + shared == packed.to_bytes() and zstandard.frame_content_size(shared) > 10_000
    # Without it the reply is as good as ever.
    lost = read_entry(new.key, head)
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
    """The damage of bytes that are not an entry."""
    with pytest.raises(DamagedEntry) as damage:
        read_entry(KEY, value)
    return str(damage.value)


def changed(**fields: object) -> StoreEntry:
    """RECORD with other parts."""
    return structs.replace(RECORD, **fields)


def called(json: bytes) -> Call:
    """The call of a record that holds this JSON for it."""
    return changed(call_size=len(json), call_part=zstandard.ZstdCompressor().compress(json)).call()


def replied(json: bytes) -> Reply:
    return stored_reply(KEY, with_reply(json), ADDRESS)


def reply_with(**fields: object) -> Reply:
    return replied(orjson.dumps(orjson.loads(msgspec.json.encode(REPLY)) | fields))


def kept(**fields: object) -> StoreEntry:
    """A record of a reply with other fields."""
    return new_entry(KEY, FULL, structs.replace(REPLY, **fields), "here/v1", 7)


NAMES = vars(entry) | {"math": math, "hashlib": hashlib, "files": files, "FIRST": FIRST}
NAMES |= {"Token": Token, "Usage": Usage, "MOST": entry.MAX_UNPACKED_BYTES}


@sessions(Path(__file__).with_name("entry.md"))
def test_altered_entries_are_refused(session, request):
    def told(text: str) -> list[str]:
        """Without what is said of each, and the words of libraries."""
        often = rf"stored reply {ADDRESS[:12]} is damaged: |; list all damage with: .*|: \w+\(.*"
        return [re.sub(often, "", line) for line in printed(NAMES | globals())(text)]

    session.check(request, told)
