"""Stores by their names: folders, and databases of extensions."""

import os
from pathlib import Path

from ...cache.disk import DiskStore, ReadOnlyStore
from ...cache.store import Reader, Store
from ..errors import UsageError
from ..system.entry_points import STORES_GROUP, load_registered
from ..system.settings import (
    STORE_VARIABLE,
    checked_name,
    homely,
    is_url,
    scheme_of,
    store_path,
)


def store_name(given: Path | str | None) -> str:
    """The name of the store: the one given, else $OVERSIGHT_STORE, else the user's cache folder.

    A folder is made absolute, so that other processes find it. UsageError for what names no store.
    """
    named = str(given) if given is not None else os.environ.get(STORE_VARIABLE, "")
    named = checked_name(named)
    if is_url(named):
        return named
    return str(store_path(Path(named).expanduser() if named else None).absolute())


def shown_name(named: str) -> str:
    """The name for files that others read: without the user's home folder."""
    return named if is_url(named) else homely(Path(named))


def open_store(named: str, id: str = "") -> Store:
    """Open it for reading and writing, and make it if there is none. StoreError.

    id: given to a new store in a folder that takes another's place.
    """
    return _database(named, True) if is_url(named) else DiskStore(Path(named), id)


def open_for_reading(named: str) -> Reader:
    """Open a store that is there. StoreError if it is not."""
    return _database(named, False) if is_url(named) else ReadOnlyStore(Path(named).expanduser())


def _database(url: str, make: bool) -> Store:
    name = scheme_of(url)
    opened = load_registered(STORES_GROUP, name)
    store = opened(url, make) if callable(opened) else opened
    if not isinstance(store, Store):
        raise UsageError(f"{name}: {store!r}, which is registered, is no {Store.__name__}")
    return store
