"""A damaged store, opened for what can still be read of it, with a new first page if need be.

SQLite finds everything through the first page of a file: its header, and where each table begins.
Every store is made by the same statements, so the first page of a new one fits all of them. Should
it not fit, no harm is done: a value is accepted only with its checksum.
"""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from .disk import DiskStore, ReadOnlyStore
from .errors import StoreError
from .rows import STORE_FILE, RowReader

_PAGE = 4096
"""Page size of SQLite, in bytes; a damaged header may not have it."""
_PAGES = slice(28, 32)
"""Where the header has the number of pages."""


@contextmanager
def recoverable(folder: Path) -> Iterator[RowReader]:
    """The store in `folder`, for its `recover`; nothing there is changed.

    StoreError if there is none, or if nothing of it can be read. Where the first page is damaged a
    copy is read, beside the system's other temporary files.
    """
    refused = None
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
