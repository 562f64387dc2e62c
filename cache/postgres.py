"""The store that a team shares: PostgreSQL, from any number of machines at once.

    replies        key (bytes in order), value (sealed, as in SQLite), stored_at
    reservations   key, owner, until: leases of calls that are in flight, or out in a batch
    store          one row: the version of these tables, and the id of the store
    replies_deleted, replies_replaced
                   sequences that triggers raise, whoever deletes or replaces replies

What is stored first stays, whoever comes second. A call in flight is leased to the process that
asks it, which renews the lease as long as it lives: a machine that vanishes holds its calls no
longer than that. A batch holds its calls until it has ended, whichever process looks after it.
"""

import math
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

from .checksum import add_checksum, strip_checksum
from .database import (
    Patience,
    Session,
    StoreCrowded,
    checked_url,
    outage_seconds,
    psycopg,
    seconds_of,
)
from .errors import DamagedEntry, StoreError, StoreGone
from .store import REPLACED, Acquired, Store, checked_key

SCHEMA = 1
LEASE_SECONDS = 30.0
"""How long a call stays with a process that gives no sign of life."""
FAR_SECONDS, FAR_SESSIONS = 0.02, 4
"""A server whose round trips take longer is far, and has so many of them under way at a time."""
LONG_STATEMENT = 10.0
"""How many times the usual patience a statement over a whole table may take."""
_BATCH = 256
"""Rows read at a time."""
_HELD_KEYS = 10_000
"""Keys looked up by one statement."""
_SETUP_LOCK = 7_265_001
"""Key of the advisory lock under which the tables are made."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS replies (
        key text COLLATE "C" PRIMARY KEY,
        value bytea NOT NULL,
        stored_at timestamptz NOT NULL DEFAULT now()
    )""",
    "ALTER TABLE replies ALTER COLUMN value SET STORAGE EXTERNAL",
    "CREATE TABLE IF NOT EXISTS store (version int NOT NULL, id text NOT NULL)",
    """CREATE TABLE IF NOT EXISTS reservations (
        key text COLLATE "C" PRIMARY KEY, owner text NOT NULL, until timestamptz NOT NULL
    )""",
)
_COUNTED = (
    "CREATE SEQUENCE IF NOT EXISTS replies_deleted",
    "CREATE SEQUENCE IF NOT EXISTS replies_replaced",
    # A sequence is raised at once, and holds nobody up until a transaction ends. Who may write
    # replies need not be allowed to touch it.
    """CREATE OR REPLACE FUNCTION count_lost_replies() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN
        IF TG_OP <> 'TRUNCATE' THEN  -- which has no table of the rows that are gone
            IF NOT EXISTS (SELECT FROM gone) THEN
                RETURN NULL;
            END IF;
        END IF;
        PERFORM nextval(format('%I.%I', TG_TABLE_SCHEMA, TG_ARGV[0])::regclass);
        RETURN NULL;
    END $$""",
    *(
        f"""CREATE OR REPLACE TRIGGER {event}_counted AFTER {event} ON replies {gone}
        FOR EACH STATEMENT EXECUTE FUNCTION count_lost_replies('{sequence}')"""
        for event, gone, sequence in (
            ("delete", "REFERENCING OLD TABLE AS gone", "replies_deleted"),
            ("truncate", "", "replies_deleted"),
            ("update", "REFERENCING OLD TABLE AS gone", "replies_replaced"),
        )
    ),
)
_LOSSES = """SELECT coalesce(pg_sequence_last_value(deleted), 0)
    + %s * coalesce(pg_sequence_last_value(replaced), 0)
FROM (SELECT to_regclass('replies_deleted') AS deleted,
    to_regclass('replies_replaced') AS replaced) AS counted
WHERE has_sequence_privilege(deleted::oid, 'SELECT')
    AND has_sequence_privilege(replaced::oid, 'SELECT')"""
_HELD = "SELECT count(*) FROM replies WHERE key = ANY(%s) AND stored_at <= to_timestamp(%s)"
_NEW = f"INSERT INTO store SELECT {SCHEMA}, {{}} WHERE NOT EXISTS (SELECT FROM store)"
_ANEW = "SELECT setval('replies_replaced', extract(epoch FROM now())::bigint)"
# Several may open a new store at one moment. What follows in one text is one transaction.
_ALONE = psycopg.sql.SQL(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
_IDENTITY = (
    "SELECT version, id, to_regclass('reservations'), pg_backend_pid(),"
    " to_regclass('replies_replaced') FROM store"
)
_GIVEN = "SELECT * FROM unnest(%s::text[], %s::bytea[])"
_KEEP = f"INSERT INTO replies (key, value) {_GIVEN} ON CONFLICT (key) DO NOTHING RETURNING key"
_PUT = f"""INSERT INTO replies (key, value) {_GIVEN}
ON CONFLICT (key) DO UPDATE SET value = excluded.value, stored_at = now()"""
_GET = "SELECT key, value FROM replies WHERE key = ANY(%s)"
_DELETE = "DELETE FROM replies WHERE key = ANY(%s)"
_RANGE = "FROM replies WHERE key {} %s AND key < %s ORDER BY key LIMIT %s"
_RESERVE = """INSERT INTO reservations (key, owner, until)
SELECT key, %s, now() + make_interval(secs => %s) FROM unnest(%s::text[]) AS key
WHERE NOT EXISTS (SELECT FROM replies WHERE replies.key = key.key)
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE reservations.owner = excluded.owner OR reservations.until < now()
RETURNING key"""
_RELEASE = "DELETE FROM reservations WHERE key = ANY(%s) AND owner = %s"
# Leases of calls in flight have keys of their own: who asks a call live does not wait for a batch.
_LIVE = "live "
_LEASE = _RESERVE.replace("SELECT key, %s", f"SELECT '{_LIVE}' || key, %s").replace(
    "RETURNING key", f"RETURNING substr(key, {len(_LIVE) + 1})"
)
_FREE = f"""DELETE FROM reservations
WHERE key = ANY(SELECT '{_LIVE}' || unnest(%s::text[])) AND owner = %s"""
_HOLDERS = f"""SELECT substr(key, {len(_LIVE) + 1}), owner FROM reservations
WHERE key = ANY(SELECT '{_LIVE}' || unnest(%s::text[])) AND owner <> %s AND until >= now()"""
_RENEW = f"""INSERT INTO reservations (key, owner, until)
SELECT '{_LIVE}' || key, %s, now() + make_interval(secs => %s) FROM unnest(%s::text[]) AS key
ON CONFLICT (key) DO UPDATE SET until = excluded.until
WHERE reservations.owner = excluded.owner RETURNING substr(key, {len(_LIVE) + 1})"""

T = TypeVar("T")


class PostgresStore(Store):
    """Each thread that uses it has a session for as long as it needs the server.

    A server that restarts, or hangs, is waited for; what was not acknowledged goes again, which
    changes nothing, since what is stored first stays, and leases are rows.
    """

    reads_wait: ClassVar[bool] = True
    claims: ClassVar[bool] = True

    def __init__(self, url: str, id: str = "") -> None:
        """Makes the tables if they are not there. StoreError, with the remedy.

        id: given to a new store that takes another's place; a store that has one keeps its own.
        """
        self.url = checked_url(url)
        self.lost = 0
        """Calls that were taken from this process while it was paying for them: it had given no
        sign of life for `LEASE_SECONDS`, or the leases were deleted."""
        self._lease = seconds_of("OVERSIGHT_LEASE_SECONDS", LEASE_SECONDS)
        self._owner = f"{uuid4().hex} process {os.getpid()} of {socket.gethostname()}"
        self._patience = Patience()
        self._sessions: list[Session] = []
        self._idle: list[Session] = []
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._most = math.inf
        """Sessions that the server has room for."""
        self._returned = threading.Condition(self._lock)
        """A session is idle again, or gone."""
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None
        self._far = False
        try:
            self._id = self._opened(id)
            self._far = self._sessions[0].seconds > FAR_SECONDS
        except BaseException:
            self.close()
            raise
        # Who gives a wrong name is told at once; a server that answered once will again.
        self._patience.seconds = outage_seconds()

    def _opened(self, id: str) -> str:
        with suppress(StoreGone):
            found, whole, counted = self._run(lambda db: _identity(db, self.url))
            # Stores of older versions have no reservations unless a batch was ever submitted.
            if whole:
                if not counted:
                    self._run(_count_losses)
                return found
        self._run(lambda db: _make(db, id or uuid4().hex))
        self._run(lambda db: _count_losses(db, anew=bool(id)))
        return self._run(lambda db: _identity(db, self.url))[0]

    @property
    def id(self) -> str:
        return self._id

    @property
    def losses(self) -> int | None:
        found = self._run(lambda db: db.execute(_LOSSES, (REPLACED,)).fetchall())
        return int(found[0][0]) if found else None

    def held(self, keys: Sequence[str], until: float) -> int:
        parts = [list(keys[n : n + _HELD_KEYS]) for n in range(0, len(keys), _HELD_KEYS)]
        return sum(
            self._run(lambda db: db.execute(_HELD, (part, until)).fetchall()[0][0])  # noqa: B023
            for part in parts
        )

    def check(self) -> None:
        found, *_ = self._run(lambda db: _identity(db, self.url))
        if found != self._id:
            raise StoreGone(f"{self.url} was emptied or replaced while it was in use")

    def get(self, key: str) -> bytes | None:
        found = self.get_many([key]).get(key)
        if isinstance(found, DamagedEntry):
            raise found
        return found

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes | DamagedEntry]:
        found = self._run(lambda db: _rows(db, _GET, list(keys)))
        return {key: _value(key, value) for key, value in found}

    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        # One statement must not meet a key twice.
        told = dict(_sealed(entries))
        self._run(lambda db: db.execute(_PUT, (list(told), list(told.values())), **_BINARY))

    def keep_many(
        self, entries: Iterable[tuple[str, bytes]], done: Sequence[str] = ()
    ) -> dict[str, bytes]:
        told = _sealed(entries)
        keys, values = [key for key, _ in told], [value for _, value in told]

        def keep(db: "psycopg.Connection[Any]") -> list[tuple[str, bytes]]:
            with _one_trip(db):
                stored = db.execute(_KEEP, (keys, values), **_BINARY)
                if done:
                    db.execute(_FREE, (list(done), self._owner))
            new = stored.fetchall()
            return [] if len(new) == len(keys) else _rows(db, _GET, keys)

        stand = dict(self._run(keep))
        self._forget(done)
        return {
            key: strip_checksum(key, first)
            for key, value in told
            if (first := stand.get(key, value)) != value
        }

    def delete_many(self, keys: Iterable[str]) -> int:
        told = list(keys)
        return self._run(lambda db: db.execute(_DELETE, (told,)).rowcount)

    def acquire(self, keys: Sequence[str]) -> Acquired:
        # In one order everywhere, so that no two processes deadlock.
        wanted = sorted(map(checked_key, keys))

        def acquire(db: "psycopg.Connection[Any]") -> tuple[list[Any], list[Any], list[Any]]:
            with _one_trip(db):
                mine = db.execute(_LEASE, (self._owner, self._lease, wanted), prepare=True)
                # After the leases are there: whatever landed before them is seen.
                found = db.execute(_GET, (wanted,), **_BINARY)
                theirs = db.execute(_HOLDERS, (wanted, self._owner), prepare=True)
            return mine.fetchall(), found.fetchall(), theirs.fetchall()

        mine, found, theirs = self._run(acquire)
        values = {key: _value(key, value) for key, value in found}
        leased = {key for (key,) in mine}
        with self._lock:
            self._held |= leased
        if landed := leased & values.keys():
            self.free(list(landed))
        self._renew_from_now_on()
        holders = {key: owner.partition(" ")[2] for key, owner in theirs if key not in values}
        return Acquired(values, leased - landed, holders)

    def free(self, keys: Sequence[str]) -> None:
        self._run(lambda db: db.execute(_FREE, (list(keys), self._owner)))
        self._forget(keys)

    def hurry(self, seconds: float) -> None:
        self._patience.limit(seconds)

    @property
    def sessions(self) -> int:
        return FAR_SESSIONS if self._far else 1

    def reserve(self, keys: Sequence[str], owner: str, seconds: float) -> set[str]:
        # In one order everywhere, so that no two runs deadlock.
        given = (owner, seconds, sorted(map(checked_key, keys)))
        return {key for (key,) in self._run(lambda db: db.execute(_RESERVE, given).fetchall())}

    def release(self, keys: Sequence[str], owner: str) -> None:
        self._run(lambda db: db.execute(_RELEASE, (list(keys), owner)))

    def holds_ending(self, ending: str) -> bool:
        like = "SELECT 1 FROM replies WHERE key LIKE %s LIMIT 1"
        return bool(self._run(lambda db: db.execute(like, (f"%{ending}",)).fetchall()))

    def keys(self, prefix: str = "") -> Iterator[str]:
        return (key for key, _ in self._pages("key, NULL", prefix))

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes | DamagedEntry]]:
        return ((key, _value(key, value)) for key, value in self._pages("key, value", prefix))

    def __len__(self) -> int:
        ((count,),) = self._run(
            lambda db: db.execute("SELECT count(*) FROM replies").fetchall(),
            times=LONG_STATEMENT,
        )
        return int(count)

    def close(self) -> None:
        self._ended.set()
        with self._lock:
            held, self._held = list(self._held), set()
        if held:
            # Others need not wait for the leases of a process that ends in good order.
            with suppress(StoreError):
                self.hurry(1.0)
                self._run(lambda db: db.execute(_FREE, (held, self._owner)))
        for session in self._sessions:
            session.close()

    def _run(self, work: Callable[["psycopg.Connection[Any]"], T], **how: Any) -> T:
        while True:
            with self._returned:
                self._returned.wait_for(lambda: self._idle or len(self._sessions) < self._most)
                if not self._idle:
                    self._idle.append(Session(self.url, self._patience))
                    self._sessions += self._idle
                # The one used last: its connection is there already.
                session, alone = self._idle.pop(), len(self._sessions) == 1
            try:
                return session.run(work, alone=alone, **how)
            except StoreCrowded:
                # Those that there are do for all threads.
                with self._lock:
                    self._sessions.remove(session)
                    self._most = max(len(self._sessions), 1)
            finally:
                with self._returned:
                    if session in self._sessions:
                        self._idle.append(session)
                    self._returned.notify_all()

    def _forget(self, keys: Iterable[str]) -> None:
        with self._lock:
            self._held.difference_update(keys)

    def _renew_from_now_on(self) -> None:
        if self._renewing is None and self._held:
            self._renewing = threading.Thread(target=self._renew, name="leases", daemon=True)
            self._renewing.start()

    def _renew(self) -> None:
        while not self._ended.wait(self._lease / 3):
            with self._lock:
                held = sorted(self._held)
            if not held:
                continue
            given = (self._owner, self._lease, held)
            try:
                kept = self._run(lambda db: db.execute(_RENEW, given).fetchall(), once=True)  # noqa: B023
            except StoreError:
                continue  # whoever needs the store is told; the leases may outlast it
            with self._lock:
                gone = self._held & set(held) - {key for (key,) in kept}
                self._held -= gone
                self.lost += len(gone)

    def _pages(self, columns: str, prefix: str) -> Iterator[tuple[str, Any]]:
        last, comparison = prefix, ">="
        while True:
            statement = f"SELECT {columns} {_RANGE.format(comparison)}"
            given = (last, prefix + "\x7f", _BATCH)
            rows = self._run(partial(_page, statement=statement, given=given))
            yield from rows
            if len(rows) < _BATCH:
                return
            last, comparison = rows[-1][0], ">"


_BINARY: dict[str, Any] = {"binary": True, "prepare": True}


def _make(db: "psycopg.Connection[Any]", id: str) -> None:
    """Make the tables that are not there."""
    new = psycopg.sql.SQL(_NEW).format(psycopg.sql.Literal(id))
    db.execute(psycopg.sql.SQL("; ").join([_ALONE, *map(psycopg.sql.SQL, _TABLES), new]))


def _count_losses(db: "psycopg.Connection[Any]", anew: bool = False) -> None:
    """Have losses counted from now on. anew: the store stands in another's place, and may have
    fewer replies. Where this user may not, or the server is older than 14, nobody counts."""
    with suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.SyntaxError):
        statements = [*map(psycopg.sql.SQL, (*_COUNTED, _ANEW) if anew else _COUNTED)]
        db.execute(psycopg.sql.SQL("; ").join([_ALONE, *statements]))


def _identity(db: "psycopg.Connection[Any]", url: str) -> tuple[str, bool, bool]:
    """The id of the store, whether all of its tables are there, and whether losses are counted."""
    try:
        rows = db.execute(_IDENTITY).fetchall()
    except psycopg.errors.UndefinedTable as exc:
        raise StoreGone(f"{url} holds no store any more") from exc
    except psycopg.errors.UndefinedColumn as exc:
        raise StoreError(
            f"{url}: its table `store` is another program's; name a database of its own"
        ) from exc
    if len(rows) != 1 or rows[0][0] != SCHEMA:
        raise StoreError(
            f"{url}: this version reads stores of version {SCHEMA}, and this one is "
            f"{[row[:2] for row in rows]!r:.60}; install the version of oversight-bench that "
            "wrote it"
        )
    _, id, reservations, pid, counted = rows[0]
    if pid != db.info.backend_pid:
        raise StoreError(
            f"{url}: a connection pooler stands before the database, and hands one "
            "session to several: name the database itself, or a pool in session mode"
        )
    return str(id), reservations is not None, counted is not None


def _one_trip(db: "psycopg.Connection[Any]") -> Any:
    """Statements that wait for nothing but their common answer."""
    return db.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()


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
