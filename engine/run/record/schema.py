"""The tables of `run.db`, and opening the file: for its one writer, or for reading.

engine/data/run.sql describes every table and column; any SQLite reader opens the file. Each row
ends with `crc`, the CRC-32 of its other columns as one MessagePack array. `sealed` makes it and
`sound` checks it, so that a changed byte is noticed. A cell counts its rows in `CHILDREN`, so that
a lost row is noticed too.

RunFolderError
├── NotOfThisFormat   the file is not a run database, or another version of this program wrote it
└── RunDamaged        it is torn, truncated or overwritten"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from ....cache.sqlite import no_room, open_copied, open_untrusted, refuse_irregular, side_size
from ...errors import DiskFull, RunFolderError
from ...system.files import holder, is_network, open_plain

RUN_DB = "run.db"
FORMAT = 5
"""Version of the tables, in `PRAGMA user_version`."""
EARLIER = (3, 4)
"""Versions that `oversight cache rebuild` replaces: their cells were packed."""
APPLICATION_ID = 0x6F767372
"""`ovsr`: distinguishes a run from other SQLite files, in `PRAGMA application_id`."""

VERDICT, FAILED, NOT_RUN, WITHDRAWN = "verdict", "failed", "not run", "withdrawn"
"""Values of `cells.status`; a withdrawn cell has no outcome."""

TABLES = tuple(
    statement.strip()
    for statement in files("oversight.engine").joinpath("data/run.sql").read_text().split(";\n")
    if statement.strip()
)
LARGEST = 64 << 20
"""Bytes of a row at most; a larger one is refused, not read."""
BEGINNING = "substr(address, 1, 4)"
"""The expression that the index of calls is made of."""
CHILDREN = ("asked", "turns", "judgements")
"""Tables with the rows of a cell, keyed by its place and a number from 0."""


class CellRow(NamedTuple):
    """The columns of `cells` but for the checksum."""

    place: int
    id: str
    row: int
    problem: int
    side: int
    repeat: int
    status: str
    probs: str | None
    failure: str | None
    message: str | None
    raw: str | None
    call: str | None
    seat: str | None
    cause: str | None
    label_probability: float | None
    redraws: str | None
    bounds: str | None
    measures: str | None
    counts: str | None
    unparsed: str | None
    flags: str | None
    call_count: int
    turn_count: int
    judgement_count: int
    completed: int


def made_again(run: Path) -> str:
    """Advice for a run whose database is lost: its store has every reply."""
    return (
        f"make it again from its sweep file and its store: oversight cache rebuild {run} "
        "--sweep FILE --store STORE"
    )


def no_run(folder: Path) -> RunFolderError:
    """The fault of a folder without run.db."""
    if any((folder / name).exists() for name in ("sweep.yaml", "outcomes.jsonl")):
        return RunFolderError(f"{folder} has no run.db; {made_again(folder)}")
    return RunFolderError(f"{folder} is not a run folder (no run.db)")


class NotOfThisFormat(RunFolderError):
    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file} {why}; {made_again(file.parent)}")
        self.why = why


class RunDamaged(RunFolderError):
    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file} is damaged ({why}); {made_again(file.parent)}")
        self.why = f"is damaged ({why})"


def sealed(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows of columns, as they are written: each with its checksum."""
    return [(*columns, crc32(_encode(columns))) for columns in rows]


def sound(table: str, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """The columns of rows of a table, all of which were read. ValueError where one of them was
    changed, or has another type than the table states."""
    columns = [row[:-1] for row in rows]
    for row, checksum in zip(rows, map(crc32, map(_encode, columns)), strict=True):
        if checksum != row[-1]:
            raise ValueError(f"the row of {row[0]!r:.60} was changed")
    typed: list[Sequence[Any]] = msgspec.convert(columns, _types()[table])
    return typed


_encode = msgspec.msgpack.Encoder().encode


def open_to_write(file: Path) -> sqlite3.Connection:
    """The database of a run, empty if it is not there. The caller holds the run's lock.
    RunFolderError: NotOfThisFormat or RunDamaged for any other file."""
    if file.exists() and file.stat().st_size:
        _check_header(file)
    return _opened(file, writes=True)


def make_tables(db: sqlite3.Connection) -> None:
    """In the caller's transaction: a killed process leaves a whole run, or none."""
    db.execute(f"PRAGMA application_id={APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={FORMAT}")
    for statement in TABLES:
        db.execute(statement)


def use_log(db: sqlite3.Connection, file: Path) -> None:
    """Write through a log, so that others can read meanwhile. A log in shared memory needs one
    machine: over a network the older journal is safe."""
    db.execute(f"PRAGMA main.journal_mode={'truncate' if is_network(file.parent) else 'wal'}")


def use_no_log(db: sqlite3.Connection) -> None:
    """Put all into the one file, which is then read under SQLite's locks, without a side
    file; while somebody reads, the log stays."""
    db.execute("PRAGMA busy_timeout=0")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with suppress(sqlite3.OperationalError):
        db.execute("PRAGMA journal_mode=delete")


def open_to_read(file: Path) -> sqlite3.Connection:
    """Open the database read only; nothing in it is trusted or run, and its folder stays as it is.
    Raises RunFolderError as `open_to_write` does, and if the database is missing."""
    return _opened(file)


def _opened_to_read(file: Path) -> sqlite3.Connection:
    """A log that no running process writes is read from a private copy. A journal is never played:
    SQLite refuses a file that needs one from a connection that only reads."""
    try:
        expects_log = _check_header(file)
    except FileNotFoundError:
        raise no_run(file.parent) from None
    log, journal = side_size(file, "-wal"), side_size(file, "-journal")
    if holder(file.parent) is not None or (journal and not log):
        return open_untrusted(file, "mode=ro")
    if journal:
        raise sqlite3.OperationalError("it has a journal and a log, and needs only one of them")
    if log:
        return open_copied(file)
    # A file that was copied from under its writer lacks its log, and none is made for it here.
    return open_untrusted(file, "mode=ro&immutable=1" if expects_log else "mode=ro")


def _opened(file: Path, writes: bool = False) -> sqlite3.Connection:
    """Transactions are the caller's; nothing in the file is trusted."""
    try:
        refuse_irregular(file)
        db = open_untrusted(file, "mode=rwc") if writes else _opened_to_read(file)
        try:
            db.execute(f"PRAGMA {'synchronous=NORMAL' if writes else 'query_only=ON'}")
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)
            if not writes or db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                _check_opened(db, file)
        except BaseException:
            db.close()
            raise
    except sqlite3.Error as exc:
        raise faulty(file, exc) from exc
    return db


def faulty(file: Path, exc: sqlite3.Error) -> RunFolderError:
    """A fault of SQLite as an error that names the file and the fix."""
    if why := no_room(exc, file):
        return DiskFull(f"{why}, then go on; all committed cells are safe")
    if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        return RunDamaged(file, "to read it takes more steps than any run of its size needs")
    if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_ROLLBACK:
        return RunFolderError(
            f"{file} cannot be read: {file.name}-journal undoes a write that was cut off, and only "
            f"the run itself may play it: go on with oversight run, or {made_again(file.parent)}"
        )
    if isinstance(exc, sqlite3.OperationalError) and not str(exc).startswith(_NO_TEXT):
        return RunFolderError(f"{file} cannot be read or written: {exc}")
    return RunDamaged(file, str(exc))


_NO_TEXT = "Could not decode to UTF-8"
"""How the fault of a text that was changed begins."""
_LOGGED = 2
"""Of a file that is read through a log, the version of the format that a reader must know."""


def logged(file: Path) -> bool:
    """Whether a writer is at work, or was killed."""
    return any(file.with_name(file.name + end).exists() for end in ("-wal", "-journal"))


def _check_header(file: Path) -> bool:
    """Refuse a foreign file before SQLite opens it, which may write to it; whether it expects a log
    that is not there. Where a writer was killed, the header may be in its journal still."""
    with open_plain(file) as opened:
        header = opened.read(100)
    if logged(file):
        return False
    if header and not header.startswith(b"SQLite format 3\0"):
        raise NotOfThisFormat(file, "is not the database of a run")
    if len(header) < 100:
        raise RunDamaged(file, f"it ends after {len(header)} bytes")
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    _check_format(file, application, version)
    return header[19] == _LOGGED


def _check_opened(db: sqlite3.Connection, file: Path) -> None:
    """Check the format again once SQLite has opened the file and read its journal."""
    application, version = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    _check_format(file, application, version)
    try:
        if not _schema().issuperset(db.execute("SELECT name, sql FROM sqlite_schema")):
            raise NotOfThisFormat(file, "is not the database of a run")
    except UnicodeDecodeError as exc:
        raise RunDamaged(file, str(exc)) from exc
    db.execute("SELECT count(*) FROM meta").fetchone()


def _check_format(file: Path, application: int, version: int) -> None:
    if application != APPLICATION_ID:
        raise NotOfThisFormat(file, "is not the database of a run")
    if version in EARLIER:
        raise NotOfThisFormat(file, f"was written by an earlier version (format {version})")
    if version != FORMAT:
        raise NotOfThisFormat(file, f"is of format {version}, and this program reads {FORMAT}")


@cache
def _schema() -> frozenset[tuple[str, str | None]]:
    """(name, SQL) of all that may stand in a run."""
    with _empty() as db:
        return frozenset(db.execute("SELECT name, sql FROM sqlite_schema"))


@cache
def _types() -> dict[str, Any]:
    """By table, the type of a list of its rows without their checksums."""
    kinds = {"INTEGER": int, "TEXT": str, "REAL": float, "BLOB": bytes}
    types: dict[str, Any] = {}
    with _empty() as db:
        names = db.execute("SELECT name FROM sqlite_schema WHERE type='table'").fetchall()
        for (name,) in names:
            *columns, _ = db.execute(f"PRAGMA table_info({name})")
            row = tuple(
                kinds[kind] if required or key else kinds[kind] | None
                for _, _, kind, required, _, key in columns
            )
            types[name] = list[tuple[row]]  # type: ignore[valid-type]
    return types


@contextmanager
def _empty() -> Iterator[sqlite3.Connection]:
    """The tables of a run without rows, in memory."""
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in TABLES:
            db.execute(statement)
        yield db
