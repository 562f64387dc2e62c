"""Stores by their names: folders, and databases of extensions."""

import os
import re
from pathlib import Path

import platformdirs

from ...cache.disk import DiskStore, ReadOnlyStore
from ...cache.store import Reader, Store
from ..errors import UsageError
from ..system.process import STORES_GROUP, load_function, registered

STORE_VARIABLE = "OVERSIGHT_STORE"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_KEYWORDS = re.compile(
    r"\b(host|hostaddr|dbname|user|password|passfile|port|service|sslmode)\s*=", re.IGNORECASE
)


def store_name(chosen: Path | str | None) -> str:
    """The name of the store: the one given, else $OVERSIGHT_STORE, else the user's cache folder. A
    folder is made absolute, so that other processes find it. UsageError for an invalid name."""
    text = str(chosen) if chosen is not None else os.environ.get(STORE_VARIABLE, "")
    if is_url(name := checked_name(text)):
        return name
    folder = Path(name).expanduser() if name else platformdirs.user_cache_path("oversight")
    return str(folder.absolute())


def shown_name(name: str) -> str:
    """The name for files that others read: with `~` for the user's home folder."""
    if is_url(name):
        return name
    folder, home = Path(name).resolve(), Path.home().resolve()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


def open_store(name: str, id: str = "") -> Store:
    """Open a store for reading and writing; create a missing one. StoreError. id: given to a new
    store in a folder that takes another's place."""
    return _database(name, True) if is_url(name) else DiskStore(Path(name), id)


def open_for_reading(name: str) -> Reader:
    """Open a store that is there. StoreError if it is not, UsageError for a file."""
    if is_url(name):
        return _database(name, False)
    if (folder := Path(name).expanduser()).is_file():
        raise UsageError(
            f"{name} is a file, and a store is a folder; add its replies to one: oversight cache "
            f"import {name} --store FOLDER"
        )
    return ReadOnlyStore(folder)


def _database(url: str, make: bool) -> Store:
    name = url.partition(":")[0]
    store = load_function(STORES_GROUP, name)(url, make)
    if not isinstance(store, Store):
        raise UsageError(f"{name}: {store!r}, which is registered, is not a {Store.__name__}")
    return store


def is_url(name: str) -> bool:
    """Whether a store has the name of a database, and not of a folder."""
    return _SCHEME.match(name) is not None


def checked_name(text: str) -> str:
    """Return the name of a store as it is recorded. UsageError if it is neither the URL of a known
    database nor a folder. The message does not repeat the name, which may hold a password."""
    name = text.strip()
    scheme = _SCHEME.match(name)
    schemes = ", ".join(f"{each_scheme}://" for each_scheme in registered(STORES_GROUP)) or "none"
    if scheme is None:
        if _KEYWORDS.search(name):
            raise UsageError(
                f"the store is given in keywords: write it as a folder or a URL ({schemes}), "
                "and put a password into ~/.pgpass, or into the variable PGPASSWORD"
            )
        return text
    if (lower := scheme[1].lower()) in registered(STORES_GROUP):
        return lower + name[scheme.end(1) :]
    raise UsageError(
        f"the store begins with {scheme[1]}:, which names no database that can be a store "
        f"(those are: {schemes})"
    )


def store_path(chosen: Path | str | None) -> Path:
    """The folder of the store that `store_name` names. UsageError for a database."""
    if is_url(name := store_name(chosen)):
        raise UsageError("the store is a database; this needs a folder: name it with --store")
    return Path(name)
