"""Merging the entries of a store or bundle into a store: each is checked, stored ones are kept."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from .call import Call
from .errors import DamagedEntry
from .record import LEAST_SHARED, PLAIN, Record, read_record, records
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
    """Store what is new, after checking that it is a whole record under its own key. One whose
    passage is lost is taken too, unless it is foreign: its reply is whole.

    foreign: whether the entries came in a file: then the origins of their replies say so. shared:
    as `Cache` has it.

    What is stored already is never replaced: a run that was served one reply must be served it
    again. Only a damaged entry is, which cannot be served; and a passage that the store has lost
    comes back.

    Raises: StoreFull, StoreError; what was stored until then stays.
    """
    new = known = other = 0
    damaged: list[DamagedEntry] = []
    waiting: list[tuple[str, bytes]] = []
    for key, record in records(entries):
        try:
            if isinstance(record, DamagedEntry):
                raise record
            if foreign or not record.lost_passage:
                record.check()
            else:
                record.reply()
        except DamagedEntry as damage:
            damaged.append(damage)
            continue
        if foreign:
            record = record.imported()
        try:
            kept = _kept(store, key)
        except DamagedEntry:
            store.put_many([(key, _packed(record, shared).to_bytes())])
            new += 1
            continue
        if kept is None:
            new += 1
            waiting.append((key, _packed(record, shared).to_bytes()))
        elif replace(kept.reply(), origin="") == replace(record.reply(), origin=""):
            known += 1
            if kept.lost_passage and not record.lost_passage:
                store.put_many([(key, _completed(kept, record, shared).to_bytes())])
        else:
            other += 1
        if len(waiting) == _BATCH:
            store.keep_many(waiting)
            waiting.clear()
    store.keep_many(waiting)
    return MergeStatistics(new, known, other, tuple(damaged))


def _packed(record: Record, shared: Callable[[Call], str]) -> Record:
    long = record.form == PLAIN and record.call_size >= LEAST_SHARED
    return record.packed(shared(record.call()) if long else "")


def _completed(kept: Record, record: Record, shared: Callable[[Call], str]) -> Record:
    """What a store has kept, with the whole call of an equal record."""
    return replace(
        _packed(record, shared),
        stored_at=kept.stored_at,
        reply_size=kept.reply_size,
        reply_part=kept.reply_part,
    )


def _kept(store: Store, key: str) -> Record | None:
    value = store.get(key)
    if value is None:
        return None
    record = read_record(key, value)
    record.reply()  # or it is damaged
    return record
