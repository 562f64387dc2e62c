"""The stored form of one call: time, endpoint, reply, and the call itself.

    head        form, outcome, time, and the lengths of the parts; `_HEAD`
    identity    of the endpoint that answered, UTF-8
    model       as the call names it, UTF-8
    reply       JSON, compressed
    call        the canonical JSON whose sha256 is the call's address, compressed
    shared      in some: the common beginning of the prompt, compressed, cut out of `call`

Separate parts let a hit unpack the reply alone, and a listing neither. They also let a store keep a
common part once, such as a passage of 30 kB in fifty calls.

A stored value has a checksum that covers its key too: a flipped bit in an index can return an
intact value under another key.
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
"""Form in stores: reply and call are compressed separately, with a dictionary of common prompts and
JSON keys. This halves size and packing time, and each entry can be read without the others."""
DICTIONARY = "data/record-1.zdict"
"""The dictionary belongs to the form and never changes: another one would be another form."""
PLAIN = 2
"""Form with uncompressed parts: new entries, and entries in a portable file."""
SHARING = 3
SHARES = bytes([SHARING])
LEAST_SHARED = 4096
"""Minimum characters of a common beginning that is stored separately."""

MAX_UNPACKED_BYTES = 2**28
"""Maximum bytes of a reply or a call; an entry that claims more is damaged, and is not unpacked."""

IMPORTED = "imported"
"""First word of the origin of a reply that came in a file."""

_LEVEL = 3

MAX_TIME = 253_370_764_800
"""Maximum time, in seconds since 1970, that datetime can represent."""

_HEAD = struct.Struct("<BBQHHIIII")
_PLACE = struct.Struct("<I")
"""Position of the shared part in the call's JSON, in bytes; precedes that part."""
_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class _Zstd(threading.local):
    """Compressor and decompressor, one pair per thread since they must not be shared."""

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
"""Packs and unpacks values with the dictionary; ZstdError for values that were packed otherwise."""


def make_ready() -> None:
    """Load the dictionary now: packing the first paid reply must not have to open a file."""
    _dictionary()


class StoreEntry(Struct, frozen=True, gc=False):
    """One stored call; reply and call are unpacked on demand."""

    key: str
    form: int
    outcome: Outcome
    stored_at: int
    """Seconds since 1970, by the clock of the storing machine."""
    identity: str
    model: str
    reply_size: int
    reply_part: bytes
    call_size: int
    """Bytes of the call's JSON, the shared part included; 0 for a reply without its request."""
    call_part: bytes
    shared_part: bytes = b""
    """Empty unless the form is `SHARING`, or if the store has lost it."""
    shared_at: int = 0

    @property
    def lost_passage(self) -> bool:
        """Whether the store has lost the shared part; the reply is intact."""
        return self.form == SHARING and not self.shared_part

    @property
    def address(self) -> str:
        return self.key.partition(".")[0]

    def reply(self) -> Reply:
        """The reply. DamagedEntry if it cannot be read."""
        data = _unpacked(self.key, self.form, self.reply_part, self.reply_size)
        return read_reply(self.key, data, self.address)

    def call(self) -> Call:
        """The call. DamagedEntry if it cannot be read; RequestLeftOut if it was left out."""
        if not self.call_size:
            raise RequestLeftOut(self.key)
        return read_call(self.key, self._asked())

    def check(self) -> None:
        """Raise DamagedEntry unless key, endpoint, call and reply can be read and belong
        together."""
        call = self.call()
        if self.key != store_key(call.address, self.identity):
            raise DamagedEntry(self.key, "its call or endpoint belongs to another key")
        data = _unpacked(self.key, self.form, self.reply_part, self.reply_size)
        read_reply(self.key, data, self.address)
        # Compared as written: reading a reply may change its outcome.
        if (call.model, orjson.loads(data).get("outcome", "ok")) != (self.model, self.outcome):
            raise DamagedEntry(self.key, "its head does not match its call and reply")

    def plain(self) -> "StoreEntry":
        return replace(
            self,
            form=PLAIN,
            reply_part=_unpacked(self.key, self.form, self.reply_part, self.reply_size),
            call_part=self._asked(),
            shared_part=b"",
            shared_at=0,
        )

    def imported(self) -> "StoreEntry":
        """This entry, with an origin that says it was imported from a file."""
        reply = self.reply()
        if reply.origin.startswith(IMPORTED):
            return self
        came = replace(reply, call="", origin=f"{IMPORTED} {reply.origin}".rstrip())
        written = write_reply(came)
        part = written if self.form == PLAIN else zstd.pack(written)
        return replace(self, outcome=came.outcome, reply_size=len(written), reply_part=part)

    def packed(self, shared: str = "") -> "StoreEntry":
        """This entry in the compressed form. shared: the common beginning of its prompt, which
        becomes a separate part if it is long."""
        if self.form != PLAIN:
            return self
        call, part, at = self.call_part, b"", 0
        if len(shared) >= LEAST_SHARED:
            text, packed = _packed_text(shared)
            before, match, after = call.partition(text)
            if match:
                part, call, at = packed, before + after, len(before)
        return replace(
            self,
            form=SHARING if part else PACKED,
            reply_part=zstd.pack(self.reply_part),
            call_part=zstd.pack(call),
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
        key, size, at = self.key, self.call_size, self.shared_at
        if self.form != SHARING:
            return _unpacked(key, self.form, self.call_part, size)
        if self.lost_passage:
            raise PassageLost(key)
        try:
            length = zstandard.frame_content_size(self.shared_part)
        except zstandard.ZstdError:
            length = -1
        if not 0 <= length <= size - at:
            raise DamagedEntry(key, "the passage that its call shares does not fit into it")
        text = _unpacked(key, PACKED, self.shared_part, length)
        remainder = _unpacked(key, PACKED, self.call_part, size - length)
        return remainder[:at] + text + remainder[at:]


def source(origin: str) -> str:
    """The origin without the run: `live ADDRESS`, `batch ADDRESS`, `imported` or `unknown`."""
    words = origin.split()
    if not words:
        return "unknown"
    return words[0] if words[0] in ("simulated", IMPORTED) else " ".join(words[:2])


@lru_cache(maxsize=64)  # consecutive calls belong to the same problem
def _packed_text(text: str) -> tuple[bytes, bytes]:
    """A text as JSON, plain and compressed."""
    written = orjson.dumps(text)[1:-1]
    return written, zstd.pack(written)


def split_shared(value: bytes) -> tuple[bytes, bytes]:
    """An entry's bytes, split before the shared part, which may be empty. DamagedEntry."""
    if value[:1] != SHARES:
        return value, b""
    _, _, _, identity, model, _, reply, _, call = _head("", value)
    end = _HEAD.size + identity + model + reply + call + _PLACE.size
    return value[:end], value[end:]


def new_entry(key: str, call: Call, reply: Reply, identity: str, stored_at: int) -> StoreEntry:
    """The unpacked entry of a reply. StoreError, which names the field, if it could not be read
    back equal. stored_at: seconds since 1970, clipped to the valid range: a wrong clock must not
    cost a paid reply."""
    written, call_json = write_reply(reply), call.canonical
    return StoreEntry(
        key,
        PLAIN,
        reply.outcome,
        min(max(stored_at, 0), MAX_TIME),
        identity,
        call.request.model,
        len(written),
        written,
        len(call_json),
        call_json,
    )


def read_entry(key: str, value: bytes) -> StoreEntry:
    """Parse an entry without unpacking its parts. DamagedEntry."""
    form, outcome, at, identity, model, reply_size, reply, call_size, call = _head(key, value)
    if at > MAX_TIME:
        raise DamagedEntry(key, f"its time of storage {at} is invalid")
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
    """Parse the entries of `Reader.items`; damaged ones become their DamagedEntry."""
    for key, value in entries:
        try:
            yield key, value if isinstance(value, DamagedEntry) else read_entry(key, value)
        except DamagedEntry as damage:
            yield key, damage


def checked_entries(
    entries: Iterable[tuple[str, bytes | DamagedEntry]],
) -> Iterator[tuple[str, StoreEntry | DamagedEntry]]:
    """As `read_entries`, but unpack each entry and check it against its key."""
    for key, entry in read_entries(entries):
        try:
            if isinstance(entry, StoreEntry):
                entry.check()
            yield key, entry
        except DamagedEntry as damage:
            yield key, damage


def stored_reply(key: str, value: bytes, address: str) -> Reply:
    """Only the reply, with its address set: the hot path of a cache hit."""
    form, _, _, identity, model, size, length, _, _ = _head(key, value)
    start = _HEAD.size + identity + model
    return read_reply(key, _unpacked(key, form, value[start : start + length], size), address)


def _head(key: str, value: bytes) -> tuple[int, int, int, int, int, int, int, int, int]:
    if len(value) < _HEAD.size:
        raise DamagedEntry(key, f"it ends in its head, after {len(value)} bytes")
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


_json = msgspec.json.Encoder().encode
_replies = msgspec.json.Decoder(Reply)
_requests = msgspec.json.Decoder(Request)


def write_reply(reply: Reply) -> bytes:
    """The reply as JSON. StoreError, which names the field, unless it can be read back equal.
    Refused here, where the caller can be told, and not found unreadable later."""
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
    """The reply, with the address that it answers. DamagedEntry if the data is not a reply."""
    try:
        reply = _replies.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise DamagedEntry(key, f"its reply cannot be read: {exc}") from exc
    # In place: nothing else refers to it yet.
    force_setattr(reply, "call", address)
    return reply


def read_call(key: str, data: bytes) -> Call:
    """The call of some canonical JSON. DamagedEntry if the data is not a call."""
    try:
        if (schema := int(data[1 : data.index(b",")])) != SCHEMA:
            raise DamagedEntry(key, f"its call is of schema {schema}; this version reads {SCHEMA}")
        opening, _, draw = data.removesuffix(b"}]").rpartition(b',"draw":')
        call = Call(_request(opening), tuple(orjson.loads(draw)))
        # Equal bytes prove that the data holds nothing else.
        if call.canonical != data:
            raise ValueError("it is not canonical")
    except (ValueError, TypeError) as exc:
        raise DamagedEntry(key, f"its call cannot be read: {exc!r}") from exc
    return call


@lru_cache(32)
def _request(opening: bytes) -> Request:
    """The request of calls whose canonical JSON starts like this. Cached, since the drafts of one
    turn differ only in their draw."""
    return _requests.decode(opening[opening.index(b",") + 1 :] + b"}")


SIZE = 32


def add_checksum(key: str, value: bytes) -> bytes:
    return hashlib.sha256(b"%b\0%b" % (key.encode(), value)).digest() + value


def strip_checksum(key: str, sealed: bytes) -> bytes:
    """The value without its checksum. DamagedEntry if value or key was altered."""
    value = sealed[SIZE:]
    # Keys contain no zero byte, so the boundary between key and value is unambiguous.
    if hashlib.sha256(b"%b\0%b" % (key.encode(), value)).digest() != sealed[:SIZE]:
        raise DamagedEntry(key, "its checksum does not match")
    return value
