"""The door for SQLite files that others may have written: nothing in them is run, and every
statement ends.

SQLite reads `-journal`, `-wal` and `-shm` as parts of a file. A journal may name another file,
which SQLite deletes once it has played the journal. A reader therefore plays none.
"""

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Any

BETWEEN = 10_000
"""Steps of SQLite's machine between two looks at how many there were."""
STEPS = 10**7
"""Steps that any statement may take; some tenths of a second."""
ENDLESS = 2**62
STEPS_A_BYTE = 50
"""Steps beside these, for each byte of the file; one that goes through a sound file takes few."""

_SIDES = ("-journal", "-wal", "-shm")
_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names another file."""
_LOG_HEAD = 32
"""Bytes of a log that change whenever SQLite begins to write it from its start."""
MAX_COPIED = 2**34
"""Bytes of a database and its log that are copied to be read."""
_TRIES = 20
"""Copies made of a file that is being written, before it is refused."""


class _Steps:
    """The steps of one statement."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.taken = 0

    def __call__(self) -> bool:
        """Whether they are too many by now."""
        self.taken += BETWEEN
        if self.taken <= STEPS:
            return False
        names = (self.file, log_of(self.file))
        size = sum(name.stat().st_size for name in names if name.exists())
        return self.taken > STEPS + STEPS_A_BYTE * size


class BoundedConnection(sqlite3.Connection):
    """Ends a statement that takes more steps than a sound file of its size needs: a small one can
    ask for endless ones. Then sqlite3.OperationalError, with SQLITE_INTERRUPT."""

    steps: _Steps

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.steps.taken = 0
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        # Each is short, and whoever gives what they are about comes to an end.
        self.steps.taken = -ENDLESS
        return super().executemany(sql, parameters)


def open_bounded(file: Path, options: str) -> BoundedConnection:
    """Open a database file. options: the query of SQLite's URI, which begins with the mode.

    Raises sqlite3.Error if the database or a side file is not a regular file, and, for a writer, if
    the journal names another file.
    """
    refuse_irregular(file)
    if not options.startswith("mode=ro") and side_size(file, "-journal") >= len(_MAGIC):
        with _opened(file.with_name(f"{file.name}-journal")) as journal:
            journal.seek(-len(_MAGIC), os.SEEK_END)
            if journal.read() == _MAGIC:
                raise sqlite3.OperationalError(
                    f"{file.name}-journal names another file, and none of ours does: delete it"
                )
    # Any thread may use it: SQLite lets one at a time.
    db = sqlite3.connect(
        f"{file.absolute().as_uri()}?{options}",
        uri=True,
        timeout=60,
        isolation_level=None,
        check_same_thread=False,
        factory=BoundedConnection,
    )
    db.steps = _Steps(file)
    db.set_progress_handler(db.steps, BETWEEN)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    # A mapped file that shrinks under its reader kills the process instead of raising.
    db.execute("PRAGMA mmap_size = 0")
    return db


def open_copied(file: Path) -> BoundedConnection:
    """Open a private copy of a database and its log, as both were at one moment. sqlite3.Error."""
    log = log_of(file)
    try:
        with tempfile.TemporaryDirectory(prefix="oversight-") as folder:
            copy = Path(folder) / file.name
            size = side_size(file, "") + side_size(file, "-wal")
            if size > min(MAX_COPIED, shutil.disk_usage(folder).free):
                raise sqlite3.OperationalError(f"it has a log, and {size:,} bytes are not copied")
            for _ in range(_TRIES):
                head = _log_head(log)
                for part, target in ((file, copy), (log, log_of(copy)))[: 1 + bool(head)]:
                    with _opened(part) as source, target.open("wb") as written:
                        shutil.copyfileobj(source, written, 2**20)
                # All pages that were written meanwhile are in the log, if it was not begun again.
                if head == _log_head(log):
                    break
            else:
                raise sqlite3.OperationalError("it is being written: try again")
            db = open_bounded(copy, "mode=rw")
            # From here on SQLite has every file open, and needs no name.
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
    """Size of a side file, such as `-wal`, in bytes; 0 if it is missing."""
    try:
        return os.lstat(file.with_name(file.name + end)).st_size
    except FileNotFoundError:
        return 0


def log_of(file: Path) -> Path:
    """Where SQLite keeps what is not in the file yet."""
    return file.with_name(f"{file.name}-wal")


def _log_head(log: Path) -> bytes:
    if not log.exists():
        return b""
    with _opened(log) as file:
        return file.read(_LOG_HEAD)


def _opened(part: Path) -> BufferedReader:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(part, flags), "rb")
