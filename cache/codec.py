"""Replies and calls as JSON: written so that they are read back equal, and validated when read."""

from functools import lru_cache

import msgspec
import orjson
from msgspec.structs import force_setattr

from .address import plain
from .call import SCHEMA, Call, Request
from .errors import AddressError, DamagedEntry, StoreError
from .reply import Reply

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
