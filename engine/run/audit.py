"""Comparing a record with the replies that it was made of: model, stop reason, tokens and words."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from ...cache.address import store_key
from ...cache.cache import TagsOf
from ...cache.record import read_record
from ...cache.store import Reader
from ...protocols.transcript import Verdict
from .record.capture import stated_settings
from .record.values import CallCost, RecordedCall, RecordedCell

MAY_DIFFER = {"dollars", "origin", "at", "came", "elsewhere", "drafts"}
"""Fields in which two runs of one sweep may differ: time, source and price of a reply."""
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
WORDS = ("text", "outcome", "tool_calls", "reasoning")
NO_REPLY = "it has no reply"


def unlike(then: msgspec.Struct, now: msgspec.Struct) -> Iterator[tuple[str, Any, Any]]:
    """(field, value of the one, value of the other) where two values differ."""
    for field in then.__struct_fields__:
        one, other = getattr(then, field), getattr(now, field)
        if isinstance(one, CallCost):
            yield from unlike(one, other)
        elif one != other and field not in MAY_DIFFER:
            yield field, one, other


def difference_of_cells(then: RecordedCell, now: RecordedCell) -> str:
    """The first difference of two records of a cell, as `turn 2, text: … recorded, … now`; empty
    if they agree. A failed cell may have ended before some of its calls."""
    one, other = then.outcome, now.outcome
    if isinstance(one, Verdict) and isinstance(other, Verdict):
        parts = [
            ("turn", one.transcript.turns, other.transcript.turns),
            ("judgement", one.judgements, other.judgements),
            ("call", then.calls, now.calls),
        ]
    else:
        common = {call.address for call in then.calls} & {call.address for call in now.calls}
        calls, calls_now = ([c for c in cell.calls if c.address in common] for cell in (then, now))
        parts = [("call", tuple(calls), tuple(calls_now))]
    for name, ours, theirs in parts:
        for number, pair in enumerate(zip(ours, theirs, strict=False), 1):
            for field, was, is_now in unlike(*pair):
                return f"{name} {number}, {field}: {was!r:.200} recorded, {is_now!r:.200} now"
        if len(ours) != len(theirs):
            return f"{name}s: {len(ours)} recorded, {len(theirs)} now"
    return ""


def unlike_replies(
    cells: Iterable[RecordedCell], store: Reader, tags: TagsOf
) -> Iterator[tuple[RecordedCell, str]]:
    """Each recorded call that differs from its stored reply, with the first cell that asked it, as
    `call 0123456789ab, stop_reason: 'end' recorded, 'cut' in its reply`, or `…: no reply`.

    DamagedEntry for a stored reply that cannot be read.
    """
    compared = set[RecordedCall]()
    for cell in cells:
        for asked_here in cell.calls:
            call = replace(asked_here, role="", seat="", heard=0)
            if call in compared:
                continue
            compared.add(call)
            stored = _stored(call, store, tags)
            named = f"call {call.address[:12]}"
            if stored is None:
                yield cell, f"{named}: {NO_REPLY}"
            elif found := next(unlike(call, stored), None):
                field, was, in_store = found
                yield cell, f"{named}, {field}: {was!r:.60} recorded, {in_store!r:.60} in its reply"


def _stored(call: RecordedCall, store: Reader, tags: TagsOf) -> RecordedCall | None:
    """A recorded call with all that its stored reply says; the rest stays as it is recorded."""
    key = store_key(call.address, call.cost.identity)
    value = store.get(key)
    if value is None:
        # The record may name the wrong endpoint.
        key = next(store.keys(call.address), key)
        value = store.get(key)
    if value is None:
        return None
    record = read_record(key, value)
    reply, known_tags = record.reply(), tags(record.model)
    if known_tags:
        reply = reply.split(known_tags)
    tokens = {name: getattr(reply.usage, name) for name in TOKENS}
    source = {"identity": record.identity, "served": reply.served_model}
    cost = replace(call.cost, stop_reason=reply.stop_reason, **source, **tokens)
    if record.call_size:
        sent = record.call()
        call = replace(call, draw=sent.draw, settings=stated_settings(sent.request))
    words = {name: getattr(reply, name) for name in WORDS}
    return replace(call, model=record.model, cost=cost, **words)
