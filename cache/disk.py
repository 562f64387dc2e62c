"""The durable store: a `diskcache.Cache` on one SQLite file, without eviction or pickles.

diskcache's layout lets anybody open the file with that library. Reads and writes use our own SQL:
many rows per step, and one commit for many replies.

Writers share the lock of a store's folder; a process that moves the store takes it exclusively. It
is a system lock (flock), which ends with its process. It is on the folder, since SQLite's locks on
the file end when any part of the process closes that file."""

import errno
import fcntl
import hashlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TypeAlias
from uuid import uuid4

import orjson

from .entry import SHARES, SIZE, add_checksum, split_shared
from .errors import NO_ROOM, DamagedEntry, StoreError, StoreFull, StoreGone
from .sqlite import (
    ASKED_AT_ONCE,
    FAULTS,
    STORE_FILE,
    EntryReader,
    UntrustedConnection,
    connect_safely,
    fault,
    log_of,
    open_untrusted,
    refuse_irregular,
    side_size,
)
from .store import Store, checked_key

SETTINGS: dict[str, str | int] = {
    # No eviction: a paid reply stays until somebody prunes it.
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**60,
    "statistics": 0,
    "tag_index": 0,
    # FULL: a commit is on the disk when it returns.
    "sqlite_synchronous": 2,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 0,
    # Pages, 8 MB per connection. Keys are random, so a larger cache only takes memory.
    "sqlite_cache_size": 2**11,
    # No side files: diskcache never syncs them.
    "disk_min_file_size": 2**31 - 1,
}
"""Rows of the table `Settings`, by which diskcache opens a store. This program also uses the ones
for SQLite."""
_LOG_PAGES = 16_000
"""Pages of SQLite's log, 64 MB, before a checkpoint. Keys are random: with a longer log, a page of
the index that two entries touch is written once."""

_MADE = "SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL AND type != 'trigger'"
_NEEDED = {"Settings", "Cache", "Cache_key_raw"}
_KEEP = """
    INSERT INTO Cache (raw, key, store_time, access_time, size, mode, value)
    VALUES {} ON CONFLICT (key, raw) DO NOTHING
"""
"""An existing row stays."""
_PUT = _KEEP.replace(
    "NOTHING",
    "UPDATE SET store_time = excluded.store_time, expire_time = NULL, size = 0, "
    "mode = excluded.mode, filename = NULL, value = excluded.value",
)
_KEEP_TEXT = _PUT + "WHERE value IS NOT excluded.value OR mode IS NOT excluded.mode"
"""A text that entries share; a damaged one is replaced."""
_REPLY, _TEXT = "(1, ?, ?, ?, 0, 1, ?)", "(0, ?, ?, ?, 0, 1, ?)"
_AT_ONCE = (64, 8, 1)
"""Rows per step of SQLite. Each step gives up the interpreter's lock, which the event loop then
keeps for a while."""
_GET_MANY = (
    "SELECT key, mode, value FROM Cache WHERE key IN (SELECT value FROM json_each(?)) AND raw = 1"
)
_DROP_TEXTS = f"""
    DELETE FROM Cache WHERE raw = 0 AND length(key) = 64 AND key NOT IN (
        SELECT lower(hex(substr(value, -32))) FROM Cache
        WHERE substr(value, {SIZE + 1}, 1) = x'{SHARES.hex()}'
    )
"""
_KNOWN = {b"Settings", b"Cache"}
_THEIR_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
_TRIGGERS = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"

_PAGE = 4096
"""Page size of SQLite, in bytes; a damaged header may not state it."""
_PAGES = slice(28, 32)

_Row: TypeAlias = tuple[str, float, float, bytes]


def rescue_places(folder: Path) -> tuple[Path, Path]:
    """Paths, next to a store, of its damaged original, and of the store being recovered from it."""
    return folder.with_name(f"{folder.name}.damaged"), folder.with_name(f".{folder.name}.recovered")


def require_rescued(folder: Path) -> None:
    """Raise StoreError, with the fix, if a recovery was interrupted after it moved the store
    away."""
    if not (folder / STORE_FILE).exists() and all(map(Path.exists, rescue_places(folder))):
        raise StoreError(
            f"{folder}: its recovery was interrupted; to finish it: oversight cache verify "
            f"--recover --store {folder}"
        )


class DiskStore(EntryReader, Store):
    """Reads and writes; several processes may share a folder. Not to be used across a fork."""

    def __init__(self, folder: Path, id: str = "") -> None:
        """Create the folder if it is missing, readable only by its owner. StoreError. id: for a new
        store that replaces another; an existing id is kept."""
        folder = Path(os.path.abspath(folder))
        file = folder / STORE_FILE
        require_rescued(folder)
        with ExitStack() as undo:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = share_lock(folder)
                undo.callback(os.close, lock)
                if file.exists():
                    _refuse_foreign(file)
                    _refuse_second_name(file)
                self._writing = undo.enter_context(closing(_open_to_write(file, id)))
                self._place = file.stat()
            except FAULTS as exc:
                raise fault(exc, file) from exc
            except OSError as exc:
                kind = StoreFull if exc.errno in NO_ROOM else StoreError
                if folder.is_file():
                    raise kind(f"{folder} is a file, and a store is a folder: choose one") from exc
                raise kind(f"{folder} cannot be a store: {exc}") from exc
            super().__init__(file)
            self._turn = Lock()
            # The writing connection closes last: then SQLite makes a checkpoint.
            self._kept = undo.pop_all()

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes | DamagedEntry]:
        values: dict[str, bytes | DamagedEntry] = {}
        for start in range(0, len(keys), ASKED_AT_ONCE):
            some = orjson.dumps(keys[start : start + ASKED_AT_ONCE]).decode()
            values |= [self._found(*row) for row in self._fetched(_GET_MANY, some)]
        return values

    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        rows, texts = _rows(entries)
        with self._transaction() as db:
            _write(db, _KEEP_TEXT, _TEXT, texts)
            _write(db, _PUT, _REPLY, rows)

    def keep_many(self, entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        items = list(entries)
        rows, texts = _rows(items)
        with self._transaction() as db:
            _write(db, _KEEP_TEXT, _TEXT, texts)
            if _write(db, _KEEP, _REPLY, rows) == len(rows):
                return {}
        # Rare: another process was first with some of them; their values show which.
        current = ((key, self.get(key), new) for key, new in items)
        return {key: value for key, value, new in current if value is not None and value != new}

    def delete_many(self, keys: Iterable[str]) -> int:
        with self._transaction() as db:
            delete = "DELETE FROM Cache WHERE key = ? AND raw = 1"
            return db.executemany(delete, ((key,) for key in keys)).rowcount

    def require_rights(self) -> None:
        with self._transaction() as db:
            rows, _ = _rows([(f"trial {uuid4().hex}", b"trial")])
            _write(db, _PUT, _REPLY, rows)
            if db.execute("DELETE FROM Cache WHERE key = ?", rows[0][:1]).rowcount != 1:
                raise sqlite3.DatabaseError("an entry was not kept")

    def drop_unused(self) -> None:
        with self._transaction() as db:
            db.execute(_DROP_TEXTS)

    def check(self) -> None:
        with suppress(OSError):  # missing: raised below
            if os.path.samestat(os.stat(self.file), self._place):
                return
        raise StoreGone(
            f"{self.file} was deleted, moved or replaced while it was in use: bring it back, or "
            "pay again for its replies with --allow-missing-replies"
        )

    def close(self) -> None:
        super().close()
        with self._turn:
            self._kept.close()

    @contextmanager
    def _transaction(self) -> Iterator[UntrustedConnection]:
        with self._turn:
            if self._closed:
                raise StoreError(f"{self.file} is closed")
            try:
                with _transaction(self._writing):
                    yield self._writing
            except FAULTS as exc:
                raise fault(exc, self.file) from exc
            # After the commit: an entry in a file that was moved or deleted is lost.
            self.check()


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # Report the first error; on a full disk SQLite has rolled back already.
        with suppress(sqlite3.Error):
            db.rollback()
        raise


def _layout(folder: Path) -> dict[str, str]:
    """The statements of diskcache that create a store's tables, by name. FAULTS, StoreError.
    diskcache takes thirty commits to create a file, and an interruption would leave part of one. So
    it creates a temporary one, and this program repeats the statements in one commit."""
    import diskcache

    if os.path.expandvars(folder) != str(folder):
        # diskcache would expand the variable and work elsewhere.
        raise StoreError(f"{folder}: a new store's path may not hold the name of a variable")
    with TemporaryDirectory(dir=folder, prefix=".new-") as beside:
        cache = diskcache.Cache.__new__(diskcache.Cache)
        try:
            # The policy determines an index. Other settings are written when the store is opened.
            settings = {"eviction_policy": SETTINGS["eviction_policy"], "sqlite_synchronous": 0}
            diskcache.Cache.__init__(cache, beside, **settings)
        finally:
            # Also after an exception, since a connection left to the collector keeps the file open.
            diskcache.Cache.close(cache)
        with closing(sqlite3.connect(Path(beside) / STORE_FILE)) as db:
            return dict(db.execute(_MADE))


def _open_to_write(file: Path, id: str) -> UntrustedConnection:
    """A writing connection; creates missing parts of the store in one commit. FAULTS."""
    db = open_untrusted(file, "mode=rwc")
    try:
        for name, value in SETTINGS.items():
            if name.startswith("sqlite_"):
                _set(db, f"PRAGMA {name.removeprefix('sqlite_')} = {value}")
        db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        settings: dict[object, object] = {}
        with suppress(sqlite3.OperationalError):  # a new file
            settings = dict(db.execute("SELECT key, value FROM Settings"))
        names = {name for name, _ in db.execute(_MADE)}
        lacking = {} if names >= _NEEDED else _layout(file.parent)
        # Triggers count rows and bytes, which takes a third of an entry's time for unused figures.
        # A planted trigger would be executed.
        triggers = [name for (name,) in db.execute(_TRIGGERS)]
        if (
            lacking
            or "store_id" not in settings
            or not SETTINGS.items() <= settings.items()
            or triggers
        ):
            with _transaction(db):
                names = {name for name, _ in db.execute(_MADE)}
                for name, statement in lacking.items():
                    if name not in names:
                        db.execute(statement)
                for name in triggers:
                    quoted = name.replace('"', '""')
                    db.execute(f'DROP TRIGGER IF EXISTS "{quoted}"')
                db.executemany("REPLACE INTO Settings VALUES (?, ?)", SETTINGS.items())
                insert_id = "INSERT OR IGNORE INTO Settings VALUES ('store_id', ?)"
                db.execute(insert_id, (id or uuid4().hex,))
    except BaseException:
        db.close()
        raise
    return db


def _set(db: UntrustedConnection, pragma: str) -> None:
    """Execute a pragma, and retry while busy: SQLite refuses one of two processes that start the
    log of a new file."""
    for retries in reversed(range(6000)):  # a minute, as elsewhere
        try:
            db.execute(pragma)
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or not retries:
                raise
            time.sleep(0.01)


def _write(db: UntrustedConnection, statement: str, row: str, rows: Sequence[_Row]) -> int:
    """Write rows, many per step; returns the number of new ones."""
    at = written = 0
    for count in _AT_ONCE:
        insert = statement.format(",".join([row] * count))
        while len(rows) - at >= count:
            values = [*chain.from_iterable(rows[at : at + count])]
            written += db.execute(insert, values).rowcount
            at += count
    return written


class ReadOnlyStore(EntryReader):
    """Reads a store, also on a read-only disk.

    Writes nothing, except that SQLite may create its lock file if a writer is at work or was
    interrupted."""

    def __init__(self, folder: Path) -> None:
        """Raise StoreError if the folder holds no store."""
        file = Path(os.path.abspath(folder)) / STORE_FILE
        require_rescued(file.parent)
        if not file.is_file():
            raise StoreError(f"{folder} holds no store: {STORE_FILE} is missing")
        self._seen = _stamp(file)
        super().__init__(file, _access(file))

    def get(self, key: str) -> bytes | None:
        try:
            value = super().get(key)
        except StoreError:
            if not self._reopened():
                raise
        else:
            if value is not None or not self._reopened():
                return value
        return super().get(key)

    def _text(self, address: str) -> bytes:
        # Another process may have added or restored it since the file was opened.
        return super()._text(address) or (super()._text(address) if self._reopened() else b"")

    def _reopened(self) -> bool:
        """Reopen the file if it was written meanwhile; whether it was."""
        if self._closed or (stamp := _stamp(self.file)) == self._seen:
            return False
        self._seen = stamp
        self._db.close()
        try:
            self._db = connect_safely(self.file, _access(self.file))
        except FAULTS as exc:
            raise fault(exc, self.file) from exc
        return True


def _refuse_second_name(file: Path) -> None:
    """Refuse a file with a hard link. SQLite names its log and locks after the file: under two
    names, writers do not see each other, and the file becomes malformed."""
    if file.stat().st_nlink > 1:
        raise StoreError(
            f"{file} is also the file of another store, through a hard link: replace one of "
            "the two with a copy (cp), or use the same folder for both"
        )


def _rows(entries: Iterable[tuple[str, bytes]]) -> tuple[list[_Row], list[_Row]]:
    """Rows of the entries, and rows of the texts that they share."""
    now = time.time()
    rows: list[_Row] = []
    texts: dict[str, _Row] = {}
    for key, value in entries:
        entry, text = split_shared(value) if value[:1] == SHARES else (value, b"")
        if text:
            address = hashlib.sha256(text)
            entry += address.digest()
            if (name := address.hexdigest()) not in texts:
                texts[name] = name, now, now, add_checksum(name, text)
        rows.append((checked_key(key), now, now, add_checksum(key, entry)))
    return rows, list(texts.values())


def _access(file: Path) -> str:
    # `immutable` keeps SQLite from creating a log and lock files, and from using existing ones. A
    # log means that somebody may be writing, so the usual locks are needed.
    return "mode=ro" if log_of(file).exists() else "mode=ro&immutable=1"


def _stamp(file: Path) -> tuple[int, int] | None:
    """Changes when an immutable view is out of date; None if SQLite detects changes itself."""
    if log_of(file).exists():
        return None
    try:
        status = file.stat()
    except OSError as exc:
        raise StoreError(f"{file} is gone: {exc}") from exc
    return status.st_mtime_ns, status.st_size


def _refuse_foreign(file: Path) -> None:
    # A journal remains after an interrupted creation: SQLite undoes it.
    mode = "mode=rw" if side_size(file, "-journal") else "mode=ro"
    with closing(connect_safely(file, mode)) as db:
        tables = {name for (name,) in db.execute(_THEIR_TABLES)}
    if foreign := sorted(tables - _KNOWN):
        raise StoreError(
            f"{file} has a table {foreign[0].decode(errors='replace')!r}, which no store has: "
            "it is damaged, or belongs to another program. Choose another folder with --store. If "
            f"it was a store: oversight cache verify --recover --store {file.parent}"
        )


@contextmanager
def recoverable(folder: Path) -> Iterator[EntryReader]:
    """Open the store in `folder` for its `recover`; the folder is not changed. StoreError if it is
    missing or completely unreadable. If the first page is damaged, a copy in the system's temporary
    folder is read."""
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


def _holds_any(store: EntryReader) -> bool:
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


_MAX_TRIES = 100
"""Attempts to lock a folder that other processes keep replacing."""


def share_lock(folder: Path) -> int:
    """Keep the store in place until the returned descriptor is closed. StoreError, OSError."""
    return _lock(folder, fcntl.LOCK_SH, "another process is recovering it; wait until it ends")


def exclusive_lock(folder: Path) -> int:
    """Keep other processes from writing until the returned descriptor is closed. StoreError,
    OSError."""
    return _lock(
        folder, fcntl.LOCK_EX, "a run, or another command, is using it; stop that, then try again"
    )


def _lock(folder: Path, kind: int, refusal: str) -> int:
    for _ in range(_MAX_TRIES):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), os.stat(folder)):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise StoreError(f"{folder}: {refusal}") from None
        except OSError as exc:
            if exc.errno in (errno.EBADF, errno.ENOTSUP, errno.ENOLCK) and kind == fcntl.LOCK_SH:
                # A file system without folder locks: runs go on there, but recovery is refused.
                return lock
            os.close(lock)
            raise
        os.close(lock)
    raise StoreError(f"{folder} is repeatedly replaced by another process")
