"""A pool of connections to one provider: what both transports send through."""

import ssl
import zlib
from collections.abc import Mapping
from traceback import clear_frames

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from engine.errors import Ambiguous, Malformed, ProviderDown, Unreachable
from engine.providers.exchange import (
    FAILURES,
    Exchange,
    Overflow,
    Proxied,
    Ramped,
    Sending,
    Straight,
)
from engine.providers.settings import Settings
from engine.providers.transport import BODY_CAP, PROXY_MEND, Response

_QUARANTINED = 2**16
"""Bytes kept of an answer that is too large to keep."""


class Pool:
    """Connections to one provider, opened as they are needed, never all at once.

    keep_alive: seconds that an idle one is kept. tls: how certificates are checked; the system's
    way if None. cap: the most bytes of an answer, decompressed.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        keep_alive: float,
        tls: ssl.SSLContext | None = None,
        cap: int = BODY_CAP,
    ) -> None:
        self._source = settings.provider
        self._key = settings.key.encode()
        self._connections = settings.connections
        self._proxy = settings.proxy
        self._keep_alive = keep_alive
        self._tls = tls
        self._cap = cap
        self._exchange: Exchange | None = None

    async def post(
        self, url: URL, headers: Mapping[str, str], body: bytes, sending: Sending
    ) -> Response:
        """One exchange, without a deadline of its own; see Transport for what it raises."""
        try:
            return await self._answer(url, headers, body, sending)
        except BaseException as exc:
            # Some show tracebacks with their locals: these hold the key, and whatever the server
            # made of it.
            del headers
            _forget(exc)
            raise

    async def close(self) -> None:
        if self._exchange is not None:
            await self._exchange.close()
            self._exchange = None

    async def _answer(
        self, url: URL, headers: Mapping[str, str], body: bytes, sending: Sending
    ) -> Response:
        if self._exchange is None:
            self._exchange = self._open()
        try:
            came = await self._exchange.post(url, headers, body, sending)
        except Overflow as exc:
            raise self._too_large(exc.body) from exc
        except aiohttp.ClientConnectorCertificateError as exc:
            raise ProviderDown(
                f"{self._source}: the certificate of {url.host} is not to be trusted: {exc}"
            ) from exc
        except aiohttp.ClientHttpProxyError as exc:
            if exc.status != 407:
                raise self._fault(exc, url, sending) from exc
            raise ProviderDown(f"{self._source}: the proxy says 407; {PROXY_MEND}") from exc
        except FAILURES as exc:
            raise self._fault(exc, url, sending) from exc
        said = came.body
        encoding = came.headers.get("content-encoding", "")
        if encoding and encoding != "identity":
            said = self._inflate(said, encoding)
        return Response(came.status, self._told(came.headers), self._without_key(said))

    def _open(self) -> Exchange:
        connector = Ramped(self._connections, self._keep_alive, self._tls)
        if self._proxy:
            return Proxied(connector, self._cap, self._proxy)
        return Straight(connector, self._cap)

    def _inflate(self, body: bytes, encoding: str) -> bytes:
        if encoding.lower() not in ("gzip", "x-gzip", "deflate"):
            raise Malformed(f"{self._source} sent {encoding!r}, which nobody asked for", body)
        # 47: gzip or zlib, told apart by the header.
        inflater = zlib.decompressobj(47)
        try:
            inflated = inflater.decompress(body, self._cap + 1)
        except zlib.error as exc:
            raise Malformed(f"{self._source} sent broken {encoding}: {exc}", body) from exc
        if len(inflated) > self._cap:
            raise self._too_large(inflated)
        if not inflater.eof:
            raise Malformed(f"{self._source} sent {encoding} that is cut short", body)
        return inflated

    def _too_large(self, body: bytes) -> Malformed:
        most = f"{self._cap / 2**20:g} MB"
        start = self._without_key(body[:_QUARANTINED])
        return Malformed(f"{self._source} sent more than {most}", start)

    def _without_key(self, body: bytes) -> bytes:
        if self._key and self._key in body:
            return body.replace(self._key, b"[key]")
        return body

    def _told(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        key = self._key.decode()
        if not key or not any(key in value for value in headers.values()):
            return headers
        return CIMultiDict((name, value.replace(key, "[key]")) for name, value in headers.items())

    def _fault(self, exc: Exception, url: URL, sending: Sending) -> Unreachable | Ambiguous:
        # A server that breaks the protocol is quoted, and may have repeated what it was sent.
        said = self._without_key(str(exc).encode()).decode()
        what = f"{type(exc).__name__}: {said}"
        if sending.sent:
            return Ambiguous(f"{self._source}: no whole answer from {url.host}: {what}")
        return Unreachable(f"{self._source}: no connection to {url.host}: {what}")


def _forget(exc: BaseException | None) -> None:
    """Empty the frames that an exception, and those it came of, have passed through."""
    seen: list[BaseException] = []
    while exc is not None and exc not in seen:
        seen.append(exc)
        clear_frames(exc.__traceback__)
        exc = exc.__cause__ or exc.__context__
