"""The store that a team shares: PostgreSQL, from any number of machines at once.

    replies        key (bytes in order), value (sealed, as in SQLite), stored_at
    reservations   key, owner, until: calls that are out in some run's batch; made when first used
    store          one row: the version of these tables, and the id of the store

What is stored first stays, whoever comes second. Calls in flight are told by advisory locks of the
writing session: they end with it, however it ends, so that no dead process holds a call.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from .checksum import add_checksum, strip_checksum
from .errors import DamagedEntry, StoreError, StoreFull, StoreGone
from .store import Store, checked_key

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as exc:
    raise StoreError(
        "a store in PostgreSQL needs psycopg: pip install 'oversight-bench[postgres]'"
    ) from exc

SCHEMA = 1
MAX_OUTAGE_SECONDS = 60.0
"""How long to wait for a database that restarts."""
RETRY_PAUSE, MAX_RETRY_PAUSE = 0.05, 2.0
"""Seconds between two tries: each is twice the one before."""
_BATCH = 256
"""Rows read at a time."""
_SETUP_LOCK = 7_265_001
"""Key of the advisory lock under which the tables are made."""

_TABLES = """
CREATE TABLE IF NOT EXISTS replies (
    key text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE replies ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS store (version int NOT NULL, id text NOT NULL);
"""
_GIVEN = "SELECT * FROM unnest(%s::text[], %s::bytea[])"
_KEEP = f"INSERT INTO replies (key, value) {_GIVEN} ON CONFLICT (key) DO NOTHING RETURNING key"
_PUT = f"""INSERT INTO replies (key, value) {_GIVEN}
ON CONFLICT (key) DO UPDATE SET value = excluded.value, stored_at = now()"""
_GET = "SELECT key, value FROM replies WHERE key = ANY(%s)"
_DELETE = "DELETE FROM replies WHERE key = ANY(%s)"
_RANGE = "FROM replies WHERE key {} %s AND key < %s ORDER BY key LIMIT %s"
_CLAIM = "SELECT n FROM unnest(%s::bigint[]) AS n WHERE pg_try_advisory_lock(n)"
_RESERVATIONS = """
CREATE TABLE IF NOT EXISTS reservations (
    key text COLLATE "C" PRIMARY KEY, owner text NOT NULL, until timestamptz NOT NULL
)"""
_RESERVE = """INSERT INTO reservations (key, owner, until)
SELECT key, %s, now() + make_interval(secs => %s) FROM unnest(%s::text[]) AS key
WHERE NOT EXISTS (SELECT FROM replies WHERE replies.key = key.key)
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE reservations.owner = excluded.owner OR reservations.until < now()
RETURNING key"""
_RELEASE = "DELETE FROM reservations WHERE key = ANY(%s) AND owner = %s"
_FREE = "SELECT pg_advisory_unlock(n) FROM unnest(%s::bigint[]) AS n"

T = TypeVar("T")


class PostgresStore(Store):
    """One session reads and one writes, each for one thread at a time.

    A server that restarts is waited for; what was not acknowledged goes again, which changes
    nothing, since what is stored first stays. Claims of the old session are gone then: a call may
    be paid twice, and is never answered in two ways.
    """

    reads_wait: ClassVar[bool] = True
    claims: ClassVar[bool] = True

    def __init__(self, url: str, id: str = "") -> None:
        """Makes the tables if they are not there. StoreError, with the mend.

        id: given to a new store that takes another's place; a store that has one keeps its own.
        """
        self.url = checked_url(url)
        self._reading, self._writing = _Session(self.url), _Session(self.url)
        try:
            self._id = self._writing.run(lambda db: _made(db, id, self.url))
            self._writing.run(self._refuse_pooler)
        except BaseException:
            self.close()
            raise
        # Who gives a wrong name is told at once; a server that answered once will again.
        self._reading.patience = self._writing.patience = MAX_OUTAGE_SECONDS

    @property
    def id(self) -> str:
        return self._id

    def check(self) -> None:
        found = self._reading.run(lambda db: _identity(db, self.url))
        if found != self._id:
            raise StoreGone(f"{self.url} was emptied or replaced while it was in use")

    def get(self, key: str) -> bytes | None:
        found = self.get_many([key]).get(key)
        if isinstance(found, DamagedEntry):
            raise found
        return found

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes | DamagedEntry]:
        found = self._reading.run(lambda db: _rows(db, _GET, list(keys)))
        return {key: _value(key, value) for key, value in found}

    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        # One statement must not meet a key twice.
        told = dict(_sealed(entries))
        self._writing.run(lambda db: db.execute(_PUT, (list(told), list(told.values())), **_BINARY))

    def keep_many(self, entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        told = _sealed(entries)
        keys, values = [key for key, _ in told], [value for _, value in told]

        def keep(db: "psycopg.Connection[Any]") -> list[tuple[str, bytes]]:
            new = [key for (key,) in db.execute(_KEEP, (keys, values), **_BINARY)]
            if len(new) == len(keys):
                return []
            return _rows(db, _GET, keys)

        stand = dict(self._writing.run(keep))
        return {
            key: strip_checksum(key, first)
            for key, value in told
            if (first := stand.get(key, value)) != value
        }

    def delete_many(self, keys: Iterable[str]) -> int:
        told = list(keys)
        return self._writing.run(lambda db: db.execute(_DELETE, (told,)).rowcount)

    def claim(self, keys: Sequence[str]) -> set[str]:
        numbers = {self._number(key): key for key in keys}
        mine = self._writing.run(lambda db: _rows(db, _CLAIM, list(numbers)))
        return {numbers[number] for (number,) in mine}

    def free(self, keys: Sequence[str]) -> None:
        numbers = [self._number(key) for key in keys]
        self._writing.run(lambda db: _rows(db, _FREE, numbers))

    def reserve(self, keys: Sequence[str], owner: str, seconds: float) -> set[str]:
        # In one order everywhere, so that no two runs deadlock.
        given = (owner, seconds, sorted(map(checked_key, keys)))

        def reserve(db: "psycopg.Connection[Any]") -> set[str]:
            with db.transaction():
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
                db.execute(_RESERVATIONS)
            return {key for (key,) in db.execute(_RESERVE, given).fetchall()}

        return self._writing.run(reserve)

    def release(self, keys: Sequence[str], owner: str) -> None:
        self._writing.run(lambda db: db.execute(_RELEASE, (list(keys), owner)))

    def holds_ending(self, ending: str) -> bool:
        like = "SELECT 1 FROM replies WHERE key LIKE %s LIMIT 1"
        return bool(self._reading.run(lambda db: db.execute(like, (f"%{ending}",)).fetchall()))

    def keys(self, prefix: str = "") -> Iterator[str]:
        return (key for key, _ in self._pages("key, NULL", prefix))

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes | DamagedEntry]]:
        return ((key, _value(key, value)) for key, value in self._pages("key, value", prefix))

    def __len__(self) -> int:
        ((count,),) = self._reading.run(
            lambda db: db.execute("SELECT count(*) FROM replies").fetchall()
        )
        return int(count)

    def close(self) -> None:
        self._reading.close()
        self._writing.close()

    def _pages(self, columns: str, prefix: str) -> Iterator[tuple[str, Any]]:
        last, comparison = prefix, ">="
        while True:
            statement = f"SELECT {columns} {_RANGE.format(comparison)}"
            given = (last, prefix + "\x7f", _BATCH)
            rows = self._reading.run(partial(_page, statement=statement, given=given))
            yield from rows
            if len(rows) < _BATCH:
                return
            last, comparison = rows[-1][0], ">"

    def _number(self, key: str) -> int:
        """The number of a call's lock; two calls with one number only wait for each other."""
        digest = hashlib.sha256(f"{self._id} {key}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def _refuse_pooler(self, db: "psycopg.Connection[Any]") -> None:
        ((pid,),) = db.execute("SELECT pg_backend_pid()").fetchall()
        if pid != db.info.backend_pid:
            raise StoreError(
                f"{self.url}: a connection pooler stands before the database, and hands one "
                "session to several: name the database itself, or a pool in session mode"
            )


class _Session:
    """One connection, made anew where it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = Lock()
        self._closed = False
        self._db: psycopg.Connection[Any] | None = None
        self.patience = 0.0
        """Seconds for which a server that cannot be reached is waited for."""

    def run(self, work: Callable[["psycopg.Connection[Any]"], T]) -> T:
        """What `work` gives; again and again while the server cannot be reached. StoreError."""
        with self._lock:
            until, pause = time.monotonic() + self.patience, RETRY_PAUSE
            while True:
                if self._closed:
                    raise StoreError(f"{self._url} is closed")
                try:
                    return work(self._connection())
                except psycopg.errors.DiskFull as exc:
                    raise StoreFull(f"{self._url}: {_told(exc)}") from exc
                except psycopg.errors.OutOfMemory as exc:
                    raise StoreError(
                        f"{self._url}: {_told(exc)}: as many calls are in flight as the server has "
                        "locks for; raise its max_locks_per_transaction"
                    ) from exc
                except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
                    self._drop()
                    if time.monotonic() + pause > until:
                        raise StoreError(f"{self._url} cannot be reached: {_told(exc)}") from exc
                    time.sleep(pause)
                    pause = min(2 * pause, MAX_RETRY_PAUSE)
                except psycopg.Error as exc:
                    raise StoreError(f"{self._url}: {_told(exc)}") from exc

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    def _connection(self) -> "psycopg.Connection[Any]":
        if self._db is None or self._db.closed:
            self._db = psycopg.connect(self._url, autocommit=True, **_KEEPALIVE)
            # What is acknowledged survives a power failure, whatever the server's default is.
            self._db.execute("SET synchronous_commit = on")
        return self._db

    def _drop(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


_BINARY: dict[str, Any] = {"binary": True, "prepare": True}
_KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "connect_timeout": 10,
    "application_name": "oversight",
}


def checked_url(url: str) -> str:
    """The URL itself. StoreError if it is none, or holds a password."""
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error as exc:
        shown = url.partition("@")[2] or url
        raise StoreError(f"{shown}: not the URL of a database: {_told(exc)}") from None
    if parts.pop("password", None) is not None:
        raise StoreError(
            f"the URL of the store holds a password ({make_conninfo(**parts)}), and the run folder "
            "would keep it: put it into ~/.pgpass, or into the variable PGPASSWORD"
        )
    return url


def _made(db: "psycopg.Connection[Any]", id: str, url: str) -> str:
    """The id of the store, once its tables are there."""
    with db.transaction():
        # Several may open a new store at one moment.
        db.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
        ((there,),) = db.execute("SELECT to_regclass('store')").fetchall()
        if there is None:
            db.execute(_TABLES)
            db.execute("INSERT INTO store VALUES (%s, %s)", (SCHEMA, id or uuid4().hex))
    return _identity(db, url)


def _identity(db: "psycopg.Connection[Any]", url: str) -> str:
    try:
        rows = db.execute("SELECT version, id FROM store").fetchall()
    except psycopg.errors.UndefinedTable as exc:
        raise StoreGone(f"{url} holds no store any more") from exc
    except psycopg.errors.UndefinedColumn as exc:
        raise StoreError(
            f"{url}: its table `store` is another program's; name a database of its own"
        ) from exc
    if len(rows) != 1 or rows[0][0] != SCHEMA:
        raise StoreError(
            f"{url}: this version reads stores of version {SCHEMA}, and this one is {rows!r:.60}; "
            "install the version of oversight-bench that wrote it"
        )
    return str(rows[0][1])


def _rows(db: "psycopg.Connection[Any]", statement: str, keys: list[Any]) -> list[Any]:
    return db.execute(statement, (keys,), **_BINARY).fetchall()


def _page(db: "psycopg.Connection[Any]", statement: Any, given: tuple[Any, ...]) -> list[Any]:
    return db.execute(statement, given, binary=True).fetchall()


def _sealed(entries: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    return [(checked_key(key), add_checksum(key, value)) for key, value in entries]


def _value(key: str, sealed: bytes) -> bytes | DamagedEntry:
    try:
        return strip_checksum(key, bytes(sealed))
    except DamagedEntry as damage:
        return damage


def _told(exc: Exception) -> str:
    return " ".join(str(exc).split())
