"""The tables of `run.db`, and opening the file: for its one writer, or to be read.

    meta       what the run is and its sweep as data, both packed; where it stands, as JSON
    problems   as lines of problems.jsonl, each with its number; passages that several share, once
    rows       the names of the grid's rows
    parts      for what a call was asked: role, seat, turns heard
    endpoints  who answered, and how the reply came
    calls      every different reply, by the whole address of its call
    cells      one row a cell: figures in columns, what was said packed in `body`
    events     how cells had ended that were run again; what batches, people and probes did

Every row of every table ends with the CRC-32 of its other columns, made by `sealed` and checked by
`sound`, so that a changed byte is told, wherever it falls. Probabilities are little-endian float64
in question order. A packed value begins with a byte that says how: 0, as it stands; 1, a Zstandard
frame, made with the dictionary of the store's records.

RunFolderError
├── NotOfThisFormat   the file called run.db is none, or another version of this program wrote it
└── RunDamaged        it is torn, truncated or overwritten
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from ....cache.bounded import open_bounded, open_copied, refuse_irregular, side_size
from ....cache.rows import no_room
from ...errors import DiskFull, RunFolderError
from ...system.files import holder, is_network, open_plain

RUN_DB = "run.db"
FORMAT = 4
"""Version of the tables, in `PRAGMA user_version`."""
EARLIER = 3
"""The version before, with the same tables; a call may be recorded under another model."""
APPLICATION_ID = 0x6F767372
"""`ovsr`: tells a run from any other SQLite file, in `PRAGMA application_id`."""

STATUSES = ("verdict", "failed", "not run", "withdrawn")
"""What became of a cell, by its number in `cells.status`; a withdrawn one has no outcome."""
FAILED, WITHDRAWN = map(STATUSES.index, ("failed", "withdrawn"))

BEGINNING = "substr(address, 1, 8)"
"""How an address begins: an index of this is a third of one of the whole."""
TABLES = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value, crc INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE passages(passage INTEGER PRIMARY KEY, body BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE problems(problem INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " passage INTEGER, body BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE rows(row INTEGER PRIMARY KEY, kind TEXT NOT NULL, agent TEXT NOT NULL,"
    " judge TEXT NOT NULL, address BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE parts(part INTEGER PRIMARY KEY, role TEXT NOT NULL, seat TEXT NOT NULL,"
    " heard INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE endpoints(endpoint INTEGER PRIMARY KEY, model TEXT NOT NULL,"
    " identity TEXT NOT NULL, served TEXT NOT NULL, stop TEXT NOT NULL, origin TEXT NOT NULL,"
    " came TEXT NOT NULL, elsewhere INTEGER NOT NULL, settings TEXT NOT NULL,"
    " crc INTEGER NOT NULL)",
    "CREATE TABLE calls(call INTEGER PRIMARY KEY, address BLOB NOT NULL,"
    " endpoint INTEGER NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL,"
    " cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, dollars REAL, at INTEGER,"
    " reply BLOB NOT NULL, crc INTEGER NOT NULL)",
    f"CREATE INDEX calls_beginning ON calls({BEGINNING})",
    "CREATE TABLE cells(place INTEGER PRIMARY KEY, id BLOB NOT NULL, row INTEGER NOT NULL,"
    " problem INTEGER NOT NULL, side INTEGER NOT NULL, draw INTEGER NOT NULL,"
    " status INTEGER NOT NULL, landed INTEGER NOT NULL, probs BLOB, failure TEXT, more TEXT,"
    " body BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE INDEX cells_landed ON cells(landed)",
    "CREATE TABLE events(event INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL,"
    " crc INTEGER NOT NULL)",
)


def made_again(run: Path) -> str:
    """Advice for a run whose database is lost: its store has every reply."""
    return (
        f"make it again from its sweep file and its store: oversight cache rebuild {run} "
        "--sweep FILE --store STORE"
    )


def no_run(folder: Path) -> RunFolderError:
    """What a folder is that has no run.db."""
    if any((folder / name).exists() for name in ("sweep.yaml", "outcomes.jsonl")):
        return RunFolderError(f"{folder} has no run.db; {made_again(folder)}")
    return RunFolderError(f"{folder} is no run folder: it has no run.db")


class NotOfThisFormat(RunFolderError):
    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file} {why}; {made_again(file.parent)}")
        self.why = why


class RunDamaged(RunFolderError):
    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file} is damaged ({why}); {made_again(file.parent)}")
        self.why = f"is damaged ({why})"


def sealed(columns: Sequence[Any]) -> tuple[Any, ...]:
    """A row of these columns, as it is written."""
    return *columns, crc32(_encode(columns))


def sound(row: Sequence[Any]) -> Sequence[Any]:
    """The columns of a row, all of which was read. ValueError where one of them was changed."""
    columns = row[:-1]
    if crc32(_encode(columns)) != row[-1]:
        raise ValueError(f"the row of {row[0]!r:.60} was changed")
    return columns


_encode = msgspec.msgpack.Encoder().encode


def open_to_write(file: Path) -> sqlite3.Connection:
    """The database of a run, empty if it is not there. The caller holds the run's lock.

    RunFolderError: NotOfThisFormat or RunDamaged for what is no run of ours.
    """
    if file.exists() and file.stat().st_size:
        _check_header(file)
    return _opened(file, writes=True)


def make_tables(db: sqlite3.Connection) -> None:
    """In the caller's transaction: whoever is killed leaves a whole run, or none."""
    db.execute(f"PRAGMA application_id={APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={FORMAT}")
    for statement in TABLES:
        db.execute(statement)


def put_event(db: sqlite3.Connection, kind: str, body: bytes, number: int | None = None) -> None:
    """Write an event, in the caller's transaction. number: of the one in whose place it is."""
    if number is None:
        ((number,),) = db.execute("SELECT coalesce(max(event), 0) + 1 FROM events").fetchall()
    db.execute("REPLACE INTO events VALUES(?,?,?,?)", sealed((number, kind, body)))


def use_log(db: sqlite3.Connection, file: Path) -> None:
    """Write through a log, as readers beside a writer need it. A log in shared memory needs one
    machine: over a network the older journal is safe."""
    db.execute(f"PRAGMA main.journal_mode={'truncate' if is_network(file.parent) else 'wal'}")


def use_no_log(db: sqlite3.Connection) -> None:
    """Put all into the one file, which is then read under SQLite's locks, and without a file beside
    it; where somebody reads just now, the log stays."""
    db.execute("PRAGMA busy_timeout=0")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with suppress(sqlite3.OperationalError):
        db.execute("PRAGMA journal_mode=delete")


def open_to_read(file: Path, least: int = FORMAT) -> sqlite3.Connection:
    """Open the database read only; nothing in it is trusted or run, and its folder stays as it is.

    least: the earliest format that is accepted.
    Raises RunFolderError as `open_to_write` does, and if the database is missing.
    """
    return _opened(file, least=least)


def _opened_to_read(file: Path, least: int) -> sqlite3.Connection:
    """A log that no running process writes is read from a private copy. A journal is never played:
    SQLite refuses a file that needs one from a connection that only reads."""
    try:
        expects_log = _check_header(file, least)
    except FileNotFoundError:
        raise no_run(file.parent) from None
    log, journal = side_size(file, "-wal"), side_size(file, "-journal")
    if holder(file.parent) is not None or (journal and not log):
        return open_bounded(file, "mode=ro")
    if journal:
        raise sqlite3.OperationalError("it has a journal and a log, and needs only one of them")
    if log:
        return open_copied(file)
    # A file that was copied from under its writer lacks its log, and none is made for it here.
    return open_bounded(file, "mode=ro&immutable=1" if expects_log else "mode=ro")


def _opened(file: Path, writes: bool = False, least: int = FORMAT) -> sqlite3.Connection:
    """Transactions are the caller's; nothing in the file is trusted."""
    try:
        refuse_irregular(file)
        db = open_bounded(file, "mode=rwc") if writes else _opened_to_read(file, least)
        try:
            db.execute(f"PRAGMA {'synchronous=NORMAL' if writes else 'query_only=ON'}")
            if not writes or db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                _check_opened(db, file, least)
        except BaseException:
            db.close()
            raise
    except sqlite3.Error as exc:
        raise faulty(file, exc) from exc
    return db


def faulty(file: Path, exc: sqlite3.Error) -> RunFolderError:
    """What SQLite says of a run, as an error that names the file and the remedy."""
    if why := no_room(exc, file):
        return DiskFull(f"{why}, then go on; what was committed is safe")
    if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        return RunDamaged(file, "to read it takes more steps than any run of its size needs")
    if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_ROLLBACK:
        return RunFolderError(
            f"{file} cannot be read: {file.name}-journal undoes a write that was cut off, and only "
            f"the run itself may play it: go on with oversight run, or {made_again(file.parent)}"
        )
    if isinstance(exc, sqlite3.OperationalError):
        return RunFolderError(f"{file} cannot be read or written: {exc}")
    return RunDamaged(file, str(exc))


_LOGGED = 2
"""Of a file that is read through a log, the version of the format that a reader must know."""


def logged(file: Path) -> bool:
    """Whether a writer is at work, or was killed."""
    return any(file.with_name(file.name + end).exists() for end in ("-wal", "-journal"))


def _check_header(file: Path, least: int = FORMAT) -> bool:
    """Refuse a foreign file before SQLite opens it, which may write to it; whether it expects a log
    that is not there.

    Where a writer was killed, the header may be in its journal still.
    """
    with open_plain(file) as opened:
        header = opened.read(100)
    if logged(file):
        return False
    if header and not header.startswith(b"SQLite format 3\0"):
        raise NotOfThisFormat(file, "is no database of a run")
    if len(header) < 100:
        raise RunDamaged(file, f"it ends after {len(header)} bytes")
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    _check_format(file, application, version, least)
    return header[19] == _LOGGED


def _check_opened(db: sqlite3.Connection, file: Path, least: int) -> None:
    """Check the format again once SQLite has opened the file and read its journal."""
    application, version = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    _check_format(file, application, version, least)
    try:
        if not _schema().issuperset(db.execute("SELECT name, sql FROM sqlite_schema")):
            raise NotOfThisFormat(file, "is no database of a run")
    except UnicodeDecodeError as exc:
        raise RunDamaged(file, str(exc)) from exc
    db.execute("SELECT count(*) FROM meta").fetchone()


def _check_format(file: Path, application: int, version: int, least: int) -> None:
    if application != APPLICATION_ID:
        raise NotOfThisFormat(file, "is no database of a run")
    if version == EARLIER < least:
        raise NotOfThisFormat(
            file, "was written by an earlier version, which may name the wrong model for a reply"
        )
    if not least <= version <= FORMAT:
        raise NotOfThisFormat(file, f"is of format {version}, and this program reads {FORMAT}")


@cache
def _schema() -> frozenset[tuple[str, str | None]]:
    """(name, SQL) of all that may stand in a run."""
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in TABLES:
            db.execute(statement)
        return frozenset(db.execute("SELECT name, sql FROM sqlite_schema"))
