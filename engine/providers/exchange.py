"""One request and its answer, carried by aiohttp: straight to the server, or through a proxy.

Straight ones use its connector and its parser, and no session around them. A session does for each
request what models' servers never need (redirects, cookies, middleware, tracing, a task that
writes), and that takes more than half of the time of an exchange.
"""

import asyncio
import logging
import select
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import monotonic
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from oversight.engine.errors import Malformed
from oversight.engine.providers.transport import Response

_CONNECT = aiohttp.ClientTimeout(total=None, sock_connect=60.0)
"""Seconds for one connection to stand. With a thousand to open, handshakes queue for the CPU."""
_RAMP = 64
"""Connections that may be opening at one time."""
_LARGE = 2**18
"""Bytes. Answers that are longer are read to their end a few at a time, `_LARGE_AT_ONCE`: each may
come to 32 MB, and hundreds may be coming. The others wait, and so do their servers."""
_LARGE_AT_ONCE = 2
_ALWAYS = {"accept-encoding": "gzip, deflate", "user-agent": "oversight-bench"}
"""Headers of every request, unless it brings its own."""

_REST = 0.05
"""Seconds that a connection rests after an answer before another request goes over it. HTTP/1.1
does not say which request an answer belongs to: one that nobody asked for, and that comes when the
next request is already out, is read as the answer to it. While nothing is out it can be told."""
_SPARE = 24
"""Connections that may rest while others are opened in their place. A model that answers within a
second and 400 calls at once need no more; a server of this machine that answers in milliseconds
would, and there a handshake costs more than a call."""
_TRUSTED = 16
"""Connections found silent after a whole rest, until those of a server whose spare ones are all in
use are used again at once."""

FAILURES = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)
"""What an exchange raises when it fails, a bad certificate and Overflow apart."""


log = logging.getLogger(__name__)


class Sending:
    """Whether any of a request's body went out: what was not sent is not billed."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False


class Overflow(Exception):
    """An answer that is longer than was allowed; what had come of it."""

    def __init__(self, body: bytes) -> None:
        super().__init__(f"{len(body)} bytes and more")
        self.body = body


class Exchange(ABC):
    """Carries requests to one provider. Bodies come as they are on the wire, still compressed."""

    def __init__(self, connector: aiohttp.BaseConnector, cap: int) -> None:
        """cap: the most bytes of an answer."""
        self._connector = connector
        self._cap = cap
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    @abstractmethod
    async def post(
        self, url: URL, headers: Mapping[str, str], body: bytes, sending: Sending
    ) -> Response:
        """One exchange, without a deadline. One of FAILURES, or Overflow."""

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
    """To the server itself."""

    def __init__(self, connector: aiohttp.BaseConnector, cap: int) -> None:
        super().__init__(connector, cap)
        self._targets: dict[URL, ClientRequest] = {}

    async def post(
        self, url: URL, headers: Mapping[str, str], body: bytes, sending: Sending
    ) -> Response:
        head = _head(url, headers, len(body))
        connection = await self._connector.connect(self._target(url), [], _CONNECT)
        try:
            protocol, wire = connection.protocol, connection.transport
            if protocol is None or wire is None:
                raise aiohttp.ServerDisconnectedError
            protocol.set_response_params(read_until_eof=True, auto_decompress=False)
            sending.sent = True
            wire.write(head + body)
            message, content = await protocol.read()
            while message.code < 200 and message.code != 101:
                # 100, 102 and 103 announce an answer. 101 is the last one in HTTP, unasked.
                message, content = await protocol.read()
            said = await self._read(content)
        except BaseException:
            connection.close()
            raise
        connection.release()
        return Response(message.code, message.headers, said)

    async def close(self) -> None:
        await self._connector.close()

    def _target(self, url: URL) -> ClientRequest:
        """What a connector wants to know of a request: where it goes."""
        target = self._targets.get(url)
        if target is None:
            loop = asyncio.get_running_loop()
            target = self._targets[url] = ClientRequest("POST", url, loop=loop)
        return target


class Proxied(Exchange):
    """Through a proxy."""

    def __init__(self, connector: aiohttp.BaseConnector, cap: int, proxy: str) -> None:
        super().__init__(connector, cap)
        self._proxy = proxy
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=_CONNECT,
            headers=_ALWAYS,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Ours is the only place that decompresses: under a cap, whatever the library's is.
            auto_decompress=False,
        )

    async def post(
        self, url: URL, headers: Mapping[str, str], body: bytes, sending: Sending
    ) -> Response:
        payload = _Body(body, sending)
        async with self._session.post(
            url, data=payload, headers=headers, allow_redirects=False, proxy=self._proxy
        ) as response:
            try:
                said = await self._read(response.content)
            except Overflow:
                response.close()
                raise
            return Response(response.status, response.headers, said)

    async def close(self) -> None:
        await self._session.close()


class Ramped(aiohttp.TCPConnector):
    """Opens a bounded number of connections at a time, and hands none out that has said more than
    it was asked.

    A thousand handshakes at once starve one another past every timeout. And the answer that lies
    in a connection before a request goes over it would be read as the answer to that request, and
    be stored under it: a late 408 of a load balancer, or whatever a broken server sends unasked.
    """

    def __init__(self, connections: int, keep_alive: float, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            limit=connections, keepalive_timeout=keep_alive, ttl_dns_cache=300, ssl=tls or True
        )
        self._opening = asyncio.Semaphore(_RAMP)
        self._most = connections
        self._kept_for = keep_alive
        self._silent = 0

    async def _create_connection(
        self, req: ClientRequest, traces: list[aiohttp.tracing.Trace], limit: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        async with self._opening:
            return await super()._create_connection(req, traces, limit)

    async def _get(
        self, key: ConnectionKey, traces: list[aiohttp.tracing.Trace]
    ) -> Connection | None:
        """The connection that has been idle for longest, as long as it is fit for use; None where
        a new one is to be opened."""
        while resting := self._conns.get(key):
            protocol, since = resting[0]
            rested = monotonic() - since
            fit = rested <= self._kept_for and self._fit(protocol)
            if fit and rested < _REST and self._room(len(resting)):
                return None
            resting.popleft()
            if not resting:
                del self._conns[key]
            if not fit:
                protocol.close()
                continue
            self._acquired.add(protocol)
            connection = Connection(self, key, protocol, self._loop)
            if rested < _REST and self._silent < _TRUSTED:
                try:
                    await asyncio.sleep(_REST - rested)
                except BaseException:
                    connection.release()
                    raise
                if not self._fit(protocol):
                    connection.close()
                    continue
                rested = _REST
            if rested >= _REST:
                self._silent += 1
            return connection
        return None

    def _room(self, resting: int) -> bool:
        return resting <= _SPARE and len(self._acquired) + resting < self._most

    def _fit(self, protocol: ResponseHandler) -> bool:
        """Whether nothing has come over a connection since its last answer.

        What comes unasked may come at any time: a server that has sent such a thing once is given
        a new connection for each request from then on. A 408 is none: that is how load balancers
        say that they close an idle connection.
        """
        if self._force_close or not protocol.is_connected():
            return False
        if not protocol.should_close:
            return not _readable(protocol.transport)
        unasked = protocol._buffer[0][0][0] if protocol._buffer else None
        if unasked is None or unasked.code != 408:
            log.warning(
                "a server sent an answer that nobody had asked for; it is thrown away, and each "
                "request to that provider has a connection of its own from now on"
            )
            self._force_close = True
        return False


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
    """Whether bytes have come to this machine that the event loop has not looked at yet."""
    socket = transport.get_extra_info("socket")
    if socket is None or (number := socket.fileno()) < 0:
        return False
    look = select.poll()
    look.register(number, select.POLLIN)
    return bool(look.poll(0))


def _head(url: URL, headers: Mapping[str, str], size: int) -> bytes:
    """Request line and headers. ValueError if one holds a line break, and so would be two."""
    host = url.host_port_subcomponent or ""
    told = _ALWAYS | {name.lower(): value for name, value in headers.items()}
    told |= {"host": host, "content-length": str(size)}
    lines = [
        f"POST {url.raw_path_qs} HTTP/1.1\r\n",
        *(f"{name}: {value}\r\n" for name, value in told.items()),
        "\r\n",
    ]
    head = "".join(lines)
    if not head.count("\r") == head.count("\n") == len(lines):
        raise ValueError("a header holds a line break")
    return head.encode()
