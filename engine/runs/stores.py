"""The store of a run, by what its user calls it."""

from pathlib import Path

from oversight.cache.disk import DiskStore
from oversight.cache.store import Store


def open_store(named: str) -> Store:
    """Open it for reading and writing, and make it if there is none. StoreError.

    named: a folder.
    """
    return DiskStore(Path(named).expanduser())
