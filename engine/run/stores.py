"""Opening stores: that of a run, and where replies come from when nothing may be asked."""

import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ...cache.disk import DiskStore, ReadOnlyStore
from ...cache.store import Reader, Store
from ..errors import RunFolderError, UsageError
from ..system.entry_points import STORES_GROUP, load_registered
from ..system.settings import (
    STORE_VARIABLE,
    checked_name,
    homely,
    is_url,
    scheme_of,
    store_path,
)
from .as_left import store_noted


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


_log = logging.getLogger(__name__)

REPLIES = "replies.bundle"
"""The replies of a run, in its folder, where it was taken from a pack."""


@contextmanager
def recorded(run: Path, given: Path | str | None) -> Iterator[Reader]:
    """The store given, else the one that the run was made with on this machine, or the replies that
    came with it, else the user's; read-only. A store that a folder names is not opened.

    A file is a bundle. RunFolderError, with the next step, if there is none.
    """
    told = str(given or _named_by(run))
    name = told if given or _is_there(told) else store_name(None)
    if not _is_there(name):
        raise RunFolderError(
            f"{name}: there is no store there; name the one that has the replies of {run}, or a "
            "bundle of them, with --store"
        )
    if not given and name != told:
        why = "its store is not there" if told else "it was not made on this machine"
        _log.warning(
            "%s: %s; replies are looked for in your store, %s (--store names another)",
            run,
            why,
            name,
        )
    with closing(_opened(name)) as store:
        yield store


def _is_there(name: str) -> bool:
    """Whether something has that name; a database tells only when it is opened."""
    return bool(name) and (is_url(name) or Path(name).expanduser().exists())


def _opened(name: str) -> Reader:
    path = Path(name).expanduser()
    if path.is_file():
        from ...cache.bundle import BundleStore

        return BundleStore(path)
    return open_for_reading(name)


def _named_by(run: Path) -> str:
    """Where the replies of a run are; empty if that is not known."""
    replies = run / REPLIES
    with_it = str(replies) if replies.is_file() and not replies.is_symlink() else ""
    store = store_noted(run)
    return store if _is_there(store) else with_it or store


@contextmanager
def at_hand(given: Path | str | None) -> Iterator[Reader | None]:
    """The store given, else the user's own where there is one; None where there is none.

    A store that a run folder names is not opened: who handed it on may have written it.
    """
    name = str(given) if given else store_name(None)
    if not given and not _is_there(name):
        yield None
        return
    with closing(_opened(name)) as store:
        yield store
