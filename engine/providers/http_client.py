"""The HTTP client: persistent connections to a server, and the reading of its answers."""

import asyncio
import logging
import math
import ssl
import zlib
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httptools

from ..errors import Malformed, OutcomeUnknown, ProviderDown, Unreachable
from .connection import Answer, AnswerIds, Came, Connection, Owner
from .settings import Settings
from .transport import (
    BODY_CAP,
    PROXY_REMEDY,
    Origin,
    Response,
    Secret,
    Target,
    Transport,
    chain,
    distrusted,
    forget,
    mix_up,
)

if TYPE_CHECKING:
    import httpx2

_RAMP = 64
"""Maximum connections being opened at a time: a thousand handshakes would all time out."""
_OPENING_SECONDS = 60.0
"""Maximum seconds to open a connection, unless the deadline is shorter."""
_GZIP = b"\x1f\x8b"
_MAX_MEMBERS = 64
"""Maximum members of a gzip body: each copies the rest."""
_SETTLED = 1.0
"""Seconds to wait for unsolicited answers, after all work is done."""
_LARGE_AT_ONCE = 2
"""Large answers that are read at one time, since hundreds of up to 32 MB may arrive. The others
wait, and so do their servers."""

log = logging.getLogger(__name__)


class HttpClient(Owner):
    """Sends requests to one server, and hides its key in all answers.

    A connection is reused only if answers carry unique ids, so that a repeated answer is detected
    (see `AnswerIds`); otherwise each request opens a connection. May be used again after `close`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        keep_alive: float = 0.0,
        tls: ssl.SSLContext | None = None,
        cap: int = BODY_CAP,
        diagnoses: bool = True,
    ) -> None:
        """keep_alive: seconds for which an idle connection is kept. tls: how certificates are
        checked; None for the system's defaults. cap: maximum size of an answer in bytes,
        decompressed. diagnoses: whether to find out why a server has never answered."""
        self.secret = Secret(settings.key)
        self.cap = cap
        self._source = settings.provider
        self._deadline = settings.deadline
        self._opening_seconds = min(_OPENING_SECONDS, self._deadline)
        self._most = settings.connections
        self._proxy = settings.proxy
        self._stop_token = settings.stop_token
        self._on_mixed = settings.on_mixed
        self._keep_alive = keep_alive
        self._tls = tls
        self._ids = AnswerIds()
        self._alone = False
        """Whether each request opens a connection, since the server mixed up answers."""
        self._heard = not diagnoses
        """Whether the server has ever answered in HTTP."""
        self._proxied: httpx2.AsyncClient | None = None
        self._idle: dict[Origin, dict[Connection, None]] = {}
        """Idle connections by origin, the most recently used last."""
        self._open: set[Connection] = set()
        self.alarm = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._all_lost = asyncio.Event()
        self._places = asyncio.Semaphore(settings.connections)
        self._waiting = 0
        """Requests that wait for a free connection, in order."""
        self._ramp = asyncio.Semaphore(_RAMP)
        self._large: list[Connection] = []
        self._diagnosing = asyncio.Lock()
        self._mixed_up: str | None = None
        """The diagnosis of the base URL; None before it."""

    def send(self, target: Target, body: bytes, about: str = "") -> Awaitable[Response]:
        """Send a request; `read` takes its answer, of any status. about: a call's address, for
        messages.

        The deadline starts when the request is sent. Opening a connection has a separate limit;
        after it, nothing was paid.

        Raises Unreachable: nothing was sent. OutcomeUnknown: sent, but no complete answer came
        within the deadline. ProviderDown: the server's certificate or the base URL is wrong."""
        if self._proxy:
            return self._by_proxy(target, body)
        idle = self._idle.get(target.origin)
        while idle:
            # The most recently used connection.
            connection, _ = idle.popitem()
            now = connection.time()
            fresh = now - connection.idle_since <= self._keep_alive
            if fresh and not connection.transport.is_closing():
                return connection.ask(target, body, self._deadline, about)
            connection.transport.close()
        return self._exchange(target, body, about)

    async def quiet_down(self) -> None:
        """Wait until each connection was idle for as long as its last exchange took, at most a
        second: a repeated answer then shows as an unsolicited one."""
        now = asyncio.get_running_loop().time()
        idle = [one for group in self._idle.values() for one in group if one.answers > 1]
        seconds = max((2 * one.idle_since - one.sent - now for one in idle), default=0.0)
        if seconds > 0.0:
            await asyncio.sleep(min(seconds, _SETTLED))

    async def close(self) -> None:
        """Close all connections; pending exchanges fail with OutcomeUnknown."""
        self._all_lost.clear()
        for connection in [*self._open]:
            connection.transport.abort()
        if self._open:
            await self._all_lost.wait()
        if self._proxied is not None:
            await self._proxied.aclose()
            self._proxied = None

    async def _exchange(self, target: Target, body: bytes, about: str) -> Response:
        """An exchange over a new connection, which may have to wait."""
        sent = False
        try:
            connection = await self._connected(target)
            if self._stopped:
                self._rest(connection)
                raise self._not_sent()
            sent = True
            return await connection.ask(target, body, self._deadline, about)
        except (OSError, httptools.HttpParserError) as exc:
            failure: Exception = exc
        # Outside of the clause: the error's context must not quote the request.
        forget(failure)
        if isinstance(failure, ssl.SSLCertVerificationError):
            message = f"{self._source}: {distrusted(target, failure)}"
            raise ProviderDown(message).unsent() from failure
        met = sent or isinstance(failure, ssl.SSLError)
        if met and not self._heard and (wrong := await self._wrong_with(target, failure)):
            message = f"{self._source}: {target.address} gives no answer: {wrong}"
            raise ProviderDown(message).unsent() from self.quotable(failure)
        raise self._fault(failure, target.host, sent)

    @property
    def _stopped(self) -> bool:
        return self._stop_token is not None and self._stop_token.halt is not None

    def _not_sent(self) -> Unreachable:
        return Unreachable(f"{self._source}: the run stops before this call has left")

    async def _wrong_with(self, target: Target, failure: Exception) -> str:
        """The fault of the base URL; empty if it is right. Diagnosed by the first failing call."""
        async with self._diagnosing:
            if self._mixed_up is None:
                self._mixed_up = await mix_up(target, failure)
        return self._mixed_up

    async def _connected(self, target: Target) -> Connection:
        loop = asyncio.get_running_loop()
        if self._places.locked() and (resting := [*filter(None, self._idle.values())]):
            next(iter(resting[0])).transport.close()  # free the place of another origin
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            tls = self._context() if target.tls else None
            async with self._ramp, asyncio.timeout(self._opening_seconds):
                _, connection = await loop.create_connection(
                    lambda: Connection(self, target.origin, loop), target.host, target.port, ssl=tls
                )
        except BaseException:
            self._places.release()
            raise
        if connection.transport.is_closing():
            raise ConnectionResetError("the server hung up at once")
        self._open.add(connection)
        return connection

    def _fault(self, exc: Exception, host: str, sent: bool) -> Unreachable | OutcomeUnknown:
        """The error for a failed exchange. A server's message is quoted without the key, since it
        may repeat the request."""
        if isinstance(exc, TimeoutError) and not exc.args:
            reason = f" within {self._deadline if sent else self._opening_seconds:g} s"
        else:
            message = self.secret.hidden_in(str(exc))
            reason = f" {'from' if sent else 'to'} {host}: {type(exc).__name__}: {message}"
        fault = (
            OutcomeUnknown(f"{self._source}: no whole answer{reason}")
            if sent
            else Unreachable(f"{self._source}: no connection{reason}")
        )
        fault.__cause__ = self.quotable(exc)
        return fault

    def quotable(self, exc: Exception) -> Exception | None:
        """The failure as a cause for a log; None if its chain quotes the key."""
        quoted = " ".join(f"{fault} {fault!r}" for fault in chain(exc))
        return exc if self.secret.hidden_in(quoted) == quoted else None

    def failed(self, connection: Connection, answer: Answer, exc: Exception) -> None:
        # Before the server has ever answered, the base URL is diagnosed first.
        answer.set_exception(self._fault(exc, connection.origin[0], True) if self._heard else exc)

    def unasked(self, connection: Connection, *, timed_out: bool) -> None:
        # Unsolicited answers may come at any time: after one, each request opens a connection. A
        # 408 is harmless.
        if not timed_out:
            calls = tuple(filter(None, connection.calls))
            self._distrust("sent an answer that nobody had asked for", calls)
            if calls and self._on_mixed is not None:
                self._on_mixed(self._source, calls)
        connection.spent = True
        connection.transport.close()

    def read_large(self, connection: Connection) -> None:
        self._large.append(connection)
        if len(self._large) > _LARGE_AT_ONCE:
            connection.transport.pause_reading()

    def watch(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.alarm = until
        if until < math.inf:
            self._timer = asyncio.get_running_loop().call_at(until, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in [*self._open]:
            if connection.until <= now:
                connection.overdue(now)
        self.watch(min([connection.until for connection in self._open], default=math.inf))

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._all_lost.set()
            self.watch(math.inf)
        self._idle.get(connection.origin, {}).pop(connection, None)
        self._make_room(connection)
        self._places.release()

    def _make_room(self, connection: Connection) -> None:
        if connection in self._large:
            self._large.remove(connection)
            for waiting in self._large[:_LARGE_AT_ONCE]:
                if not waiting.transport.is_closing():
                    waiting.transport.resume_reading()

    def _distrust(self, why: str, addresses: tuple[str, ...] = ()) -> None:
        """From now on open a connection per request. why: the server's action. addresses: of calls
        whose answers may be mixed up."""
        if not self._alone:
            commands = "".join(
                f"; oversight cache show {address[:12]}" for address in addresses[-2:]
            )
            log.warning(
                "a server %s; it is discarded, and from now on each request to that "
                "provider opens a new connection%s",
                why,
                commands and f". The last replies there may be those to other calls{commands}",
            )
            self._alone = True

    def read(self, came: Response) -> Response:
        """Read an answer: decompress it, and hide the key in it. Raises Malformed for an answer
        that is too large, broken, or a repetition of an earlier one."""
        status, headers, body = came.status, came.headers, came.body
        connection = came.connection if isinstance(came, Came) else None
        if connection is not None:
            self._heard = True
            if self._large:
                self._make_room(connection)
        try:
            if encodings := headers.get("content-encoding", ""):
                for encoding in reversed(encodings.lower().split(",")):
                    if (encoding := encoding.strip()) not in ("", "identity"):
                        body = self._inflate(body, encoding)
            if len(body) > self.cap:
                raise self._too_large(body)
            fresh = connection is None or connection.answers == 1
            if again := self._ids.repeated(headers, body, fresh):
                if connection is not None:
                    connection.spent = True
                # A server that shows its callers' headers may derive the id from the key.
                again = self.secret.hidden_in(again)
                self._distrust(f"repeated its answer {again}")
                raise self._malformed(f"it repeated its answer {again}", body)
        finally:
            # Reuse the connection if that is safe.
            if connection is not None:
                if connection.spent or self._alone or not self._ids.proven:
                    connection.transport.close()
                else:
                    self._rest(connection)
        if not self.secret.guarded:
            return Response(status, headers, body)
        headers = self._without_key(headers)
        if not self.secret.repeated(body):
            # An error may quote the start of the key: hide that too.
            body = body if 200 <= status < 300 else self.secret.hidden(body)
            return Response(status, headers, body)
        return Response(status, headers, self.secret.hidden(body), repeats_key=True)

    def _rest(self, connection: Connection) -> None:
        if self._waiting:
            connection.transport.close()  # to free its place
            return
        connection.idle_since = now = connection.time()
        idle = self._idle.setdefault(connection.origin, {})
        idle[connection] = None
        oldest = next(iter(idle))
        if now - oldest.idle_since > self._keep_alive:
            oldest.transport.close()

    def _without_key(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        values = "\n".join(headers.values())
        if not self.secret.repeated(values.encode()):
            return headers
        return {name: self.secret.hidden_in(value) for name, value in headers.items()}

    def _inflate(self, body: bytes, encoding: str) -> bytes:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise self._malformed(f"{encoding!r}, which nobody asked for", body)
        # 47: gzip or zlib, detected by the header. Some servers send deflate without a header.
        bare = encoding == "deflate" and not _has_head(body)
        inflated, remaining = b"", body
        for _ in range(_MAX_MEMBERS):
            inflater = zlib.decompressobj(-15 if bare else 47)
            try:
                inflated += inflater.decompress(remaining, self.cap + 1 - len(inflated))
            except zlib.error as exc:
                raise self._malformed(f"broken {encoding}: {exc}", body) from exc
            if len(inflated) > self.cap:
                raise self._too_large(inflated)
            if not inflater.eof:
                raise self._malformed(f"{encoding} that is cut short", body)
            remaining = inflater.unused_data
            if not remaining.startswith(_GZIP):
                return inflated
        raise self._malformed(f"{encoding} in more than {_MAX_MEMBERS} members", body)

    def _too_large(self, body: bytes) -> Malformed:
        return self._malformed(f"more than {self.cap / 2**20:g} MB", body)

    def _malformed(self, reason: str, body: bytes) -> Malformed:
        # The beginning, without the key, is kept for diagnosis.
        return Malformed(
            f"{self._source} sent {reason}", self.secret.hidden(body[: Malformed.KEPT])
        )

    async def _by_proxy(self, target: Target, body: bytes) -> Response:
        """An exchange through a proxy, by httpx2."""
        import httpx2

        if self._proxied is None:
            self._proxied = httpx2.AsyncClient(
                proxy=self._proxy,
                verify=self._context(),
                timeout=None,
                limits=httpx2.Limits(max_connections=self._most, keepalive_expiry=self._keep_alive),
                trust_env=False,
            )
        sent = 0.0
        loop = asyncio.get_running_loop()
        late = asyncio.timeout(self._opening_seconds)

        async def trace(event: str, info: dict[str, Any]) -> None:
            nonlocal sent
            step = event.partition("send_request_")[2]
            if not step.endswith(".started") or info["request"].method == b"CONNECT":
                return
            if step == "headers.started" and self._stopped:
                raise self._not_sent()
            if step == "body.started":
                sent = loop.time()
                late.reschedule(sent + self._deadline)

        alone = self._alone or not self._ids.proven
        headers = target.headers | ({"connection": "close"} if alone else {})
        parts: list[bytes] = []
        try:
            async with (
                late,
                self._proxied.stream(
                    target.method, target.url, content=body, headers=headers,
                    extensions={"trace": trace},
                ) as answer,
            ):  # fmt: skip
                size = 0
                async for part in answer.aiter_raw():
                    parts.append(part)
                    size += len(part)
                    if size > self.cap:
                        raise self._too_large(b"".join(parts))
            lowered = {name.lower(): value for name, value in answer.headers.items()}
            return Response(answer.status_code, lowered, b"".join(parts), sent=sent)
        except (httpx2.HTTPError, TimeoutError, OSError) as exc:
            failure = exc
        finally:
            del headers
        forget(failure)
        for cause in chain(failure):
            if isinstance(cause, ssl.SSLCertVerificationError):
                message = f"{self._source}: {distrusted(target, cause)}"
                raise ProviderDown(message).unsent() from cause
        if isinstance(failure, httpx2.ProxyError) and "407" in str(failure):
            message = f"{self._source}: the proxy says 407; {PROXY_REMEDY}"
            raise ProviderDown(message).unsent() from failure
        proxy = urlsplit(self._proxy)
        via = f"{target.host} through the proxy {proxy.hostname}:{proxy.port or proxy.scheme}"
        raise self._fault(failure, via, sent > 0.0)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


class PlainTransport(HttpClient, Transport):
    """Posts below a base URL, always with the same credentials."""

    def __init__(self, settings: Settings, base_url: str, auth: Mapping[str, str]) -> None:
        # Less than the five seconds after which uvicorn, used by most such servers, closes.
        super().__init__(settings, keep_alive=4.0)
        self._base_url = base_url.rstrip("/")
        self._auth = dict(auth)
        self._last: tuple[str, Mapping[str, str], Target] | None = None
        """Path and headers of the last request, and their target."""

    def post(
        self, path: str, headers: Mapping[str, str], body: bytes, about: str = ""
    ) -> Awaitable[Response]:
        last = self._last
        if last is None or last[0] is not path or last[1] is not headers:
            target = Target("POST", self._base_url + path, {**headers, **self._auth})
            last = self._last = path, headers, target
        return self.send(last[2], body, about)


def _has_head(body: bytes) -> bool:
    """Whether a body begins with a gzip or zlib header."""
    return body.startswith(_GZIP) or (body[:1] == b"\x78" and int.from_bytes(body[:2]) % 31 == 0)
