"""Merging the entries of a store or bundle into a store: each is checked, stored ones are kept."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .call import Call
from .errors import DamagedEntry
from .record import LEAST_SHARED, PLAIN, SHARING, Record, checked_records, read_record
from .store import Store

_BATCH = 512
"""Entries in one transaction."""


@dataclass(frozen=True, slots=True)
class MergeStatistics:
    """Counts of the entries that were read, by what became of them."""

    new: int
    """Stored."""
    known: int
    """The store had the same reply already."""
    other: int
    """The store had another reply to the same call, and kept it."""
    damaged: tuple[DamagedEntry, ...]
    """Left out."""


def merge(
    entries: Iterable[tuple[str, bytes | DamagedEntry]],
    store: Store,
    *,
    foreign: bool = False,
    shared: Callable[[Call], str] = lambda call: "",
) -> MergeStatistics:
    """Store what is new, after checking that it is a whole record under its own key.

    foreign: whether the entries came in a file: then the origins of their replies say so. shared:
    as `Cache` has it.

    What is stored already is never replaced: a run that was served one reply must be served it
    again. Only a damaged entry is, which cannot be served.

    Raises: StoreFull, StoreError; what was stored until then stays.
    """
    new = known = other = 0
    damaged: list[DamagedEntry] = []
    waiting: list[tuple[str, bytes]] = []
    for key, record in checked_records(entries):
        if isinstance(record, DamagedEntry):
            damaged.append(record)
            continue
        if foreign:
            record = record.imported()
        try:
            value = store.get(key)
            kept = None if value is None else read_record(key, value)
            said = None if kept is None else replace(kept.reply(), origin="")
        except DamagedEntry:
            store.put_many([(key, _packed(record, shared))])
            new += 1
            continue
        if kept is None:
            new += 1
            waiting.append((key, _packed(record, shared)))
        elif said == replace(record.reply(), origin=""):
            known += 1
            if kept.form == SHARING and not kept.shared_part:
                waiting.append((key, _packed(record, shared)))  # for the text that it shares
        else:
            other += 1
        if len(waiting) == _BATCH:
            store.keep_many(waiting)
            waiting.clear()
    store.keep_many(waiting)
    return MergeStatistics(new, known, other, tuple(damaged))


def _packed(record: Record, shared: Callable[[Call], str]) -> bytes:
    long = record.form == PLAIN and record.call_size >= LEAST_SHARED
    return record.packed(shared(record.call()) if long else "").to_bytes()
