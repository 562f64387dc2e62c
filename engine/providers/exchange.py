"""HTTP exchanges over aiohttp: straight to the server, or through a proxy.

Straight ones use aiohttp's connector and parser without a session: what a session does for each
request (redirects, cookies, middleware, tracing, a task that writes) is of no use with model
servers, and takes more than half of the time of an exchange.
"""

import asyncio
import logging
import select
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from ..errors import Malformed
from .connection import ServerConnection
from .transport import Response

_CONNECT = aiohttp.ClientTimeout(total=None, sock_connect=60.0)
"""Connect timeout (s), long since the handshakes of a thousand connections queue for the CPU."""
_RAMP = 64
"""Maximum connections being opened at one time."""
_LARGE = 2**18
"""Bytes. Only `_LARGE_AT_ONCE` answers longer than this are read to their end at one time, since
hundreds of up to 32 MB may be coming. The others wait, and so do their servers."""
_LARGE_AT_ONCE = 2
_ALWAYS = {"accept-encoding": "gzip, deflate", "user-agent": "oversight-bench"}
"""Default headers of every request."""

_REST = 0.05
"""Seconds that a connection rests after an answer before it is used again, where answers carry no
id. HTTP/1.1 does not say which request an answer belongs to: an unsolicited one that arrives once
the next request is out is taken for its answer. Without ids (see `AnswerIds`) it can only be
detected while no request is out."""
_SPARE = 24
"""Connections that may rest while others are opened in their place. 400 calls at once to a model
that answers within a second need no more; a server on this machine that answers in milliseconds
would, but there a handshake costs more than a call."""

FAILURES = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)
"""Exceptions of a failed exchange, apart from a bad certificate and Overflow."""


log = logging.getLogger(__name__)


class Sending:
    """Records whether any of a request's body was sent: if not, it was not billed."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False


class Overflow(Exception):
    """An answer over the cap, with the start of its body."""

    def __init__(self, body: bytes) -> None:
        super().__init__(f"{len(body)} bytes and more")
        self.body = body


class Exchange(ABC):
    """Sends requests to one provider. Bodies of answers are still compressed."""

    def __init__(self, connector: aiohttp.BaseConnector, cap: int) -> None:
        """cap: maximum size of an answer in bytes."""
        self._connector = connector
        self._cap = cap
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    @abstractmethod
    async def post(
        self, url: URL, headers: Mapping[str, str], body: bytes, sending: Sending
    ) -> Response:
        """One exchange, without a deadline. Raises: one of FAILURES, or Overflow."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""

    async def _read(self, content: aiohttp.StreamReader) -> bytes:
        parts: list[bytes] = []
        size = 0
        while not content.at_eof():
            parts.append(await content.readany())
            size += len(parts[-1])
            if size > min(_LARGE, self._cap):
                async with self._large:
                    return await self._rest(content, parts, size)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _rest(self, content: aiohttp.StreamReader, parts: list[bytes], size: int) -> bytes:
        while size <= self._cap:
            if content.at_eof():
                return b"".join(parts)
            parts.append(await content.readany())
            size += len(parts[-1])
        raise Overflow(b"".join(parts)[: Malformed.KEPT])


class Straight(Exchange):
    """Exchanges directly with the server."""

    def __init__(self, connector: aiohttp.BaseConnector, cap: int) -> None:
        super().__init__(connector, cap)
        self._targets: dict[URL, ClientRequest] = {}
        self._headed: tuple[Mapping[str, str], URL, bytes] = ({}, URL(), b"")
        """Headers and URL of the last request, and the head that they make but for its length."""

    async def post(
        self, url: URL, headers: Mapping[str, str], body: bytes, sending: Sending
    ) -> Response:
        if self._headed[0] is not headers or self._headed[1] is not url:
            self._headed = headers, url, _head(url, headers)
        head = self._headed[2]
        connection = await self._connector.connect(self._target(url), [], _CONNECT)
        try:
            protocol = connection.protocol
            if not isinstance(protocol, ServerConnection) or (wire := protocol.transport) is None:
                raise aiohttp.ServerDisconnectedError
            sending.sent = True
            wire.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
            protocol.answers += 1
            if plain := await protocol.answer():
                status, answered, said = plain
                if len(said) > self._cap:
                    raise Overflow(said[: Malformed.KEPT])
            else:
                message, content = await protocol.read()
                while message.code < 200 and message.code != 101:
                    # 100, 102 and 103 precede the answer. After 101 no more HTTP follows.
                    message, content = await protocol.read()
                status, answered, said = message.code, message.headers, await self._read(content)
        except BaseException:
            connection.close()
            raise
        connection.release()
        return Response(status, answered, said, connection=protocol)

    async def close(self) -> None:
        await self._connector.close()

    def _target(self, url: URL) -> ClientRequest:
        """The request object from which a connector reads the destination; one for each URL."""
        target = self._targets.get(url)
        if target is None:
            loop = asyncio.get_running_loop()
            target = self._targets[url] = ClientRequest("POST", url, loop=loop)
        return target


class Proxied(Exchange):
    """Exchanges through a proxy."""

    def __init__(self, connector: aiohttp.BaseConnector, cap: int, proxy: str) -> None:
        super().__init__(connector, cap)
        self._proxy = proxy
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=_CONNECT,
            headers=_ALWAYS,
            cookie_jar=aiohttp.DummyCookieJar(),
            # The pool decompresses, under its own cap instead of the library's.
            auto_decompress=False,
        )

    async def post(
        self, url: URL, headers: Mapping[str, str], body: bytes, sending: Sending
    ) -> Response:
        payload = _Body(body, sending)
        async with self._session.post(
            url, data=payload, headers=headers, allow_redirects=False, proxy=self._proxy
        ) as response:
            connection = response.connection.protocol if response.connection else None
            if isinstance(connection, ServerConnection):
                connection.answers += 1
            else:
                connection = None
            try:
                said = await self._read(response.content)
            except Overflow:
                response.close()
                raise
            return Response(response.status, response.headers, said, connection=connection)

    async def close(self) -> None:
        await self._session.close()


class Ramped(aiohttp.TCPConnector):
    """Opens a bounded number of connections at a time, and reuses none that holds an unsolicited
    answer.

    A thousand handshakes at once starve one another past every timeout. And an answer that is in
    a connection before the request is sent would be stored as that request's answer: a late 408
    of a load balancer, or whatever a broken server sends unsolicited.
    """

    def __init__(self, connections: int, keep_alive: float, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            limit=connections, keepalive_timeout=keep_alive, ttl_dns_cache=300, ssl=tls or True
        )
        self.answers_have_ids = False
        """Whether answers carry ids, so that a late answer to an earlier request is recognised, and
        connections need not rest."""
        connection: Callable[..., ResponseHandler] = ServerConnection
        self._factory = partial(connection, loop=self._loop)
        self._opening = asyncio.Semaphore(_RAMP)
        self._most = connections
        self._kept_for = keep_alive

    def distrust(self, why: str, doubtful: Sequence[str] = ()) -> None:
        """Give each request a connection of its own from now on. why: what the server did.
        doubtful: addresses of calls that it may have answered with an answer to another."""
        if not self._force_close:
            shown = "".join(f"; oversight cache show {address[:12]}" for address in doubtful)
            log.warning(
                "a server %s; it is thrown away, and each request to that provider has a "
                "connection of its own from now on%s",
                why,
                shown and f". The last replies there may be those to other calls{shown}",
            )
            self._force_close = True

    def look_over(self) -> None:
        """Look for unsolicited answers on the connections that are idle, before they are closed."""
        for resting in self._conns.values():
            for protocol, _ in resting:
                self._fit(protocol)

    async def _create_connection(
        self, req: ClientRequest, traces: list[aiohttp.tracing.Trace], limit: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        async with self._opening:
            return await super()._create_connection(req, traces, limit)

    async def _get(
        self, key: ConnectionKey, traces: list[aiohttp.tracing.Trace]
    ) -> Connection | None:
        """The fit connection that has been idle for longest; None if a new one must be opened."""
        while resting := self._conns.get(key):
            protocol, since = resting[0]
            rested = monotonic() - since
            fit = rested <= self._kept_for and self._fit(protocol)
            rest = 0.0 if self.answers_have_ids else _REST
            if fit and rested < rest and self._room(len(resting)):
                return None
            resting.popleft()
            if not resting:
                del self._conns[key]
            if not fit:
                protocol.close()
                continue
            self._acquired.add(protocol)
            connection = Connection(self, key, protocol, self._loop)
            if rested < rest:
                try:
                    await asyncio.sleep(rest - rested)
                except BaseException:
                    connection.release()
                    raise
                if not self._fit(protocol):
                    connection.close()
                    continue
            return connection
        return None

    def _room(self, resting: int) -> bool:
        return resting <= _SPARE and len(self._acquired) + resting < self._most

    def _fit(self, protocol: ResponseHandler) -> bool:
        """Whether a connection is open and nothing has come over it since its last answer.

        Unsolicited answers may come at any time: a server that has sent one is given a new
        connection for each request from then on. A 408 is harmless: load balancers send it when
        they close an idle connection.
        """
        if self._force_close or not protocol.is_connected():
            return False
        if not protocol.should_close:
            # What lies unread in the socket is known by its id, where answers have ids.
            return self.answers_have_ids or not _readable(protocol.transport)
        if not _is_408(protocol):
            calls = protocol.calls if isinstance(protocol, ServerConnection) else ()
            self.distrust("sent an answer that nobody had asked for", calls)
        return False


def _is_408(protocol: ResponseHandler) -> bool:
    """Whether what came unasked begins with a 408."""
    if protocol._buffer:
        return bool(protocol._buffer[0][0][0].code == 408)
    return bytes(protocol._tail[:12]) in (b"HTTP/1.1 408", b"HTTP/1.0 408")


class _Body(aiohttp.payload.Payload):
    def __init__(self, body: bytes, sending: Sending) -> None:
        super().__init__(body, content_type="application/json")
        self._size = len(body)
        self._sending = sending

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._sending.sent = True
        await writer.write(self._value)


def _readable(transport: Any) -> bool:
    """Whether the socket holds bytes that the event loop has not read yet."""
    socket = transport.get_extra_info("socket")
    if socket is None or (number := socket.fileno()) < 0:
        return False
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def _head(url: URL, headers: Mapping[str, str]) -> bytes:
    """Request line and headers but for the length, which follows. ValueError if one holds a line
    break: it would inject a header."""
    host = url.host_port_subcomponent or ""
    fields = _ALWAYS | {name.lower(): value for name, value in headers.items()}
    fields |= {"host": host}
    fields.pop("content-length", None)
    lines = [
        f"POST {url.raw_path_qs} HTTP/1.1\r\n",
        *(f"{name}: {value}\r\n" for name, value in fields.items()),
    ]
    head = "".join(lines)
    if not head.count("\r") == head.count("\n") == len(lines):
        raise ValueError("a header holds a line break")
    return head.encode()
