"""Connections to PostgreSQL: which are safe to open, how long one waits for them, and when not.

A server that hangs looks like one that is slow: nothing is waited for without a bound, and all that
wait in one process share the bound, so that an outage ends once for all of them.
"""

import re
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from ipaddress import ip_address
from os import environ
from typing import Any, TypeVar

from .errors import StoreError, StoreFull, StoreUnreachable
from .extras import install_command

try:
    import psycopg as psycopg  # for the store too, which cannot do without it either
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as exc:
    raise StoreError(f"a store in PostgreSQL needs psycopg: {install_command('postgres')}") from exc


def seconds_of(variable: str, usual: float) -> float:
    """A time that the environment may set. StoreError if it is no number above 0."""
    given = environ.get(variable) or str(usual)
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise StoreError(f"{variable}: {given!r} is no number of seconds above 0")
    return seconds


MAX_OUTAGE_SECONDS = 60.0
"""How long to wait for a database that restarts, or that does not answer, unless
`OVERSIGHT_OUTAGE_SECONDS` says so."""
RETRY_PAUSE, MAX_RETRY_PAUSE = 0.05, 2.0
"""Seconds between two tries: each is twice the one before."""
CONNECT_SECONDS = 4
"""How long to wait for a connection, at most."""
FIRST_SECONDS = 20.0
"""How long the first statements may take."""
_TICK = 0.1
"""Seconds between two looks at the deadline while a statement runs."""
_SECRETS = (
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)
_KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "oversight",
}

T = TypeVar("T")


_CROWDED = ("too many clients", "too many connections", "remaining connection slots")
"""What a server says that takes no more sessions; libpq gives no code for it."""


class StoreCrowded(StoreUnreachable):
    """The server has no room for one more session."""


class Patience:
    """How long the sessions of one process wait for their server: one deadline an outage."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Longest time without an answer. 0: a server that never answered is not waited for."""
        self.over = False
        """Whether it has run out: then nothing waits any more."""
        self._changed = 0.0
        self._failing_since: float | None = None
        self._woken = threading.Event()

    def limit(self, seconds: float) -> None:
        """Wait no longer than this from now on, also where something waits already."""
        if seconds < self.seconds:
            self._changed, self.seconds = time.monotonic(), seconds
            self._woken.set()

    def left(self, since: float) -> float:
        """Seconds left for a statement that has run since then, by the monotonic clock."""
        if self.over:
            return -1.0
        if self._failing_since is not None:
            since = min(since, self._failing_since)
        return max(since, self._changed) + (self.seconds or FIRST_SECONDS) - time.monotonic()

    def succeeded(self) -> None:
        self._failing_since = None

    def failed(self, since: float, pause: float) -> bool:
        """Enter that the server cannot be reached; whether to try again, after the pause."""
        self._failing_since = min(since, self._failing_since or since)
        if not self.seconds or self.left(since) < pause:
            # A first connection that fails does not concern what is opened later.
            self.over = self.seconds > 0
            return False
        self._woken.wait(pause)
        return True


class Session:
    """One connection, made anew where it was lost; one thread at a time."""

    def __init__(self, url: str, patience: Patience) -> None:
        self._url = url
        self._patience = patience
        self._lock = threading.Lock()
        self._closed = False
        self._db: _Connection | None = None
        self.seconds = 0.0
        """How long the last round trip took."""

    def run(
        self,
        work: Callable[["psycopg.Connection[Any]"], T],
        *,
        times: float = 1.0,
        once: bool = False,
        alone: bool = True,
    ) -> T:
        """What `work` gives; again and again while the server cannot be reached. StoreError.

        times: how many times the usual patience a long statement may take. once: not to try again.
        alone: whether this process has no other session; else StoreCrowded where the server has no
        room for this one.
        """
        with self._lock:
            began, pause = time.monotonic(), RETRY_PAUSE
            while True:
                if self._closed:
                    raise StoreError(f"{self._url} is closed")
                if self._patience.over:
                    raise StoreUnreachable(f"{self._url} does not answer any more")
                try:
                    db = self._connection()
                    started = time.monotonic()
                    db.left = partial(self._left, started, times)
                    result = work(db)
                except psycopg.errors.DiskFull as exc:
                    raise StoreFull(f"{self._url}: {one_line(exc)}") from exc
                except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
                    self._drop()
                    if not alone and any(words in str(exc) for words in _CROWDED):
                        raise StoreCrowded(f"{self._url} has no room: {one_line(exc)}") from exc
                    if once or not self._patience.failed(began, pause):
                        raise StoreUnreachable(
                            f"{self._url} cannot be reached: {one_line(exc)}"
                        ) from exc
                    pause = min(2 * pause, MAX_RETRY_PAUSE)
                except psycopg.Error as exc:
                    raise StoreError(f"{self._url}: {one_line(exc)}") from exc
                else:
                    self._patience.succeeded()
                    self.seconds = time.monotonic() - started
                    return result

    def close(self) -> None:
        # Without the lock: whoever holds it may be waiting for a server that hangs.
        self._closed = True
        if self._lock.acquire(timeout=2 * _TICK):
            self._drop()
            self._lock.release()

    def _left(self, started: float, times: float) -> float:
        return self._patience.left(started) + (times - 1) * self._patience.seconds

    def _connection(self) -> "_Connection":
        if self._db is None or self._db.closed:
            self._drop()  # one that the server ended is not closed on this side
            # The server's own limit (s), of which libpq takes 2 at least.
            left = self._patience.left(time.monotonic()) or CONNECT_SECONDS
            wait = round(min(max(left, 2.0), CONNECT_SECONDS))
            self._db = connect(self._url, connect_timeout=wait)
            self._db.left = partial(self._left, time.monotonic(), 1.0)
            # What is acknowledged survives a power failure, whatever the server's default is.
            self._db.execute("SET synchronous_commit = on")
        return self._db

    def _drop(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


class _Connection(psycopg.Connection[Any]):
    """One whose statements end at a deadline, whatever the server does."""

    left: Callable[[], float] | None = None
    """Seconds that the work under way may still take."""
    seconds = MAX_OUTAGE_SECONDS
    """How long one statement may take where `left` does not say."""

    def wait(self, gen: Any, interval: float = _TICK, *more: Any, **named: Any) -> Any:
        return super().wait(self._bounded(gen), min(interval, _TICK), *more, **named)

    def _bounded(self, gen: Any) -> Generator[Any, Any, Any]:
        began = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                spent = time.monotonic() - began
                left = self.seconds - spent if self.left is None else self.left()
                if not ready and left < 0:
                    raise psycopg.OperationalError("the server does not answer")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def connect(url: str, seconds: float | None = None, **options: Any) -> _Connection:
    """A connection that nobody on the way can read or impersonate. psycopg.Error, StoreError.

    seconds: how long one statement may take; None: as long as an outage. options: of libpq.
    """
    checked = checked_url(url)
    safe = _safety(_parts(checked), checked)
    db = _Connection.connect(checked, autocommit=True, **{**_KEEPALIVE, **safe, **options})
    db.seconds = outage_seconds() if seconds is None else seconds
    return db


def outage_seconds() -> float:
    """How long to wait for a database now. StoreError."""
    return seconds_of("OVERSIGHT_OUTAGE_SECONDS", MAX_OUTAGE_SECONDS)


def checked_url(url: str) -> str:
    """The URL itself. StoreError if it is none, or holds a password, or sends what it carries in
    the clear over a network."""
    parts = _parts(url)
    if secret := [name for name in _SECRETS if parts.pop(name, None) is not None]:
        raise StoreError(
            f"the URL of the store holds a password ({secret[0]}; {make_conninfo(**parts)}), and "
            "the run folder would keep it: put it into ~/.pgpass, or into the variable PGPASSWORD"
        )
    _safety(parts, url)
    return url


def _parts(url: str) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error as exc:
        shown = re.sub(r"//.*@", "//…@", url.partition("?")[0])
        said = one_line(exc).replace(url, shown)
        raise StoreError(f"{shown}: not the URL of a database: {said}") from None


def _safety(parts: dict[str, str], url: str) -> dict[str, str]:
    """Settings without which nothing is sent to this host; none for this machine itself."""
    hosts = parts.get("hostaddr") or parts.get("host") or environ.get("PGHOST", "")
    if all(map(_is_local, hosts.split(","))):
        return {}
    tls = parts.get("sslmode")
    if tls in ("disable", "allow", "prefer"):
        raise StoreError(
            f"{url}: sslmode={tls} would send replies and passwords to {hosts} in the clear: leave "
            "it out, or, where the network itself is safe, set PGSSLMODE in your environment"
        )
    tls = tls or environ.get("PGSSLMODE", "")
    added = {} if tls else {"sslmode": "require"}
    if tls in ("", "require") and not (
        parts.get("channel_binding") or environ.get("PGCHANNELBINDING")
    ):
        # Encryption alone does not tell the server from somebody in between.
        added["channel_binding"] = "require"
    return added


def _is_local(host: str) -> bool:
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())
