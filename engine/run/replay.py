"""Replaying: cells run again from recorded replies alone, and what is recorded compared with them.
No socket is ever opened."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from ...cache.cache import EXPLAINED_MISSES, Cache, TagsOf, no_tags
from ...cache.call import Call, Identity, store_key
from ...cache.errors import ReplayMiss
from ...cache.record import read_record
from ...cache.reply import Reply
from ...cache.store import Reader
from ...protocols.transcript import Verdict
from ..stop import StopToken
from ..sweep.sweep import Cell
from .lanes import REPLAY_LANES, NotedOutcome, attempt_noted, run_lanes
from .order import Plain
from .outcome import OutcomeRecord
from .record.capture import stated_settings
from .record.values import CallCost, RecordedCall, RecordedCell

MAY_DIFFER = {"dollars", "origin", "at", "came", "elsewhere", "drafts"}
"""Fields in which two runs of one sweep may differ: time, source and price of a reply."""
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
WORDS = ("text", "outcome", "tool_calls", "reasoning")
NO_REPLY = "it has no reply"


async def unreachable(call: Call) -> Reply:
    """The `Ask` behind a replay's cache. The cache raises before it would ask."""
    raise ReplayMiss(call.model, "", "nothing is asked in a replay")


def replay_cache(
    store: Reader,
    identity: Identity,
    *,
    tags: TagsOf = no_tags,
    explained: int = EXPLAINED_MISSES,
) -> Cache:
    """A cache that answers from `store` alone. tags, explained: as `Cache` has them."""
    return Cache(
        store, unreachable, identity=identity, mode="replay", explained=explained, tags=tags
    )


async def replay_cells(
    cells: Iterable[Cell],
    store: Reader,
    identity: Identity,
    keep: Callable[[Cell, NotedOutcome], None],
    *,
    tags: TagsOf = no_tags,
) -> None:
    """Run cells again, and pass each outcome with its notes to `keep`.

    ReplayMiss at the first call that was never recorded; StoreFailed at the first record that is
    damaged: a replay of a part must not pass for one of the whole.
    """
    stop_token = StopToken()
    attempted = partial(attempt_noted, ask=replay_cache(store, identity, tags=tags))
    await run_lanes(Plain(cells), attempted, keep, lanes=REPLAY_LANES, stop_token=stop_token)
    stop_token.raise_if_stopped()


def difference(recorded: OutcomeRecord, replayed: OutcomeRecord) -> str:
    """What differs between two outcomes of one cell, as `probs: [0.2,0.8] recorded, [0.3,0.7] now`;
    empty if nothing does. Its id is of its settings, and says nothing of what came out."""
    then, now = orjson.loads(recorded.line), orjson.loads(replayed.line)
    for key in dict.fromkeys((*then, *now)):
        if key != "cell" and then.get(key) != now.get(key):
            shown = (
                f"{orjson.dumps(each[key]).decode():.200}" if key in each else "nothing"
                for each in (then, now)
            )
            return f"{key}: {next(shown)} recorded, {next(shown)} now"
    return ""


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
