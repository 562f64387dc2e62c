"""The store that lasts as long as the process."""

from collections.abc import Iterable, Iterator

from .store import Store, checked_key


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
