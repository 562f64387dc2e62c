"""A store's file at one moment, copied while runs go on writing to it; and a damaged one, opened
for what can still be read of it.

SQLite finds everything through the first page of a file: its header, and where each table begins.
Every store is made by the same statements, so the first page of a new one fits all of them. Should
it not fit, no harm is done: a value is accepted only with its checksum.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from .bounded import refuse_irregular
from .disk import DiskStore, ReadOnlyStore
from .errors import StoreError
from .rows import FAULTS, STORE_FILE, RowReader, connect_safely, fault

_UNFINISHED = f".{STORE_FILE}.unfinished"
_PAGE = 4096
"""Page size of SQLite, in bytes; a damaged header may not have it."""
_PAGES = slice(28, 32)
"""Where the header has the number of pages."""


def back_up(store: Path, to: Path) -> int:
    """Copy a store into a new folder, as it is at one moment; how many replies the copy holds.

    SQLite's own backup in one step: it holds a snapshot, which keeps no writer waiting. The copy
    appears under its name once it is complete, checked and on the disk. StoreError: there is no
    store, the folder has one already, or the disk fails.
    """
    file, copy = store / STORE_FILE, to / STORE_FILE
    if not file.is_file():
        raise StoreError(f"{store} holds no store: there is no {STORE_FILE} in it")
    if copy.exists():
        raise StoreError(f"{to} holds a store already; name a folder that has none")
    unfinished = to / _UNFINISHED
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        with (
            closing(connect_safely(file.absolute(), "mode=ro")) as source,
            closing(sqlite3.connect(unfinished)) as target,
        ):
            source.backup(target)
            ((sound,),) = target.execute("PRAGMA quick_check(1)").fetchall()
            if sound != "ok":
                raise StoreError(f"{file} is malformed: {sound}; nothing was backed up")
            ((count,),) = target.execute("SELECT COUNT(*) FROM Cache WHERE raw = 1").fetchall()
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(unfinished, copy)
    except FAULTS as exc:
        raise fault(exc, file) from exc
    except OSError as exc:
        raise StoreError(f"{to} cannot take a backup: {exc}") from exc
    finally:
        unfinished.unlink(missing_ok=True)
    return int(count)


@contextmanager
def recoverable(folder: Path) -> Iterator[RowReader]:
    """The store in `folder`, for its `recover`; nothing there is changed.

    StoreError if there is none, or if nothing of it can be read. Where the first page is damaged a
    copy is read, beside the system's other temporary files.
    """
    refused = None
    try:
        refuse_irregular(file := folder / STORE_FILE)
    except FAULTS as exc:
        raise fault(exc, file) from exc
    try:
        store = ReadOnlyStore(folder)
    except StoreError as exc:
        if not (folder / STORE_FILE).exists():
            raise
        refused = exc
    else:
        with closing(store):
            if _holds_any(store):
                yield store
                return
    with TemporaryDirectory(prefix="oversight-") as place:
        try:
            store = ReadOnlyStore(_with_new_head(folder, Path(place)))
        except StoreError as exc:
            raise refused or exc from None
        with closing(store):
            if refused and not _holds_any(store):
                raise refused
            yield store


def _holds_any(store: RowReader) -> bool:
    return any(isinstance(value, bytes) for _, value in store.recover())


def _with_new_head(folder: Path, place: Path) -> Path:
    """A copy of the store in `folder` with the first page of a new one."""
    DiskStore(place / "new").close()
    head = bytearray((place / "new" / STORE_FILE).read_bytes()[:_PAGE])
    copy = place / "copy"
    copy.mkdir()
    for name in (STORE_FILE, f"{STORE_FILE}-wal"):
        if (folder / name).exists():
            shutil.copyfile(folder / name, copy / name)
    head[_PAGES] = ((copy / STORE_FILE).stat().st_size // _PAGE).to_bytes(4, "big")
    with (copy / STORE_FILE).open("r+b") as file:
        file.write(head)
    return copy
