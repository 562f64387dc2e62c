"""SQLite files that others may have written: nothing in them is run, and every statement ends."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BETWEEN = 10_000
"""Steps of SQLite's machine between two looks at how many there were."""
STEPS = 10**7
"""Steps that any statement may take; some tenths of a second."""
ENDLESS = 2**62
STEPS_A_BYTE = 50
"""Steps beside these, for each byte of the file; one that goes through a sound file takes few."""


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
        names = (self.file, self.file.with_name(f"{self.file.name}-wal"))
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


def open_bounded(name: str, file: Path) -> BoundedConnection:
    """name: the file's URI, or another database to which the file is attached. sqlite3.Error."""
    # Any thread may use it: SQLite lets one at a time.
    db = sqlite3.connect(
        name,
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
