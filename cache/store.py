"""The interface of stores (`Reader`, `Store`), and a store in memory."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar
from uuid import uuid4

from .errors import DamagedEntry, StoreError


class Reader(ABC):
    """Values by key, read only. Keys are printable ASCII.

    A value is complete, or `DamagedEntry` is raised. Other threads and processes may write
    meanwhile."""

    @property
    def id(self) -> str:
        """Identifies this store wherever it is moved; empty if unknown."""
        return ""

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """The value, or None. DamagedEntry if it was altered."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes | DamagedEntry]:
        """The values of the keys that exist; DamagedEntry for damaged ones."""
        values: dict[str, bytes | DamagedEntry] = {}
        for key in keys:
            try:
                value = self.get(key)
            except DamagedEntry as damage:
                values[key] = damage
            else:
                if value is not None:
                    values[key] = value
        return values

    @abstractmethod
    def keys(self, prefix: str = "") -> Iterator[str]:
        """Every key that starts with `prefix`, in order. Entries may come and go meanwhile."""

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes | DamagedEntry]]:
        """Every entry in key order, with DamagedEntry as the value if it is damaged."""
        for key in self.keys(prefix):
            yield from self.get_many([key]).items()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def close(self) -> None:
        """Release files. Nothing acknowledged is lost; safe to call twice."""


class Store(Reader):
    """A reader that also writes: no eviction, no expiry, and overwriting only on request.

    Implement `get`, `keys`, `__len__`, `close`, `put_many`, `keep_many` and `delete_many`. Rules:

    - Check keys (`checked_key`). Values are opaque bytes. Add a checksum (`add_checksum`) if the
      medium has none, so that an altered value is a `DamagedEntry`, never a reply.
    - Reads come from the event loop's thread, one block of keys at a time (`get_many`). Writes come
      from one other thread at the same time, if `waits_for_disk`.
    - A write that returns is durable. Otherwise raise StoreFull if no room is left, StoreGone if
      the store is gone, else StoreError. These end the run, which can be resumed.
    - The first of two writing processes wins (`keep_many`), and the second is told.
    - `id` lets a run detect later that it has been given another store.
    """

    waits_for_disk: ClassVar[bool] = True
    """Whether `put_many` may block; then it is called from a writer thread, not from the event
    loop."""

    def check(self) -> None:
        """Raise StoreGone if the store was deleted or replaced: new entries could not be found."""
        return None

    @abstractmethod
    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        """Store all entries in one transaction, replacing existing ones. StoreFull, StoreError. On
        return, all of it survives a power failure."""

    @abstractmethod
    def keep_many(self, entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        """Store the entries whose keys have no value yet, as durably as `put_many`. Returns the
        existing values that differ from the new ones. A run must always be served the same reply,
        so callers use these."""

    @abstractmethod
    def delete_many(self, keys: Iterable[str]) -> int:
        """Remove entries in one transaction; returns how many existed."""

    def require_rights(self) -> None:
        """Write, read and delete one entry, before anything is paid for. StoreError, StoreFull. A
        store with transactions uses one, so that other processes do not see the entry."""
        key, value = f"trial {uuid4().hex}", b"trial"
        self.put_many([(key, value)])
        stored, deleted = self.get(key), self.delete_many([key])
        if (stored, deleted, self.get(key)) != (value, 1, None):
            raise StoreError(f"{self!r} fails to store and delete entries: use another store")

    def drop_unused(self) -> None:
        """Remove data that only deleted entries used."""
        return None

    def close_thread(self) -> None:
        """Release resources of the calling thread; a writing thread calls this at its end."""
        return None


def checked_key(key: str) -> str:
    """The key. ValueError if it is empty or not printable ASCII."""
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError(f"key {key!a}: not printable ASCII")
    return key


class MemoryStore(Store):
    """A store that lasts as long as the process."""

    waits_for_disk = False

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        # All keys are checked first: all entries are stored, or none.
        self._values |= {checked_key(key): value for key, value in entries}

    def keep_many(self, entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        checked = [(checked_key(key), value) for key, value in entries]
        return {
            key: first
            for key, value in checked
            if (first := self._values.setdefault(key, value)) != value
        }

    def delete_many(self, keys: Iterable[str]) -> int:
        return sum(self._values.pop(key, None) is not None for key in keys)

    def keys(self, prefix: str = "") -> Iterator[str]:
        return iter(sorted(key for key in self._values if key.startswith(prefix)))

    def __len__(self) -> int:
        return len(self._values)

    def close(self) -> None:
        """Nothing to release."""
