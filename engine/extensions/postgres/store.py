"""The store that several machines reach: replies in one table of PostgreSQL.

The first value of a key stays. If the server restarts, the store waits for it and repeats each
write that was not acknowledged; repeating one changes nothing."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address
from os import environ
from typing import Any, TypeVar
from uuid import uuid4

from ....cache.entry import add_checksum, strip_checksum
from ....cache.errors import DamagedEntry, StoreError, StoreFull, install_command
from ....cache.store import Store, checked_key
from ...errors import UsageError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as exc:
    raise UsageError(f"a store in PostgreSQL needs psycopg: {install_command('postgres')}") from exc

OUTAGE = 30.0
"""Seconds to wait for a server that does not answer, once it has."""
PAUSE, MAX_PAUSE = 0.05, 1.0
"""Seconds between two tries: each is twice the one before."""
PAGE = 256
"""Rows read at a time."""
_MAKING = 7_265_001
"""Key of the advisory lock under which the tables are made: several may begin at one moment."""

_TABLES = f"""SELECT pg_advisory_xact_lock({_MAKING});
CREATE TABLE IF NOT EXISTS replies (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS store (id text NOT NULL);
INSERT INTO store (id) SELECT gen_random_uuid() WHERE NOT EXISTS (SELECT FROM store)"""
_INSERT = "INSERT INTO replies (key, value) SELECT * FROM unnest(%s::text[], %s::bytea[])"
_KEEP = f"{_INSERT} ON CONFLICT (key) DO NOTHING"
_PUT = f"{_INSERT} ON CONFLICT (key) DO UPDATE SET value = excluded.value, stored_at = now()"
_DELETE = "DELETE FROM replies WHERE key = ANY(%s)"
_TRIAL = {
    "INSERT": "INSERT INTO replies (key, value) VALUES (%s, '')",
    "SELECT": "SELECT value FROM replies WHERE key = %s",
    "UPDATE": "UPDATE replies SET stored_at = now() WHERE key = %s",
    "DELETE": "DELETE FROM replies WHERE key = %s",
}
"""Each right that a run needs, and a statement that needs it."""
_PAGED = "FROM replies WHERE key >= %s AND key < %s ORDER BY key LIMIT %s"

_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key")
_SETTINGS: dict[str, Any] = {"connect_timeout": 4, "keepalives_idle": 10, "keepalives_count": 3}

T = TypeVar("T")


class PostgresStore(Store):
    """A store with one connection per thread."""

    def __init__(self, url: str, make: bool = True) -> None:
        """make: whether to create missing tables. StoreError."""
        self._url, self._settings = url, settings_for(url)
        self._mine = threading.local()
        self._every: set[psycopg.Connection[Any]] = set()
        self._closed = False
        self._patience = 0.0  # a server that never answered is not waited for
        try:
            if make and self._rows("SELECT to_regclass('store')") == [(None,)]:
                self._run(lambda db: db.execute(_TABLES))  # one text is one transaction
            ((self._id,),) = self._rows("SELECT id FROM store")
        except StoreError:
            self.close()
            raise
        self._patience = OUTAGE

    @property
    def id(self) -> str:
        return str(self._id)

    def get(self, key: str) -> bytes | None:
        if isinstance(value := self.get_many([key]).get(key), DamagedEntry):
            raise value
        return value

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes | DamagedEntry]:
        rows = self._rows("SELECT key, value FROM replies WHERE key = ANY(%s)", [*keys])
        return {key: _value(key, sealed) for key, sealed in rows}

    def keys(self, prefix: str = "") -> Iterator[str]:
        return (key for (key,) in self._paged("key", prefix))

    def items(self, prefix: str = "") -> Iterator[tuple[str, bytes | DamagedEntry]]:
        return ((key, _value(key, sealed)) for key, sealed in self._paged("key, value", prefix))

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM replies")[0][0])

    def put_many(self, entries: Iterable[tuple[str, bytes]]) -> None:
        sealed = _sealed(dict(entries).items())
        self._run(lambda db: db.execute(_PUT, sealed))

    def keep_many(self, entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        sealed = _sealed(pairs := [*entries])
        if self._run(lambda db: db.execute(_KEEP, sealed).rowcount) == len(pairs):
            return {}
        # Seldom: another process was first with some of them.
        stood = self.get_many(sealed[0])
        return {
            key: first
            for key, value in pairs
            if isinstance(first := stood.get(key), bytes) and first != value
        }

    def delete_many(self, keys: Iterable[str]) -> int:
        names = [*keys]
        return self._run(lambda db: db.execute(_DELETE, [names]).rowcount)

    def require_rights(self) -> None:
        def trial(db: "psycopg.Connection[Any]") -> None:
            key = f"trial {uuid4().hex}"
            with db.transaction():
                for right, statement in _TRIAL.items():
                    try:
                        db.execute(statement, [key])
                    except psycopg.errors.InsufficientPrivilege as exc:
                        raise StoreError(
                            f"{self._url}: {db.info.user} may not {right} there "
                            f"({_one_line(exc)}): let the owner of the table run "
                            f"GRANT {', '.join(_TRIAL)} ON replies TO {db.info.user}"
                        ) from exc

        self._run(trial)

    def close(self) -> None:
        self._closed = True
        for db in [*self._every]:
            db.close()
        self._every.clear()

    def _paged(self, columns: str, prefix: str) -> Iterator[tuple[Any, ...]]:
        begin, end = prefix, f"{prefix}\x7f"  # keys are printable: between these are those
        while rows := self._rows(f"SELECT {columns} {_PAGED}", begin, end, PAGE):
            yield from rows
            begin = f"{rows[-1][0]}\x01"

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._run(lambda db: db.execute(statement, values).fetchall())

    def _run(self, work: Callable[["psycopg.Connection[Any]"], T]) -> T:
        """What `work` gives, on this thread's connection; again while the server is away."""
        began, pause = time.monotonic(), PAUSE
        while True:
            if self._closed:
                raise StoreError(f"{self._url} is closed")
            try:
                if (db := getattr(self._mine, "db", None)) is None or db.closed:
                    db = psycopg.connect(self._url, autocommit=True, **self._settings)
                    self._mine.db = db
                    self._every.add(db)
                    # Acknowledged writes survive a power failure, whatever the server's default is.
                    db.execute("SET synchronous_commit = on")
                return work(db)
            except psycopg.errors.DiskFull as exc:
                raise StoreFull(f"{self._url}: {_one_line(exc)}") from exc
            except psycopg.errors.UndefinedTable as exc:
                raise StoreError(f"{self._url} holds no store") from exc
            except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
                self.close_thread()
                if time.monotonic() - began + pause > self._patience:
                    raise StoreError(f"{self._url} cannot be reached: {_one_line(exc)}") from exc
                time.sleep(pause)
                pause = min(2 * pause, MAX_PAUSE)
            except psycopg.Error as exc:
                raise StoreError(f"{self._url}: {_one_line(exc)}") from exc

    def close_thread(self) -> None:
        if (db := getattr(self._mine, "db", None)) is not None:
            self._mine.db = None
            self._every.discard(db)
            db.close()


def settings_for(url: str) -> dict[str, Any]:
    """Return the settings of a connection. StoreError for an invalid or unsafe URL."""
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error as exc:
        safe_url = re.sub(r"//.*@", "//…@", url.partition("?")[0])
        message = _one_line(exc).replace(url, safe_url)
        raise StoreError(f"{safe_url}: not the URL of a database: {message}") from None
    if secret := [name for name in _SECRETS if parts.pop(name, None) is not None]:
        raise StoreError(
            f"{make_conninfo(**parts)}: the URL holds a password ({secret[0]}), and run folders "
            "would keep it: put it into ~/.pgpass, or into the variable PGPASSWORD"
        )
    hosts = parts.get("hostaddr") or parts.get("host") or environ.get("PGHOST", "")
    if all(map(_is_local, hosts.split(","))):
        return _SETTINGS
    tls = parts.get("sslmode")
    if tls in ("disable", "allow", "prefer"):
        raise StoreError(
            f"{url}: sslmode={tls} would send replies and passwords to {hosts} in the clear: leave "
            "it out, or, where the network itself is safe, set PGSSLMODE in your environment"
        )
    tls = tls or environ.get("PGSSLMODE", "")
    bound = parts.get("channel_binding") or environ.get("PGCHANNELBINDING")
    # Encryption alone does not tell the server from somebody in between.
    binding = {} if bound or tls not in ("", "require") else {"channel_binding": "require"}
    return _SETTINGS | binding | ({} if tls else {"sslmode": "require"})


def _is_local(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host in ("", "localhost") or host.startswith(("/", "@"))


def _one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())


def _sealed(entries: Iterable[tuple[str, bytes]]) -> tuple[list[str], list[bytes]]:
    checked = [(checked_key(key), add_checksum(key, value)) for key, value in entries]
    return [key for key, _ in checked], [sealed for _, sealed in checked]


def _value(key: str, sealed: bytes) -> bytes | DamagedEntry:
    try:
        return strip_checksum(key, bytes(sealed))
    except DamagedEntry as damage:
        return damage
