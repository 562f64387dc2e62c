"""Where replies are kept: the ports of a store."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar
from uuid import uuid4

from .errors import DamagedEntry, StoreError


class Reader(ABC):
    """Bytes by key, to be read. Keys are printable ASCII.

    Values come back whole or raise `DamagedEntry`. Another thread or process may write meanwhile.
    """

    @property
    def id(self) -> str:
        """What tells this store from all others, wherever it is moved; empty if it has none."""
        return ""

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """The value, or None if there is none. DamagedEntry if it is not what was stored."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes | DamagedEntry]:
        """The values of those keys that have one; for a damaged value, what is wrong with it."""
        found: dict[str, bytes | DamagedEntry] = {}
        for key in keys:
            try:
                value = self.get(key)
            except DamagedEntry as damage:
                found[key] = damage
            else:
                if value is not None:
                    found[key] = value
        return found

    @abstractmethod
    def keys(self, prefix: str = "") -> Iterator[str]:
        """Every key that starts with `prefix`, in order. Entries may come and go meanwhile."""

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes | DamagedEntry]]:
        """Every entry in key order; where one is damaged, what is wrong in place of its value."""
        for key in self.keys(prefix):
            yield from self.get_many([key]).items()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def close(self) -> None:
        """Release files. Nothing acknowledged is lost; safe to call twice."""


class Store(Reader):
    """A reader that also keeps: nothing is overwritten unless asked, and nothing expires.

    Who writes one implements `get`, `keys`, `__len__`, `close`, `put_many`, `keep_many` and
    `delete_many`, and keeps to this:

    - Keys are checked (`checked_key`). Values are bytes that it does not look into. It adds a
      checksum of its own (`add_checksum`) where what it rests on has none, so that a changed value
      is a `DamagedEntry`, never a reply.
    - Reading happens on the event loop's thread, one block of keys at a time (`get_many`), and
      writing on one thread of its own at the same time, if `waits_for_disk`.
    - What a write acknowledges is durable; what it does not, it raises: StoreFull where there is no
      room left, StoreGone where the store is not there any more, else StoreError. These end the
      run, which resumes.
    - A second writer, in another process, loses to the first (`keep_many`), and is told.
    - `id` lets a run find out later that this is another store.
    """

    waits_for_disk: ClassVar[bool] = True
    """Whether `put_many` may block; then a writer thread calls it, never the event loop."""

    def check(self) -> None:
        """StoreGone if the store was deleted or replaced: nothing stored now could be found."""
        return None

    @abstractmethod
    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        """Store all entries in one transaction, replacing what they name. StoreFull, StoreError.

        Durable when it returns: all of it survives a power failure, or none was acknowledged.
        """

    @abstractmethod
    def keep_many(self, entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        """Store, as durably, the entries whose keys have no value yet; the rest stays as it is.

        Returned are the values that stood there first, where they are not those of `entries`. A
        run that was served one reply must be served it again, so every caller is given these.
        """

    @abstractmethod
    def delete_many(self, keys: Iterable[str]) -> int:
        """Remove entries in one transaction; how many there were."""

    def require_rights(self) -> None:
        """Write, read and delete one entry, before anything is paid for. StoreError, StoreFull.

        A store with transactions does this in one, so that no other process sees the entry.
        """
        key, value = f"trial {uuid4().hex}", b"trial"
        self.put_many([(key, value)])
        kept, deleted = self.get(key), self.delete_many([key])
        if (kept, deleted, self.get(key)) != (value, 1, None):
            raise StoreError(f"{self!r} does not keep and delete what it is given: use another")

    def drop_unused(self) -> None:
        """Remove what was kept for records that were deleted since."""
        return None

    def close_thread(self) -> None:
        """Release resources of the calling thread. A thread that wrote calls it at its end."""
        return None


def checked_key(key: str) -> str:
    """The key itself. ValueError if it is no key: empty, or not printable ASCII."""
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError(f"key {key!a}: not printable ASCII")
    return key


class MemoryStore(Store):
    """Lasts as long as the process."""

    waits_for_disk = False

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._values.get(key)

    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        # Checked whole before any of it is kept: all of it is stored, or none.
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
        """Nothing to release: what was stored stays as long as the object does."""
