"""What this machine knows of the runs that were made on it: how it left each, and their store.

A run folder may come back from elsewhere with other content, and may name any store. So the note
stands in the user's data folder, under the id of the run, and no folder carries it along.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import platformdirs

from ..errors import RunFolderError
from ..system.files import open_plain, read_bounded, replace_file
from .manifest import read_manifest
from .record.schema import RUN_DB

MAX_NOTE = 2**16


class _Note(msgspec.Struct, frozen=True):
    store: str
    """Where the replies of the run are kept."""
    digest: str = ""
    """Of its database; empty while the run is under way, or if others have changed it."""


def note(folder: Path, id: str, store: str, *, left: bool = False) -> None:
    """Note the store of a run, by its id. left: whether its database is as this machine has
    written it. Where nothing can be noted, nothing is taken over from the run unasked."""
    with suppress(OSError, RunFolderError):
        file = _file(folder, id)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = _Note(store, _digest(folder) if left else "")
        replace_file(file, [msgspec.json.encode(told)], durable=False)


def is_as_left(folder: Path) -> bool:
    """Whether the database of a run is as this machine left it."""
    known = _noted(folder).digest
    return bool(known) and known == _digest(folder)


@contextmanager
def kept_as_left(folder: Path) -> Iterator[None]:
    """Change a run: where it is as this machine left it, it is so with the change too."""
    left = is_as_left(folder)
    yield
    if left:
        note(folder, read_manifest(folder).id, store_noted(folder), left=True)


def store_noted(folder: Path) -> str:
    """The store in which this machine keeps the replies of a run; empty if it made no such run."""
    return _noted(folder).store


def _noted(folder: Path) -> _Note:
    try:
        file = _file(folder, read_manifest(folder).id)
        return msgspec.json.decode(read_bounded(file, MAX_NOTE), type=_Note)
    except (OSError, RunFolderError, msgspec.DecodeError):
        return _Note("")


def _file(folder: Path, id: str) -> Path:
    if not re.fullmatch("[0-9a-f]{16}", id):
        raise RunFolderError(f"{folder}: {id!r} is no id of a run")
    return platformdirs.user_data_path("oversight") / "runs" / id


def _digest(folder: Path) -> str:
    with open_plain(folder / RUN_DB) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
