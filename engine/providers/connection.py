"""A connection to a server: it counts its answers, and reads the plain ones itself.

aiohttp's parser makes a stream, a queue and some callbacks for each answer: a fifth of the time of
an exchange. Most answers of model servers are of one kind, a few kilobytes of known length, and
are read here in one step. Any other answer goes to aiohttp's parser, from its first byte.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
from aiohttp.client_proto import ResponseHandler

MAX_HEAD = 2**14
MAX_PLAIN = 2**18
"""Bytes of a head, and of an answer, that are read here."""


class PlainAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes


class ServerConnection(ResponseHandler):
    """aiohttp's connection, with `answer` as the way to the next plain answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.answers = 0
        """How many have come, those of the server's own accord left out."""
        self.calls: tuple[str, ...] = ()
        """Addresses of the last two calls that they were taken for."""
        self._loop = loop
        self._plain: asyncio.Future[PlainAnswer | None] | None = None
        """Set while an answer is waited for that may be a plain one."""
        self._came = b""
        self._head: tuple[int, dict[str, str], int, int] | None = None

    async def answer(self) -> PlainAnswer | None:
        """The next answer if it is a plain one; if it is not, None, and `read` gives it.

        Raises nothing of its own: a connection that fails or ends is left to `read`.
        """
        if self.transport is None:
            self._to_parser()
            return None
        self._came, self._head = b"", None
        self._plain = self._loop.create_future()
        try:
            plain = await self._plain
        finally:
            self._plain = None
        return plain

    @property
    def stray(self) -> bytes:
        """What has come since the last answer, as far as no parser has read it."""
        return bytes(self._tail)

    def data_received(self, data: bytes) -> None:
        waiting = self._plain
        if waiting is None or waiting.done():
            super().data_received(data)
            return
        self._came = came = self._came + data if self._came else data
        head = self._head
        if head is None:
            end = came.find(b"\r\n\r\n")
            if end < 0:
                if len(came) > MAX_HEAD:
                    self._fall_back(waiting)
                return
            head = self._head = plain_head(came, end)
            if head is None:
                self._fall_back(waiting)
                return
        status, headers, start, whole = head
        if len(came) == whole:
            self._came = b""
            waiting.set_result(PlainAnswer(status, headers, came[start:]))
        elif len(came) > whole:
            # More than was asked for: aiohttp's parser takes it apart.
            self._fall_back(waiting)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._plain is not None and not self._plain.done():
            self._fall_back(self._plain)
        super().connection_lost(exc)

    def _fall_back(self, waiting: "asyncio.Future[PlainAnswer | None]") -> None:
        self._plain = None
        came, self._came = self._came, b""
        self._to_parser()
        waiting.set_result(None)
        if came:
            super().data_received(came)

    def _to_parser(self) -> None:
        self.set_response_params(read_until_eof=True, auto_decompress=False)


def plain_head(came: bytes, end: int) -> tuple[int, dict[str, str], int, int] | None:
    """Status, headers, and where the body begins and ends; None for a head that is not plain.

    end: where the empty line begins. Plain: HTTP/1.1, final, of a known length within `MAX_PLAIN`,
    each header once, the connection kept.
    """
    status = came[9:12]
    if came[:9] != b"HTTP/1.1 " or not status.isdigit() or came[12:13] not in (b" ", b"\r"):
        return None
    lines = came[:end].decode("utf-8", "surrogateescape").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        # A space within the name, or a folded line, begins or ends with it.
        if not colon or not name.isascii() or name.strip() != name or not name:
            return None
        headers[name.lower()] = value.strip(" \t")
    size = headers.get("content-length", "")
    if (
        len(headers) != len(lines) - 1
        or not (size.isascii() and size.isdigit() and len(size) < 8)
        or "transfer-encoding" in headers
        or headers.get("connection", "keep-alive").lower() != "keep-alive"
        or "upgrade" in headers
        or int(status) < 200
        or int(status) in aiohttp.helpers.EMPTY_BODY_STATUS_CODES
    ):
        return None
    head = came[:end]
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head:
        return None
    start = end + 4
    whole = start + int(size)
    return (int(status), headers, start, whole) if whole <= MAX_PLAIN else None
