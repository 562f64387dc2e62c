"""Differences between two calls, and the search for the recorded call that differs least."""

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
MAX_COMPARED = 2_000
"""Maximum entries, the closest in length, whose words are compared."""
TEXT_WEIGHT = 10.0
"""Weight of a completely different text, in differing fields."""

_MAX_WHOLE = 40
"""Maximum characters of differing texts that are shown in full."""
_MAX_SHOWN = 24
"""Characters shown of a longer text, from the first difference."""


@dataclass(frozen=True, slots=True)
class NearestCall:
    """The recorded call that is most similar to a missing one."""

    entry: StoreEntry | None
    """None if no call to the model is recorded."""
    differences: tuple[str, ...]
    """One line per difference from the recorded call to the missing one."""
    partial: bool
    """Whether the store holds more entries than were searched."""

    def __str__(self) -> str:
        within = f" (of the first {MAX_READ:,} entries)" if self.partial else ""
        if self.entry is None:
            return f"no recorded call to that model{within}, or requests were left out"
        differences = "; ".join(self.differences)
        return f"nearest recorded call {self.entry.address[:12]}{within} differs in: {differences}"


def differences(old: Call, new: Call) -> tuple[str, ...]:
    """One line per difference between two calls; empty if they are equal."""
    return (*_differences("", old.request, new.request), *_differences("draw", old.draw, new.draw))


def nearest_recorded(store: Reader, call: Call, identity: str) -> NearestCall:
    """The most similar call to the same model, by its settings and the words of its messages.
    identity: the endpoint that would be asked. The same call to another endpoint ranks first. Takes
    about a second with MAX_READ entries or more."""
    for _, entry in read_entries(store.items(call.address)):
        if isinstance(entry, StoreEntry):
            return NearestCall(entry, (f"endpoint {entry.identity!r} -> {identity!r}",), False)
    best: tuple[float, StoreEntry, Call] | None = None
    for entry in _alike_in_size(store, call):
        with suppress(DamagedEntry):
            recorded = entry.call()
            distance = _distance(recorded, call)
            if best is None or distance < best[0]:
                best = distance, entry, recorded
    partial = len(store) > MAX_READ
    if best is None:
        return NearestCall(None, (), partial)
    return NearestCall(best[1], differences(best[2], call), partial)


def _alike_in_size(store: Reader, call: Call) -> list[StoreEntry]:
    """Calls to the same model of similar length: unpacking more would take long."""
    size = len(call.canonical)
    recorded = (
        entry
        for _, entry in read_entries(islice(store.items(), MAX_READ))
        if isinstance(entry, StoreEntry) and entry.model == call.model
    )
    return heapq.nsmallest(MAX_COMPARED, recorded, key=lambda entry: abs(entry.call_size - size))


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
    """0 for equal calls; 1 per differing setting, plus up to TEXT_WEIGHT for the texts."""
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
    """Fraction of the messages' characters outside common starts and ends, in [0, 1]."""
    if old == new:
        return 0.0
    shared, total = 0, 1
    for before, after in zip_longest(old, new, fillvalue=Message("user", "")):
        shorter, longer = sorted((len(before.text), len(after.text)))
        total += longer
        start = _shared_start(before.text, after.text)
        # The remainders are compared from their ends, so that nothing counts twice.
        remainders = before.text[start:][::-1], after.text[start:][::-1]
        shared += min(start + _shared_start(*remainders), shorter)
    return 1.0 - shared / total


def _shared_start(a: str, b: str) -> int:
    """Length of the longest common prefix, by bisection, since comparing slices is fast."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
