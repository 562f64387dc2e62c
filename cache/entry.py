"""What is stored for one call: when, of which endpoint, the reply, and the call itself.

    head        form, outcome, time, and the lengths of what follows; `_HEAD`
    identity    of the endpoint that answered, UTF-8
    model       as the call names it, UTF-8
    reply       JSON, compressed
    call        the canonical JSON whose sha256 is the call's address, compressed
    shared      of some: how the prompt begins in many calls, compressed, which `call` lacks

The parts are apart so that a hit unpacks the reply alone, and a listing neither; and so that a
store keeps what many records share, such as a passage of 30 kB that fifty calls carry, once.

A stored value has a checksum, which covers its key too. A flipped bit in an index can hand out a
healthy value under another entry's key, and only a checksum of both detects that.
"""

import hashlib
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any, get_args

import msgspec
import orjson
import zstandard
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .call import SCHEMA, Call, Request, plain, store_key
from .errors import AddressError, DamagedEntry, PassageLost, RequestLeftOut, StoreError
from .reply import Outcome, Reply

PACKED = 1
"""Form of a record as stores keep it: reply and call are compressed, each by itself, with a
dictionary of the prompts and JSON keys that records have in common. It halves the size of a record
and the time to pack it, and each record can still be read without the others."""
DICTIONARY = "data/record-1.zdict"
"""Belongs to the form and never changes; another one would be another form."""
PLAIN = 2
"""Form of a record whose parts are not compressed: a new one, and each one in a portable file."""
SHARING = 3
"""Form of a compressed record that has a shared part."""
SHARES = bytes([SHARING])
"""How such a record begins."""
LEAST_SHARED = 4096
"""Characters of a prompt's beginning that is worth a part of its own."""

MAX_UNPACKED_BYTES = 2**28
"""Bytes of a reply or a call; a record that claims more is damaged, and is not unpacked."""

IMPORTED = "imported"
"""First word of the origin of a reply that came in a file."""

_LEVEL = 3

MAX_TIME = 253_370_764_800
"""Seconds since 1970; datetime goes no further."""

_HEAD = struct.Struct("<BBQHHIIII")
_PLACE = struct.Struct("<I")
"""Where in the call's JSON the shared part belongs, in bytes; in front of that part."""
_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class _Zstd(threading.local):
    """One a thread, made when it is first used: compressors are not safe to share."""

    pack: Callable[[bytes], bytes]
    unpack: Callable[[bytes], bytes]

    def __getattr__(self, name: str) -> Any:
        dictionary = _dictionary()
        self.pack = zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary).compress
        self.unpack = zstandard.ZstdDecompressor(dict_data=dictionary).decompress
        return getattr(self, name)


@lru_cache(1)
def _dictionary() -> zstandard.ZstdCompressionDict:
    dictionary = zstandard.ZstdCompressionDict(
        files("oversight.cache").joinpath(DICTIONARY).read_bytes()
    )
    dictionary.precompute_compress(level=_LEVEL)
    return dictionary


zstd = _Zstd()
"""Packs values with the dictionary, and unpacks them; ZstdError for what was packed otherwise."""


def make_ready() -> None:
    """Load the dictionary now: when the first paid reply is packed, no file may be left to open."""
    _dictionary()


class StoreEntry(Struct, frozen=True, gc=False):
    """One stored call; the reply and the call are unpacked when they are asked for."""

    key: str
    form: int
    outcome: Outcome
    stored_at: int
    """Seconds since 1970, by the clock of the machine that stored it."""
    identity: str
    model: str
    reply_size: int
    """Bytes of the reply's JSON."""
    reply_part: bytes
    call_size: int
    """Bytes of the call's JSON, the shared part included; 0 where the reply stands alone."""
    call_part: bytes
    shared_part: bytes = b""
    """Empty in all forms but `SHARING`, and there if its store has lost it."""
    shared_at: int = 0

    @property
    def lost_passage(self) -> bool:
        """Whether its store has lost the shared part; its reply is whole."""
        return self.form == SHARING and not self.shared_part

    @property
    def address(self) -> str:
        """The call's address."""
        return self.key.partition(".")[0]

    def reply(self) -> Reply:
        """DamagedEntry if what is stored is no reply."""
        data = _unpacked(self.key, self.form, self.reply_part, self.reply_size)
        return read_reply(self.key, data, self.address)

    def call(self) -> Call:
        """DamagedEntry if what is stored is no call; RequestLeftOut if the reply stands alone."""
        if not self.call_size:
            raise RequestLeftOut(self.key)
        return read_call(self.key, self._asked())

    def check(self) -> None:
        """DamagedEntry unless key, endpoint, call and reply can be read and belong together."""
        call = self.call()
        if self.key != store_key(call.address, self.identity):
            raise DamagedEntry(self.key, "it holds the call or the endpoint of another key")
        data = _unpacked(self.key, self.form, self.reply_part, self.reply_size)
        read_reply(self.key, data, self.address)
        # As it was written: the reply itself is read as those of today are.
        if (call.model, orjson.loads(data).get("outcome", "ok")) != (self.model, self.outcome):
            raise DamagedEntry(self.key, "its head is not that of its call and reply")

    def plain(self) -> "StoreEntry":
        """This record with its parts unpacked."""
        return replace(
            self,
            form=PLAIN,
            reply_part=_unpacked(self.key, self.form, self.reply_part, self.reply_size),
            call_part=self._asked(),
            shared_part=b"",
            shared_at=0,
        )

    def imported(self) -> "StoreEntry":
        """This record, with a reply whose origin says that it was imported from a file."""
        reply = self.reply()
        if reply.origin.startswith(IMPORTED):
            return self
        came = replace(reply, call="", origin=f"{IMPORTED} {reply.origin}".rstrip())
        written = write_reply(came)
        part = written if self.form == PLAIN else zstd.pack(written)
        return replace(self, outcome=came.outcome, reply_size=len(written), reply_part=part)

    def packed(self, shared: str = "") -> "StoreEntry":
        """This record, compressed as stores keep it. shared: the beginning of its prompt that many
        calls have in common; if it is long, it becomes a part of its own."""
        if self.form != PLAIN:
            return self
        asked, part, at = self.call_part, b"", 0
        if len(shared) >= LEAST_SHARED:
            text, packed = _packed_text(shared)
            before, found, after = asked.partition(text)
            if found:
                part, asked, at = packed, before + after, len(before)
        return replace(
            self,
            form=SHARING if part else PACKED,
            reply_part=zstd.pack(self.reply_part),
            call_part=zstd.pack(asked),
            shared_part=part,
            shared_at=at,
        )

    def to_bytes(self) -> bytes:
        identity, model = self.identity.encode(), self.model.encode()
        head = _HEAD.pack(
            self.form,
            _OUTCOMES.index(self.outcome),
            self.stored_at,
            len(identity),
            len(model),
            self.reply_size,
            len(self.reply_part),
            self.call_size,
            len(self.call_part),
        )
        parts = [head, identity, model, self.reply_part, self.call_part]
        if self.form == SHARING:
            parts += _PLACE.pack(self.shared_at), self.shared_part
        return b"".join(parts)

    def _asked(self) -> bytes:
        """The call's JSON."""
        key, size, at = self.key, self.call_size, self.shared_at
        if self.form != SHARING:
            return _unpacked(key, self.form, self.call_part, size)
        if self.lost_passage:
            raise PassageLost(key)
        length = _unpacked_size(self.shared_part)
        if not 0 <= length <= size - at:
            raise DamagedEntry(key, "the passage that its call shares does not fit into it")
        text = _unpacked(key, PACKED, self.shared_part, length)
        rest = _unpacked(key, PACKED, self.call_part, size - length)
        return rest[:at] + text + rest[at:]


def source(origin: str) -> str:
    """An origin without the run: `live ADDRESS`, `batch ADDRESS`, `imported` or `unknown`."""
    words = origin.split()
    if not words:
        return "unknown"
    return words[0] if words[0] in ("simulated", IMPORTED) else " ".join(words[:2])


@lru_cache(maxsize=64)  # the calls of a problem come one after another
def _packed_text(text: str) -> tuple[bytes, bytes]:
    """A text as it stands within JSON, plain and compressed."""
    written = orjson.dumps(text)[1:-1]
    return written, zstd.pack(written)


def split_shared(value: bytes) -> tuple[bytes, bytes]:
    """A record's bytes cut before its shared part, which is empty where it has none.

    DamagedEntry if it is no record.
    """
    if value[:1] != SHARES:
        return value, b""
    _, _, _, identity, model, _, reply, _, call = _head("", value)
    end = _HEAD.size + identity + model + reply + call + _PLACE.size
    return value[:end], value[end:]


def new_entry(key: str, call: Call, reply: Reply, identity: str, stored_at: int) -> StoreEntry:
    """The record of a reply, not packed yet. StoreError, naming the field, if it would not be read
    back equal.

    stored_at: seconds since 1970, clipped to what can be stored: a wrong clock must not cost a paid
    reply.
    """
    written, asked = write_reply(reply), call.canonical
    return StoreEntry(
        key,
        PLAIN,
        reply.outcome,
        min(max(stored_at, 0), MAX_TIME),
        identity,
        call.request.model,
        len(written),
        written,
        len(asked),
        asked,
    )


def read_entry(key: str, value: bytes) -> StoreEntry:
    """The record, nothing of it unpacked. DamagedEntry if it is none."""
    form, outcome, at, identity, model, reply_size, reply, call_size, call = _head(key, value)
    if at > MAX_TIME:
        raise DamagedEntry(key, f"it claims to be stored at {at}, which is no time")
    value, shared = split_shared(value)
    start, place = _HEAD.size, 0
    parts = []
    for length in (identity, model, reply, call):
        parts.append(value[start : start + length])
        start += length
    if form == SHARING and len(value) == start + _PLACE.size:
        (place,) = _PLACE.unpack_from(value, start)
        start = len(value)
    if start != len(value):
        raise DamagedEntry(key, f"it has {len(value)} bytes where its head says {start}")
    try:
        names = parts[0].decode(), parts[1].decode()
        how = _OUTCOMES[outcome]
    except (UnicodeDecodeError, IndexError) as exc:
        raise DamagedEntry(key, "its head cannot be read") from exc
    return StoreEntry(
        key, form, how, at, *names, reply_size, parts[2], call_size, parts[3], shared, place
    )


def read_entries(
    entries: Iterable[tuple[str, bytes | DamagedEntry]],
) -> Iterator[tuple[str, StoreEntry | DamagedEntry]]:
    """Entries, as `Reader.items` gives them, read; where one is damaged, what is wrong with it."""
    for key, found in entries:
        try:
            yield key, found if isinstance(found, DamagedEntry) else read_entry(key, found)
        except DamagedEntry as damage:
            yield key, damage


def checked_entries(
    entries: Iterable[tuple[str, bytes | DamagedEntry]],
) -> Iterator[tuple[str, StoreEntry | DamagedEntry]]:
    """`read_entries`, each unpacked and checked against its key."""
    for key, record in read_entries(entries):
        try:
            if isinstance(record, StoreEntry):
                record.check()
            yield key, record
        except DamagedEntry as damage:
            yield key, damage


def stored_reply(key: str, value: bytes, address: str) -> Reply:
    """The reply alone, stamped with its address: the hot path of a cache hit."""
    form, _, _, identity, model, size, length, _, _ = _head(key, value)
    start = _HEAD.size + identity + model
    return read_reply(key, _unpacked(key, form, value[start : start + length], size), address)


def _head(key: str, value: bytes) -> tuple[int, int, int, int, int, int, int, int, int]:
    if len(value) < _HEAD.size:
        raise DamagedEntry(key, f"it ends after {len(value)} bytes, within its head")
    head = _HEAD.unpack_from(value)
    if head[0] not in (PACKED, PLAIN, SHARING):
        raise DamagedEntry(key, f"form {head[0]} is unknown to this version of oversight-bench")
    return head


def _unpacked(key: str, form: int, part: bytes, size: int) -> bytes:
    if form != PLAIN:
        try:
            # Checked before unpacking: a small part may expand to a huge one.
            if size > MAX_UNPACKED_BYTES or zstandard.frame_content_size(part) != size:
                raise DamagedEntry(key, f"a part of it does not unpack to {size} bytes")
            part = zstd.unpack(part)
        except zstandard.ZstdError as exc:
            raise DamagedEntry(key, f"a part of it cannot be unpacked: {exc}") from exc
    if len(part) != size:
        raise DamagedEntry(key, f"a part of it has {len(part)} bytes, not {size}")
    return part


def _unpacked_size(part: bytes) -> int:
    """The bytes that a compressed part says it unpacks to; -1 for one that says nothing."""
    try:
        return zstandard.frame_content_size(part)
    except zstandard.ZstdError:
        return -1


_json = msgspec.json.Encoder().encode
_replies = msgspec.json.Decoder(Reply)
_requests = msgspec.json.Decoder(Request)


def write_reply(reply: Reply) -> bytes:
    """StoreError, naming the field, unless the reply can be read back equal.

    Refused here, where the caller can be told, rather than found unreadable later.
    """
    try:
        data = _json(reply)
        if read_reply("", data, reply.call) == reply:
            return data
        reason = "it would not be read back equal"
    except (UnicodeEncodeError, TypeError, DamagedEntry) as exc:
        reason = exc.reason if isinstance(exc, DamagedEntry) else str(exc)
    try:
        plain(reply)
    except AddressError as exc:
        reason = str(exc)
    raise StoreError(f"a reply of {reply.served_model!r} cannot be stored: {reason}")


def read_reply(key: str, data: bytes, address: str) -> Reply:
    """The reply, stamped with the address that it answers. DamagedEntry if it is none."""
    try:
        reply = _replies.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise DamagedEntry(key, f"what it holds is no reply: {exc}") from exc
    # In place: nothing else refers to it yet.
    force_setattr(reply, "call", address)
    return reply


def read_call(key: str, data: bytes) -> Call:
    """The call behind its canonical JSON. DamagedEntry if there is none."""
    try:
        if (schema := int(data[1 : data.index(b",")])) != SCHEMA:
            raise DamagedEntry(key, f"its call is of schema {schema}; this version reads {SCHEMA}")
        opening, _, draw = data.removesuffix(b"}]").rpartition(b',"draw":')
        call = Call(_request(opening), tuple(orjson.loads(draw)))
        # Equal bytes prove that nothing stands there that was not read.
        if call.canonical != data:
            raise ValueError("it is not canonical")
    except (ValueError, TypeError) as exc:
        raise DamagedEntry(key, f"what it holds is no call: {exc!r}") from exc
    return call


@lru_cache(32)
def _request(opening: bytes) -> Request:
    """The request of calls whose canonical JSON begins so, up to the draw: the drafts of one turn
    differ in nothing else, and are read one after another."""
    return _requests.decode(opening[opening.index(b",") + 1 :] + b"}")


SIZE = 32
"""Bytes of the sha256 in front of a value."""


def add_checksum(key: str, value: bytes) -> bytes:
    return hashlib.sha256(b"%b\0%b" % (key.encode(), value)).digest() + value


def strip_checksum(key: str, sealed: bytes) -> bytes:
    """The value that was sealed under this key. DamagedEntry if anything of it was altered."""
    value = sealed[SIZE:]
    # No key contains a zero byte: where the key ends and the value begins is never in doubt.
    if hashlib.sha256(b"%b\0%b" % (key.encode(), value)).digest() != sealed[:SIZE]:
        raise DamagedEntry(key, "its checksum does not match")
    return value
