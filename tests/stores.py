"""Stores for tests, filled and closed."""

from collections.abc import Mapping
from pathlib import Path

from oversight.cache.disk import DiskStore


def filled(folder: Path, entries: Mapping[str, bytes]) -> None:
    """Add entries to the store in a folder."""
    store = DiskStore(folder)
    store.put_many(entries.items())
    store.close()
