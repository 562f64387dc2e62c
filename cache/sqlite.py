"""SQLite files that others may have written: safe opening, and the reader of a store.

Nothing in such a file is executed, and every statement ends. SQLite treats `-journal`, `-wal` and
`-shm` as parts of a file. A journal may name another file, which SQLite deletes after playing the
journal, so a reader plays none.

A store has rows in diskcache's layout. Rows other than checksummed bytes under a text key are
damage. Nothing is unpickled or written here."""

import hashlib
import os
import resource
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from functools import cache
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .entry import SHARES, split_shared, strip_checksum
from .errors import DamagedEntry, StoreError, StoreFull
from .store import Reader

STORE_FILE = "cache.db"

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions of a damaged file. SQLite may quote damaged text that Python fails to decode."""

_IN_ROW = 1
"""Mode of a row that holds its value; other modes refer to files and pickles."""
_BATCH = 256
"""Rows read at a time. A scan holds no lock and no snapshot between batches."""
_SMALLEST_ROW = 64
"""Minimum bytes of a row."""

ASKED_AT_ONCE = 500

_TEXTS_IN_MEMORY = 64
_NO_TEXTS: Mapping[str, bytes] = MappingProxyType({})

_CACHE = "SELECT 1 FROM sqlite_schema WHERE name = 'Cache' AND type = 'table' AND rootpage > 0"
_GET = "SELECT mode, value FROM Cache WHERE key = ? AND raw = 1"
# Texts that entries share have `raw` 0. Their key is their sha256, which replaces them in entries.
_TEXT = "SELECT mode, value FROM Cache WHERE key = ? AND raw = 0"
# Keys are compared as bytes, since a damaged one may not be UTF-8.
_RANGE = "raw = 1 AND key {} CAST(? AS TEXT) AND key < CAST(? AS TEXT) ORDER BY key LIMIT ?"
_KEYS = f"SELECT key FROM Cache WHERE {_RANGE}"
_ENTRIES = f"SELECT key, mode, value FROM Cache WHERE {_RANGE}"
# Columns by position: a flipped byte in a column's name must not cost every reply.
_AFTER = "SELECT * FROM Cache WHERE rowid > ? ORDER BY rowid LIMIT ?"
_AT = "SELECT * FROM Cache WHERE rowid = ?"
_COLUMNS, _ROWID, _KEY, _MODE, _VALUE = 12, 0, 1, 9, 11
_NAMES = "SELECT key, raw, mode, value FROM Cache LIMIT 1"
_IDENTITY = "SELECT value FROM Settings WHERE key = 'store_id'"
_FOREIGN = (
    "SELECT rowid FROM Cache WHERE ifnull(raw, 2) NOT IN (0, 1) OR raw = 0 AND length(key) != 64 "
    "OR typeof(key) != 'text' LIMIT 20"
)


class EntryReader(Reader):
    """The reading half of a store on SQLite."""

    def __init__(self, file: Path, options: str = "mode=ro") -> None:
        """options: query of SQLite's file URI."""
        self.file = file
        self._closed = False
        self._texts: dict[str, bytes] = {}
        with ExitStack() as undo:
            try:
                self._db = undo.enter_context(closing(connect_safely(file, options)))
                table = self._db.execute(_CACHE).fetchone()
            except FAULTS as exc:
                raise fault(exc, file) from exc
            if not table:
                if self._db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
                    raise StoreError(f"{file} holds no store yet: its creation was interrupted")
                raise StoreError(
                    f"{file} is not a store (no table of replies); if it was one, recover what "
                    f"can be read of it: oversight cache verify --recover --store {file.parent}"
                )
            undo.pop_all()

    @property
    def id(self) -> str:
        try:
            row = self._db.execute(_IDENTITY).fetchone()
        except FAULTS:
            return ""
        return row[0].decode(errors="replace") if row and isinstance(row[0], bytes) else ""

    def get(self, key: str) -> bytes | None:
        try:
            row = self._db.execute(_GET, (key,)).fetchone()
        except FAULTS as exc:
            raise fault(exc, self.file) from exc
        if row is None:
            return None
        entry = _value(key, *row)
        return entry if entry[:1] != SHARES else self._whole(key, *row)

    def keys(self, prefix: str = "") -> Iterator[str]:
        for (key,) in self._batches(_KEYS, prefix):
            yield _name(key)

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes | DamagedEntry]]:
        for key, mode, value in self._batches(_ENTRIES, prefix):
            yield self._found(key, mode, value)

    def recover(self) -> Iterator[tuple[str, bytes | DamagedEntry]]:
        """Every entry that can be reached in a malformed file, unordered."""
        # Texts first. Their index, and the column that marks them, may be damaged: a text is
        # recognized by its sha256.
        texts: dict[str, bytes] = {}
        for key, mode, value in self._reachable():
            with suppress(DamagedEntry):
                text = _value(name := _name(key), mode, value)
                if hashlib.sha256(text).hexdigest() == name:
                    texts[name] = text
        for key, mode, value in self._reachable():
            if _name(key) not in texts:
                yield self._found(key, mode, value, texts)

    def _reachable(self) -> Iterator[tuple[Any, Any, Any]]:
        last, end = 0, self._last_rowid()
        while last < end:
            try:
                rows = self._db.execute(_AFTER, (last, _BATCH)).fetchall()
            except FAULTS:
                # Part of this range is unreadable: read it row by row.
                rows = [row for rowid in range(last + 1, last + _BATCH) for row in self._at(rowid)]
                last += _BATCH - 1
            else:
                last = rows[-1][_ROWID] if rows else end
            for row in rows:
                if len(row) == _COLUMNS:
                    yield row[_KEY], row[_MODE], row[_VALUE]

    def faults(self) -> Iterator[str]:
        """Damage of the file other than of its entries."""
        try:
            self._db.execute(_NAMES)
            for (line,) in self._db.execute("PRAGMA integrity_check"):
                if line != b"ok":
                    yield line.decode(errors="replace")
            for (rowid,) in self._db.execute(_FOREIGN):
                yield f"row {rowid} was not written by this program, and is ignored"
        except FAULTS as exc:
            yield str(exc)

    def __len__(self) -> int:
        # Counted, since a flipped byte in a stored count would make it wrong.
        ((count,),) = self._fetched("SELECT COUNT(*) FROM Cache WHERE raw = 1")
        return int(count)

    def close(self) -> None:
        self._closed = True
        self._db.close()

    def _fetched(self, sql: str, *values: object) -> list[Any]:
        try:
            return self._db.execute(sql, values).fetchall()
        except FAULTS as exc:
            raise fault(exc, self.file) from exc

    def _batches(self, query: str, prefix: str) -> Iterator[tuple[Any, ...]]:
        comparison, last = ">=", prefix.encode(errors="surrogateescape")
        end = last + b"\xff\xff"
        while True:
            rows = self._fetched(query.format(comparison), last, end, _BATCH)
            yield from rows
            if len(rows) < _BATCH:
                return
            if rows[-1][0] <= last:
                raise StoreError(_malformed(self.file, "its index is out of order"))
            comparison, last = ">", rows[-1][0]

    def _found(
        self, key: object, mode: object, value: object, texts: Mapping[str, bytes] = _NO_TEXTS
    ) -> tuple[str, bytes | DamagedEntry]:
        name = _name(key)
        try:
            return name, self._whole(name, mode, value, texts)
        except DamagedEntry as damage:
            return name, damage

    def _whole(
        self, key: str, mode: object, value: object, texts: Mapping[str, bytes] = _NO_TEXTS
    ) -> bytes:
        """A value with its shared text; without it if that is damaged, since the reply is not.
        texts: known ones, by address."""
        entry = _value(key, mode, value)
        if entry[:1] == SHARES:
            entry, address = split_shared(entry)
            entry += texts.get(address.hex()) or self._text(address.hex())
        return entry

    def _text(self, address: str) -> bytes:
        """A text that entries share; empty if it cannot be read."""
        text = self._texts.get(address)
        if text is None:
            try:
                row = self._db.execute(_TEXT, (address,)).fetchone()
                if row is None:
                    return b""
                text = _value(address, *row)
            except (*FAULTS, DamagedEntry):
                return b""
            if len(self._texts) >= _TEXTS_IN_MEMORY:
                self._texts.clear()
            self._texts[address] = text
        return text

    def _at(self, rowid: int) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(_AT, (rowid,)).fetchall()
        except FAULTS:
            return []

    def _last_rowid(self) -> int:
        try:
            return int(self._db.execute("SELECT MAX(rowid) FROM Cache").fetchone()[0] or 0)
        except FAULTS:
            # The way to the last row is damaged; this is an upper bound from the file's size.
            return self.file.stat().st_size // _SMALLEST_ROW


def connect_safely(file: Path, options: str) -> sqlite3.Connection:
    """A connection that executes nothing that the file contains."""
    db = open_untrusted(file, options)
    db.text_factory = bytes
    return db


def no_room(exc: BaseException | None, file: Path) -> str:
    """Why SQLite cannot write to the disk of a file, and the fix; empty for other errors."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return f"the disk of {file} is full: make room"
    if code != sqlite3.SQLITE_IOERR:
        return ""
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most == resource.RLIM_INFINITY:
        return f"the disk of {file} fails ({exc}): check it"
    return f"{file} reached the limit of {most:,} bytes ({exc}): raise it (ulimit -f)"


def fault(exc: BaseException | None, file: Path) -> StoreError:
    """SQLite's error as a StoreError that names the next step."""
    if why := no_room(exc, file):
        return StoreFull(f"{why}, then resume; stored replies are safe")
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    # Our statements are correct: a statement error means a damaged schema.
    damage = (
        *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR),
        sqlite3.SQLITE_INTERRUPT,
    )
    unread = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
    if code in (*damage, *unread) and side_size(file, "-journal"):
        return StoreError(
            f"{file} is incomplete and holds no replies: its creation was interrupted. The next "
            "oversight run with this store creates it again, if it may write"
        )
    if code in damage or isinstance(exc, UnicodeDecodeError):
        return StoreError(_malformed(file, str(exc)))
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"{file}: another process has locked the store for a minute; try again")
    if code == sqlite3.SQLITE_READONLY or (
        code == sqlite3.SQLITE_CANTOPEN and file.exists() and not log_of(file).exists()
    ):
        return StoreError(
            f"{file} cannot be written, which a running sweep requires; to read a finished run, "
            "use oversight report, show and replay"
        )
    if code == sqlite3.SQLITE_CANTOPEN and file.exists():
        return StoreError(
            f"{file} cannot be read here, since its last writer was interrupted: "
            f"copy {file.parent} to a writable disk, and read it there"
        )
    return StoreError(f"{file}: {exc}")


def _malformed(file: Path, reason: str) -> str:
    return (
        f"{file} is malformed: {reason}; recover what can be read: "
        f"oversight cache verify --recover --store {file.parent}"
    )


def _name(key: object) -> str:
    return key.decode("ascii", "backslashreplace") if isinstance(key, bytes) else repr(key)


def _value(key: str, mode: object, value: object) -> bytes:
    if mode != _IN_ROW or not isinstance(value, bytes):
        raise DamagedEntry(key, f"its row has mode {mode!r}, which this program never writes")
    return strip_checksum(key, value)


BETWEEN = 10_000
"""SQLite instructions between two checks of their number."""
STEPS = 10**7
"""Maximum instructions of any statement; some tenths of a second."""
ENDLESS = 2**62
STEPS_A_BYTE = 50
"""Additional instructions per byte of the file; reading an intact file takes fewer."""

_SIDES = ("-journal", "-wal", "-shm")
_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a journal that names another file."""
_LOG_HEAD = 32
"""Bytes of a log that change when SQLite restarts it."""
MAX_COPIED = 2**34
"""Maximum bytes of a database and its log that are copied for reading."""
_TRIES = 20
"""Copies made of a file that is being written, before giving up."""


class _Steps:
    """Counts the instructions of one statement."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.taken = 0

    def __call__(self) -> bool:
        """Count more instructions; whether the maximum is exceeded."""
        self.taken += BETWEEN
        if self.taken <= STEPS:
            return False
        names = (self.file, log_of(self.file))
        size = sum(name.stat().st_size for name in names if name.exists())
        return self.taken > STEPS + STEPS_A_BYTE * size


class UntrustedConnection(sqlite3.Connection):
    """Ends a statement that takes more instructions than an intact file of its size needs, since a
    small file can demand endless ones. Raises sqlite3.OperationalError with SQLITE_INTERRUPT."""

    steps: _Steps

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.steps.taken = 0
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        # Each statement is short, and the number of parameters is finite.
        self.steps.taken = -ENDLESS
        return super().executemany(sql, parameters)


def open_untrusted(file: Path, options: str) -> UntrustedConnection:
    """Open a database file. options: query of SQLite's URI, which starts with the mode. Raises
    sqlite3.Error if the database or a side file is not a regular file, and, in a writing mode, if
    the journal names another file."""
    refuse_irregular(file)
    if not options.startswith("mode=ro") and side_size(file, "-journal") >= len(_MAGIC):
        with _opened(file.with_name(f"{file.name}-journal")) as journal:
            journal.seek(-len(_MAGIC), os.SEEK_END)
            if journal.read() == _MAGIC:
                raise sqlite3.OperationalError(
                    f"{file.name}-journal names another file, which ours never do: delete it"
                )
    # Any thread may use it: SQLite serializes them.
    db = sqlite3.connect(
        f"{file.absolute().as_uri()}?{options}",
        uri=True,
        timeout=60,
        isolation_level=None,
        check_same_thread=False,
        factory=UntrustedConnection,
    )
    db.steps = _Steps(file)
    db.set_progress_handler(db.steps, BETWEEN)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    # A mapped file that shrinks would kill the process instead of raising.
    db.execute("PRAGMA mmap_size = 0")
    return db


def open_copied(file: Path) -> UntrustedConnection:
    """Open a private copy of a database and its log, taken at one moment. sqlite3.Error."""
    log = log_of(file)
    try:
        with tempfile.TemporaryDirectory(prefix="oversight-") as folder:
            copy = Path(folder) / file.name
            size = side_size(file, "") + side_size(file, "-wal")
            if size > min(MAX_COPIED, shutil.disk_usage(folder).free):
                raise sqlite3.OperationalError(f"{size:,} bytes with its log are too many to copy")
            for _ in range(_TRIES):
                head = _log_head(log)
                for part, target in ((file, copy), (log, log_of(copy)))[: 1 + bool(head)]:
                    with _opened(part) as source, target.open("wb") as written:
                        shutil.copyfileobj(source, written, 2**20)
                # Pages written meanwhile are all in the log, unless it was restarted.
                if head == _log_head(log):
                    break
            else:
                raise sqlite3.OperationalError("it is being written: try again")
            db = open_untrusted(copy, "mode=rw")
            # Now SQLite has opened every file, and needs no names.
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except OSError as exc:
        raise sqlite3.OperationalError(f"it cannot be copied to be read: {exc}") from exc
    db.steps.file = file
    return db


def refuse_irregular(file: Path) -> None:
    """Raise sqlite3.OperationalError unless a database and its side files are regular files."""
    for end in ("", *_SIDES):
        part = file.with_name(file.name + end)
        try:
            regular = stat.S_ISREG(os.lstat(part).st_mode)
        except FileNotFoundError:
            continue
        if not regular:
            raise sqlite3.OperationalError(
                f"{part.name} is not a regular file: links, pipes and folders are not followed; "
                "delete it, or put the file itself there"
            )


def side_size(file: Path, end: str) -> int:
    """Bytes of a side file, such as `-wal`; 0 if it is missing."""
    try:
        return os.lstat(file.with_name(file.name + end)).st_size
    except FileNotFoundError:
        return 0


@cache
def log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-wal")


def _log_head(log: Path) -> bytes:
    if not log.exists():
        return b""
    with _opened(log) as file:
        return file.read(_LOG_HEAD)


def _opened(part: Path) -> BufferedReader:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(part, flags), "rb")
