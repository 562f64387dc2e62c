"""Why two calls are not one: their differences, and the recorded call that differs least."""

import heapq
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, zip_longest

from msgspec import Struct

from .call import Call, Message, Request
from .entry import StoreEntry, read_entries
from .errors import DamagedEntry
from .store import Reader

MAX_READ = 100_000
"""Maximum number of entries that a search for the nearest call reads."""
MAX_COMPARED = 2_000
"""Maximum number of those, the ones closest in length, whose words are compared."""
TEXT_WEIGHT = 10.0
"""Weight of a wholly different text, in differing fields."""

_MAX_WHOLE = 40
"""Maximum length, in characters, of differing texts that are shown whole."""
_MAX_SHOWN = 24
"""Characters shown of a longer text, from where it differs."""


@dataclass(frozen=True, slots=True)
class NearestCall:
    """What was recorded that is most like a call that was not."""

    record: StoreEntry | None
    """None if nothing is recorded for the model."""
    differences: tuple[str, ...]
    """What differs between the recorded call and the one asked for, one line each."""
    partial: bool
    """Whether the store holds more than was searched."""

    def __str__(self) -> str:
        within = f" (of the first {MAX_READ:,} entries)" if self.partial else ""
        if self.record is None:
            return f"no call to that model was ever recorded{within}, or requests were left out"
        what = "; ".join(self.differences)
        return f"nearest recorded call {self.record.address[:12]}{within} differs in: {what}"


def differences(old: Call, new: Call) -> tuple[str, ...]:
    """One line for each place in which two calls differ; none if they are one call."""
    return (
        *_differences("", old.request, new.request),
        *_differences("draw", old.draw, new.draw),
    )


def nearest_recorded(store: Reader, call: Call, identity: str) -> NearestCall:
    """The most similar call to the same model, by its settings and the words of its messages.

    identity: the endpoint that would be asked. The same call to another endpoint is nearest.
    Takes about a second where there are MAX_READ entries or more.
    """
    for _, record in read_entries(store.items(call.address)):
        if isinstance(record, StoreEntry):
            return NearestCall(record, (f"endpoint {record.identity!r} -> {identity!r}",), False)
    best: tuple[float, StoreEntry, Call] | None = None
    for record in _alike_in_size(store, call):
        with suppress(DamagedEntry):
            recorded = record.call()
            distance = _distance(recorded, call)
            if best is None or distance < best[0]:
                best = distance, record, recorded
    partial = len(store) > MAX_READ
    if best is None:
        return NearestCall(None, (), partial)
    return NearestCall(best[1], differences(best[2], call), partial)


def _alike_in_size(store: Reader, call: Call) -> list[StoreEntry]:
    """The calls to the same model that are nearest in length: unpacking is what takes time."""
    size = len(call.canonical)
    recorded = (
        record
        for _, record in read_entries(islice(store.items(), MAX_READ))
        if isinstance(record, StoreEntry) and record.model == call.model
    )
    return heapq.nsmallest(MAX_COMPARED, recorded, key=lambda record: abs(record.call_size - size))


def _differences(place: str, old: object, new: object) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, Struct) and type(old) is type(new):
        for name in old.__struct_fields__:
            inner = f"{place}.{name}" if place else name
            yield from _differences(inner, getattr(old, name), getattr(new, name))
    elif isinstance(old, tuple) and isinstance(new, tuple) and any(map(_is_struct, old + new)):
        for n, (before, after) in enumerate(zip_longest(old, new)):
            yield from _differences(f"{place}[{n}]", before, after)
    elif isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > _MAX_WHOLE:
        at = _shared_start(old, new)
        yield f"{place} differs at character {at}: {_from(old, at)} -> {_from(new, at)}"
    else:
        yield f"{place} {_shown(old)} -> {_shown(new)}"


def _is_struct(value: object) -> bool:
    return isinstance(value, Struct)


def _shown(value: object) -> str:
    if value is None:
        return "unset"
    return f"a {type(value).__name__}" if _is_struct(value) else repr(value)


def _from(text: str, at: int) -> str:
    more = "…" if len(text) > at + _MAX_SHOWN else ""
    return f"{text[at : at + _MAX_SHOWN]!r}{more}" if at < len(text) else "its end"


def _distance(recorded: Call, call: Call) -> float:
    """0 for one and the same call; 1 for each setting that differs, and up to TEXT_WEIGHT more."""
    names = (name for name in Request.__struct_fields__ if name != "messages")
    others = sum(
        bool(getattr(recorded.request, name) != getattr(call.request, name)) for name in names
    )
    return (
        others
        + (recorded.draw != call.draw)
        + TEXT_WEIGHT * _text_distance(recorded.messages, call.messages)
    )


def _text_distance(old: tuple[Message, ...], new: tuple[Message, ...]) -> float:
    """The part of the messages' characters that is not shared at a start or an end, in [0, 1]."""
    if old == new:
        return 0.0
    shared, total = 0, 1
    for before, after in zip_longest(old, new, fillvalue=Message("user", "")):
        shorter, longer = sorted((len(before.text), len(after.text)))
        total += longer
        start = _shared_start(before.text, after.text)
        # What remains of both is compared from its end, so that nothing counts twice.
        rest = before.text[start:][::-1], after.text[start:][::-1]
        shared += min(start + _shared_start(*rest), shorter)
    return 1.0 - shared / total


def _shared_start(a: str, b: str) -> int:
    """Length of the longest common prefix: by halving, since comparing slices is what is fast."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
