"""Connections, rate limits and clock of the mock server.

llhttp parses HTTP/1.1. Per-minute limits are token buckets that refill steadily. The clock may run
faster: an event loop with several seconds per real second."""

import asyncio
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import httptools

_REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class ServerRequest:
    method: str
    path: str
    query: str
    headers: Mapping[bytes, bytes]
    """By lower-case name."""
    body: bytes


class Connection(asyncio.Protocol):
    """One client's connection: passes on whole requests, one at a time, and sends the answers.

    Written on asyncio.Protocol rather than a framework, as it must outrun the clients that are
    measured against it."""

    def __init__(
        self,
        serve: "Callable[[Connection, ServerRequest], None]",
        lost: "Callable[[Connection], None]",
    ) -> None:
        self._serve = serve
        self._lost = lost
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[ServerRequest] = deque()
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self.ahead = 0.0
        """Seconds by which the server's clock is ahead."""

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def connection_made(self, transport: Any) -> None:
        # Any: uvloop's transports do not inherit from asyncio.Transport.
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            # Not HTTP; most likely a TLS handshake.
            self.begin(400, "content-length: 0\r\nconnection: close\r\n")
            if self._transport is not None:
                self._transport.close()
        self._next()

    def answer(self, status: int, body: bytes, headers: str = "") -> None:
        """Send a whole answer. headers: further lines, each ended by CRLF."""
        self.begin(status, f"content-length: {len(body)}\r\n{headers}", body)
        self.finish()

    def begin(self, status: int, headers: str, body: bytes = b"") -> None:
        """Send a head and the first bytes of a body."""
        if "content-type:" not in headers:
            headers += "content-type: application/json\r\n"
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n"
            f"date: {formatdate(time.time() + self.ahead, usegmt=True)}\r\n{headers}\r\n"
        )
        self.write(head.encode() + body)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def finish(self) -> None:
        """Finish the answer, and take the next request."""
        self._busy = False
        self._next()

    def tear(self) -> None:
        """Close with a reset, as a crashed server does; unsent bytes are lost."""
        if self._transport is None:
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _next(self) -> None:
        if self._waiting and not self._busy and not self.closed:
            self._busy = True
            self._serve(self, self._waiting.popleft())

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body = b"", dict[bytes, bytes](), bytearray()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        path, _, query = self._target.decode("latin-1").partition("?")
        method = self._parser.get_method().decode()
        self._waiting.append(ServerRequest(method, path, query, self._headers, bytes(self._body)))


@dataclass(frozen=True, slots=True)
class MeterReading:
    limit: int
    """Units per minute."""
    remaining: int
    reset: float
    """Real seconds until it is full again."""


class ServerBudgets:
    """The token buckets of one model, each of one minute's capacity. Times are in real seconds."""

    def __init__(self, limits: Mapping[str, int], minute: float, now: float) -> None:
        """limits: units per minute, by `requests` and `tokens`; 0: no limit. minute: its length in
        real seconds."""
        self._limits = {kind: limit for kind, limit in limits.items() if limit}
        self._left = {kind: float(limit) for kind, limit in self._limits.items()}
        self._minute, self._seen = minute, now

    def admit(self, tokens: int, now: float) -> float:
        """Take one request of `tokens` tokens and return 0.0. Otherwise return the real seconds to
        wait, or infinity if the limit is smaller."""
        self._fill(now)
        amounts = {"requests": 1, "tokens": tokens}
        if any(amounts[kind] > limit for kind, limit in self._limits.items()):
            return float("inf")
        missing = {kind: max(amounts[kind] - budget, 0.0) for kind, budget in self._left.items()}
        wait = max((lacking / self._limits[kind] for kind, lacking in missing.items()), default=0.0)
        if not wait:
            self._left = {kind: budget - amounts[kind] for kind, budget in self._left.items()}
        return wait * self._minute

    def read(self, now: float) -> dict[str, MeterReading]:
        """The rest of each budget."""
        self._fill(now)
        readings = {}
        for kind, remaining in self._left.items():
            limit = self._limits[kind]
            reset = (limit - remaining) / limit * self._minute
            readings[kind] = MeterReading(limit, max(int(remaining), 0), reset)
        return readings

    def _fill(self, now: float) -> None:
        passed, self._seen = now - self._seen, now
        for kind, limit in self._limits.items():
            self._left[kind] = min(limit, self._left[kind] + passed / self._minute * limit)


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock runs `speed` times as fast as real time: limits, pauses, deadlines
    and latencies keep their proportions, while computation takes its usual time.

    Processes that communicate need the same speed."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        super().__init__(_FastSelector(speed))

    def time(self) -> float:
        return super().time() * self._speed


class _FastSelector(selectors.DefaultSelector):
    def __init__(self, speed: float) -> None:
        self._speed = speed
        super().__init__()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout and timeout / self._speed)
