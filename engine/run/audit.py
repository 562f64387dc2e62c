"""Comparing a record with the replies that it was made of: model, stop reason, tokens and words."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from ...cache.address import store_key
from ...cache.cache import TagsOf
from ...cache.record import read_record
from ...cache.store import Reader
from ...protocols.transcript import Verdict
from .record.capture import stated_settings
from .record.schema import FAILED
from .record.tables import RunTables
from .record.values import CallCost, RecordedCall, RecordedCell

MAY_DIFFER = {"dollars", "origin", "at", "came", "elsewhere", "drafts"}
"""Fields in which two runs of one sweep may differ: time, source and price of a reply."""


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
    calls, calls_now = then.calls, now.calls
    parts: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]] = []
    if isinstance(then.outcome, Verdict) and isinstance(now.outcome, Verdict):
        turns, turns_now = (end.transcript.turns for end in (then.outcome, now.outcome))
        parts.append(("turn", turns, turns_now))
        parts.append(("judgement", then.outcome.judgements, now.outcome.judgements))
    else:
        both = {call.address for call in calls} & {call.address for call in calls_now}
        calls, calls_now = (
            tuple(call for call in some if call.address in both) for some in (calls, calls_now)
        )
    for name, ours, theirs in (*parts, ("call", calls, calls_now)):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
            for field, was, is_now in unlike(one, other):
                return f"{name} {number}, {field}: {was!r:.200} recorded, {is_now!r:.200} now"
        if len(ours) != len(theirs):
            return f"{name}s: {len(ours)} recorded, {len(theirs)} now"
    return ""


def unlike_replies(
    tables: RunTables, store: Reader, tags: TagsOf
) -> Iterator[tuple[int, RecordedCall, str]]:
    """(number, call, difference) of each recorded call that differs from its stored reply.

    DamagedEntry for a stored reply that cannot be read.
    """
    for rows in tables.batches("calls", "call"):
        numbers = [row[0] for row in rows]
        calls = tables.calls(numbers)
        for number in numbers:
            difference = difference_of_reply(calls[number], store, tags)
            if difference is not None:
                yield number, calls[number], difference


def difference_of_reply(call: RecordedCall, store: Reader, tags: TagsOf) -> str | None:
    """How a recorded call differs from its stored reply, as `stop_reason: 'end' recorded, 'cut' in
    its reply`; None if it does not, and empty if the store lacks the reply."""
    stored = _stored(call, store, tags)
    if stored is None:
        return ""
    for field, recorded, in_store in unlike(call, stored):
        return f"{field}: {recorded!r:.60} recorded, {in_store!r:.60} in its reply"
    return None


def first_places(tables: RunTables) -> dict[int, tuple[int, bool]]:
    """By number of a call, the first cell that asked it, and whether all that did so failed."""
    places: dict[int, tuple[int, bool]] = {}
    failed = {place for place, status in tables.statuses() if status == FAILED}
    for place, _, _, body in tables.bodies():
        for call in body.calls[1::2]:
            if call not in places or (places[call][1] and place not in failed):
                places[call] = place, place in failed
    return places


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
    usage = reply.usage
    cost = replace(
        call.cost,
        identity=record.identity,
        served=reply.served_model,
        stop_reason=reply.stop_reason,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    if record.call_size:
        request = record.call()
        call = replace(call, draw=request.draw, settings=stated_settings(request.request))
    return replace(
        call,
        model=record.model,
        text=reply.text,
        outcome=reply.outcome,
        tool_calls=reply.tool_calls,
        reasoning=reply.reasoning,
        cost=cost,
    )
