"""The store that stays: diskcache on one SQLite file, hardened: it loses and runs nothing."""

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import diskcache

from .checksum import SIZE, add_checksum
from .errors import NO_ROOM, DamagedEntry, StoreError, StoreFull, StoreGone
from .lock import share_lock
from .record import SHARES, split_shared
from .rows import FAULTS, STORE_FILE, RowReader, connect_safely, fault, log_of
from .store import REPLACED, Store, checked_key

SETTINGS: dict[str, str | int] = {
    # Nothing is ever evicted: a reply that was paid stays until somebody prunes it.
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**60,
    "statistics": 0,
    "tag_index": 0,
    # FULL: a commit is on the disk when it returns.
    "sqlite_synchronous": 2,
    "sqlite_journal_mode": "wal",
    "sqlite_mmap_size": 0,
    # Pages, 8 MB a connection: keys are random, so that a larger cache of a large store only
    # takes memory; the system has the file in its own.
    "sqlite_cache_size": 2**11,
    # No side files: diskcache never syncs them.
    "disk_min_file_size": 2**31 - 1,
}
_LOG_PAGES = "PRAGMA wal_autocheckpoint = 16000"
"""Pages of SQLite's log, 64 MB, before it is folded into the file. Keys are random: of two entries
that touch one page of the index, a longer log writes that page once."""
MAX_LOSSES = 2**31 - 1
"""Above this, `losses` begins again from 0."""

_KEEP = f"""
    INSERT INTO Cache (key, raw, store_time, access_time, size, mode, value)
    VALUES (?, 1, ?, ?, 0, {diskcache.core.MODE_RAW}, ?) ON CONFLICT (key, raw) DO NOTHING
"""
"""A row as diskcache lays it out; one that is there already stays."""
_PUT = _KEEP.replace(
    "NOTHING",
    "UPDATE SET store_time = excluded.store_time, expire_time = NULL, size = 0, "
    "mode = excluded.mode, filename = NULL, value = excluded.value",
)
"""As `_KEEP`, but a row that is there already is replaced."""
_KEEP_TEXT = _PUT.replace("(?, 1,", "(?, 0,") + (
    "WHERE value IS NOT excluded.value OR mode IS NOT excluded.mode"
)
"""A text that records share; one that is damaged is replaced."""
_DROP_TEXTS = f"""
    DELETE FROM Cache WHERE raw = 0 AND length(key) = 64 AND key NOT IN (
        SELECT lower(hex(substr(value, -32))) FROM Cache
        WHERE substr(value, {SIZE + 1}, 1) = x'{SHARES.hex()}'
    )
"""
_NAME = "INSERT OR IGNORE INTO Settings VALUES ('store_id', ?)"
_KNOWN = {*diskcache.DEFAULT_SETTINGS, "count", "size", "hits", "misses"}
_ID = re.compile(rb"[0-9a-f]{32}")
_TABLES = {b"Settings", b"Cache"}
_THEIR_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


_Row: TypeAlias = tuple[str, float, float, bytes]


class RawDisk(diskcache.Disk):
    """Stores and accepts bytes under text keys, in the row: nothing is pickled, read or removed."""

    def put(self, key: object) -> tuple[str, bool]:
        if not isinstance(key, str):
            raise TypeError(f"key {key!r}: only text is a key")
        return key, True

    def get(self, key: object, raw: bool) -> object:
        if not raw or not isinstance(key, str):
            raise DamagedEntry(repr(key), "its key is no text")
        return key

    def store(
        self, value: object, read: bool, key: object = None
    ) -> tuple[int, int, None, memoryview]:
        if read or not isinstance(value, bytes):
            raise TypeError(f"value of {key!r}: only bytes are stored, no {type(value).__name__}")
        return 0, diskcache.core.MODE_RAW, None, memoryview(value)

    def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> bytes:
        if mode != diskcache.core.MODE_RAW or not isinstance(value, bytes):
            raise DamagedEntry("?", f"its row is of mode {mode!r}, which this program never writes")
        return value

    def remove(self, file_path: str) -> None:
        """Nothing: no row of ours names a file, and a planted one may name any."""


def rescue_places(folder: Path) -> tuple[Path, Path]:
    """Where a damaged store is kept beside its folder, and what is saved of it until that takes its
    place."""
    return folder.with_name(f"{folder.name}.damaged"), folder.with_name(f".{folder.name}.recovered")


def require_rescued(folder: Path) -> None:
    """StoreError, with the mend, where a recovery was cut off that moved the store away."""
    if not (folder / STORE_FILE).exists() and all(map(Path.exists, rescue_places(folder))):
        raise StoreError(
            f"{folder}: its recovery was interrupted; to finish it: oversight cache verify "
            f"--recover --store {folder}"
        )


class DiskStore(RowReader, Store):
    """Reads and writes; several processes may share one folder.

    Close it in the thread that opened it. Not to be used across a fork.
    """

    def __init__(self, folder: Path, id: str = "") -> None:
        """Makes the folder, readable by its owner alone, if there is none. StoreError.

        id: given to a new store that takes another's place; a store that has one keeps its own.
        """
        folder = Path(os.path.abspath(folder))
        if os.path.expandvars(folder) != str(folder):
            raise StoreError(f"{folder}: a store's path may not hold the name of a variable")
        file = folder / STORE_FILE
        require_rescued(folder)
        with ExitStack() as undo:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = share_lock(folder)
                undo.callback(os.close, lock)
                new = not file.exists()
                if not new:
                    _refuse_foreign(file)
                    _refuse_second_name(file)
                self._disk = _opened(folder)
                undo.callback(self._disk.close)
                self._disk._con.execute(_NAME, (id or uuid4().hex,))
                if new and id:
                    # It may have fewer replies than the store in whose place it stands.
                    losses = int(time.time()) % MAX_LOSSES
                    self._disk._con.execute(f"PRAGMA user_version = {losses}")
                self._place = file.stat()
            except (*FAULTS, diskcache.Timeout) as exc:
                raise _fault(exc, file) from exc
            except OSError as exc:
                kind = StoreFull if exc.errno in NO_ROOM else StoreError
                if folder.is_file():
                    raise kind(f"{folder} is a file, and a store is a folder: name one") from exc
                raise kind(f"{folder} cannot be a store: {exc}") from exc
            super().__init__(file)
            self._kept = undo.pop_all()

    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        rows, texts = _rows(entries)
        with self._transaction():
            self._disk._con.executemany(_KEEP_TEXT, texts)
            self._disk._con.executemany(_PUT, rows)
            self._count_losses(REPLACED)

    def keep_many(self, entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        given = list(entries)
        rows, texts = _rows(given)
        with self._transaction():
            if texts:
                self._disk._con.executemany(_KEEP_TEXT, texts)
            # One statement in place of diskcache's `set`, which first looks for the row, takes
            # twice as long, and gives up the interpreter's lock twice as often.
            if self._disk._con.executemany(_KEEP, rows).rowcount == len(rows):
                return {}
        # Seldom: another process was first with some of them, which ones is seen by their values.
        older: dict[str, bytes] = {}
        for key, new in given:
            value = self.get(key)
            if value is not None and value != new:
                older[key] = value
        return older

    def delete_many(self, keys: Iterable[str]) -> int:
        with self._transaction():
            deleted: int = sum(map(self._disk.delete, keys))
            if deleted:
                self._count_losses(1)
            return deleted

    def drop_unused(self) -> None:
        with self._transaction():
            self._disk._con.execute(_DROP_TEXTS)

    def check(self) -> None:
        try:
            if os.path.samestat(self.file.stat(), self._place):
                return
        except OSError:
            pass  # it is not there: raised below
        raise StoreGone(
            f"{self.file} was deleted, moved or replaced while it was in use: bring it back, or "
            "pay again for what was in it with --accept-empty"
        )

    def close_thread(self) -> None:
        self._disk.close()

    def close(self) -> None:
        # diskcache's connection goes last: the last one out folds the log into the file.
        super().close()
        self._kept.close()

    def _count_losses(self, more: int) -> None:
        """Raise `losses` with the transaction that is open."""
        # A field of the file's header that SQLite leaves to programs: versions that know nothing
        # of it read the store as before.
        (count,) = self._disk._con.execute("PRAGMA user_version").fetchone()
        self._disk._con.execute(f"PRAGMA user_version = {(count + more) % MAX_LOSSES}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._closed:
            raise StoreError(f"{self.file} is closed")
        try:
            self._disk._con.execute(_LOG_PAGES)  # of this thread's connection
            with self._disk.transact():
                yield
            # After the commit: what was committed into a file that is gone is not stored.
            self.check()
        except (*FAULTS, diskcache.Timeout) as exc:
            # Whatever state the failure left the connection in, the next one starts clean.
            self._disk.close()
            raise _fault(exc, self.file) from exc


class ReadOnlyStore(RowReader):
    """Reads a store, on a read-only disk too.

    Writes nothing, with one exception: where a writer is at work, or was cut off, SQLite may make
    the lock file that it shares with it.
    """

    def __init__(self, folder: Path) -> None:
        """StoreError if there is no store in the folder."""
        file = Path(os.path.abspath(folder)) / STORE_FILE
        require_rescued(file.parent)
        if not file.is_file():
            raise StoreError(f"{folder} holds no store: there is no {STORE_FILE} in it")
        self._seen = _stamp(file)
        super().__init__(file, _access(file))

    def get(self, key: str) -> bytes | None:
        try:
            if (value := super().get(key)) is not None:
                return value
        except StoreError:
            if not self._reopened():
                raise
        else:
            if not self._reopened():
                return None
        return super().get(key)

    def _text(self, address: str) -> bytes:
        # Somebody may have added it, or brought it back, since the file was opened.
        return super()._text(address) or (super()._text(address) if self._reopened() else b"")

    def _reopened(self) -> bool:
        """Whether somebody wrote since the file was opened, and it was opened again for that."""
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
    """SQLite keeps its log and its locks under the file's name: under another one, nobody sees what
    is written, and the file is soon malformed."""
    if file.stat().st_nlink > 1:
        raise StoreError(
            f"{file} is also the file of another store, by a hard link: replace one of the two by "
            "a copy (cp), or use the same folder for both"
        )


def _rows(entries: Iterable[tuple[str, bytes]]) -> tuple[list[_Row], list[_Row]]:
    """The rows of records, and those of the texts that they share."""
    now = time.time()
    rows: list[_Row] = []
    texts: dict[bytes, _Row] = {}
    for key, value in entries:
        record, text = split_shared(value) if value[:1] == SHARES else (value, b"")
        if text:
            address = hashlib.sha256(text)
            record += address.digest()
            if address.digest() not in texts:
                name = address.hexdigest()
                texts[address.digest()] = name, now, now, add_checksum(name, text)
        rows.append((checked_key(key), now, now, add_checksum(key, record)))
    return rows, list(texts.values())


def _access(file: Path) -> str:
    # `immutable` keeps SQLite from making its log and lock files, and from honouring those of
    # others. Where there is a log somebody may be writing, so the usual locks are needed.
    return "mode=ro" if log_of(file).exists() else "mode=ro&immutable=1"


def _stamp(file: Path) -> tuple[int, int] | None:
    """Changes when an immutable view of the file is out of date; None while SQLite itself sees."""
    if log_of(file).exists():
        return None
    try:
        status = file.stat()
    except OSError as exc:
        raise StoreError(f"{file} is gone: {exc}") from exc
    return status.st_mtime_ns, status.st_size


def _opened(folder: Path) -> diskcache.Cache:
    """diskcache's writing half. What it raises leaves no connection behind.

    One that was left to the collector would hold the log of a store that may be gone by then, and
    with it the very room that the disk is short of.
    """
    disk = diskcache.Cache.__new__(diskcache.Cache)
    try:
        diskcache.Cache.__init__(disk, str(folder), timeout=60, disk=RawDisk, **SETTINGS)
    except BaseException:
        disk.close()
        raise
    return disk


def _refuse_foreign(file: Path) -> None:
    """Nothing is added to another program's file; and diskcache takes its attributes and PRAGMAs
    from the file: only known ones may stand there."""
    with closing(connect_safely(file, "mode=ro")) as db:
        tables = {name for (name,) in db.execute(_THEIR_TABLES)}
        if foreign := sorted(tables - _TABLES):
            raise StoreError(
                f"{file} has a table {foreign[0].decode(errors='replace')!r}, which no store has: "
                "it is another program's, or damaged. Choose another folder with --store; or, if "
                f"it was a store: oversight cache verify --recover --store {file.parent}"
            )
        if b"Settings" not in tables:
            return
        rows: list[tuple[Any, Any]] = db.execute("SELECT key, value FROM Settings").fetchall()
    for key, value in rows:
        name = key.decode(errors="replace") if isinstance(key, bytes) else repr(key)
        if name == "store_id":
            known = isinstance(value, bytes) and _ID.fullmatch(value) is not None
        else:
            known = name in _KNOWN and (isinstance(value, int) or value in (b"none", b"wal"))
        if not known:
            raise StoreError(
                f"{file}: setting {name} = {value!r} was not written by this program; "
                f"take its replies over: oversight cache import {file.parent} --store NEW"
            )


def _fault(exc: BaseException | None, file: Path) -> StoreError:
    """What SQLite said first, which diskcache and a rollback that failed have covered up."""
    first = exc
    while exc is not None:
        first = exc if isinstance(exc, FAULTS) else first
        exc = exc.__context__
    return fault(first, file)
