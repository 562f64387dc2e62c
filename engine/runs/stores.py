"""Opening the store of a run by its name: a folder, or the URL of a database."""

import os
from pathlib import Path

from ...cache.disk import DiskStore, ReadOnlyStore
from ...cache.store import Reader, Store
from ..errors import Interrupted
from ..stop import StopToken
from ..system.settings import STORE_VARIABLE, checked_name, homely, is_url, store_path

LAST_SECONDS = 10.0
"""Seconds for which an interrupted run waits for a database that does not answer."""


def hurry_when_interrupted(store: Store, stop_token: StopToken) -> None:
    """Have a run that is interrupted wait for a database that hangs no longer than a while."""

    def hurry() -> None:
        if isinstance(stop_token.halt, Interrupted):
            store.hurry(LAST_SECONDS)

    stop_token.listen(hurry)


def store_name(given: Path | str | None) -> str:
    """The name of the store: the one given, else $OVERSIGHT_STORE, else the user's cache folder.

    A folder is made absolute, so that other processes find it.
    """
    named = str(given) if given is not None else os.environ.get(STORE_VARIABLE, "")
    named = checked_name(named)
    if is_url(named):
        return named
    return str(store_path(Path(named).expanduser() if named else None).absolute())


def shown_name(named: str) -> str:
    """The name for files that others read: without the user's home folder. A URL that holds a
    password is refused when it is opened, so that none is shown."""
    return named if is_url(named) else homely(Path(named))


def open_store(named: str, id: str = "") -> Store:
    """Open it for reading and writing, and make it if there is none. StoreError.

    id: given to a new store that takes another's place.
    """
    if is_url(named):
        # An extra.
        from ...cache.postgres import PostgresStore

        return PostgresStore(named, id)
    return DiskStore(Path(named), id)


def open_for_reading(named: str) -> Reader:
    """Open a store that is there. StoreError if it is not."""
    return open_store(named) if is_url(named) else ReadOnlyStore(Path(named))
