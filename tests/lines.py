"""Every wire over both transports, each a line to a server of this machine."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import orjson
import pytest

from oversight.cache.call import Call, Message, Request
from oversight.cache.reply import Reply
from oversight.engine.extensions import mock
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.http_client import PlainTransport
from oversight.engine.providers.provider import HttpProvider, OnLimits, Provider
from oversight.engine.providers.settings import Settings

CANARY = "sk-canary-0123456789"
Line = Callable[[Settings, OnLimits | None], Provider]


def plain_anthropic(settings: Settings, on_limits: OnLimits | None) -> Provider:
    wire = AnthropicWire()
    transport = PlainTransport(settings, settings.base_url, wire.auth(settings.key))
    return HttpProvider(wire, lambda: transport, on_limits)


def responses(settings: Settings, on_limits: OnLimits | None) -> Provider:
    return connect(replace(settings, api="responses"), on_limits)


# provider, model, path below the server's address, and how the provider is made
LINES: dict[str, tuple[str, str, str, Line]] = {
    "openai wire, plain": ("compatible/lab", "compatible/lab/m", "/v1", connect),
    "openai wire, sdk": ("openai", "openai/gpt-4o", "/v1", connect),
    "responses wire, plain": ("compatible/lab", "compatible/lab/m", "/v1", responses),
    "responses wire, sdk": ("openai", "openai/gpt-4o", "/v1", responses),
    "anthropic wire, plain": ("anthropic", "anthropic/claude-sonnet-4-5", "", plain_anthropic),
    "anthropic wire, sdk": ("anthropic", "anthropic/claude-sonnet-4-5", "", connect),
}
SERVER_WIRES = {
    "openai": mock.wires.OpenAIServerWire(),
    "responses": mock.wires.ResponsesServerWire(),
    "anthropic": mock.wires.AnthropicServerWire(),
}
"""Server wires, by the first word of their line."""

EACH_LINE = pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=pytest.mark.wire) if "sdk" in line else line for line in LINES],
)
"""Runs a test for each line; the test takes its name. Vendors' clients load for a second."""


def settings_for(line: str, url: str, deadline: float = 20.0) -> Settings:
    provider, _, path, _ = LINES[line]
    options = (("version", "2023-06-01"),) if provider == "anthropic" else ()
    return Settings(provider, url + path, "test", key=CANARY, deadline=deadline, options=options)


@asynccontextmanager
async def reached(
    line: str,
    url: str,
    deadline: float = 20.0,
    on_limits: OnLimits | None = None,
    key: str = CANARY,
) -> AsyncIterator[Provider]:
    provider = LINES[line][3](replace(settings_for(line, url, deadline), key=key), on_limits)
    try:
        yield provider
    finally:
        await provider.close()


@asynccontextmanager
async def rehearsed(
    line: str,
    profile: mock.Profile = mock.PROFILES["calm"],
    answer: mock.Responder | None = None,
    deadline: float = 20.0,
    on_limits: OnLimits | None = None,
) -> AsyncIterator[tuple[Provider, mock.MockServer]]:
    async with (
        mock.MockServer(profile, answer) as server,
        reached(line, server.url, deadline, on_limits) as p,
    ):
        yield p, server


def asked(line: str, text: str = "2 + 2?") -> Call:
    return Call(Request(LINES[line][1], (Message("system", "Be brief."), Message("user", text))))


def always(fault: mock.FaultKind, **settings: float) -> mock.Profile:
    return replace(mock.Profile((mock.FaultWindow(fault, 1.0),)), **settings)


def http(status: str, headers: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def listening(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]):
    """The address of a server that speaks for itself. At its end it hangs up on everybody."""
    serving: set[asyncio.Task[object]] = set()

    async def until_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            serving.add(task)
        try:
            await serve(reader, writer)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass  # the end, here or there: in 3.11 a stream's task that fails is logged as a fault
        finally:
            writer.close()

    async with await asyncio.start_server(until_the_end, "127.0.0.1", 0) as server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
            # Connections that were just closed are gone in the loop's next turn.
            await asyncio.sleep(0)


@asynccontextmanager
async def talking(says: bytes | list[bytes]) -> AsyncIterator[str]:
    """The address of a server that says the same to everyone, once it has heard a word."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(2**16)
        writer.write(says if isinstance(says, bytes) else says[0])
        writer.close()

    async with listening(serve) as url:
        yield url


async def request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of the next request."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head, await reader.readexactly(size)


@asynccontextmanager
async def canned(line: str, answer: bytes, key: str = CANARY):
    """A provider whose server always sends the same bytes, and then closes."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            head = await reader.readexactly(1)
            # Clients that start with TLS send no line.
            if head.isalpha():
                head += await reader.readuntil(b"\r\n\r\n")
            if size := re.search(rb"content-length: (\d+)", head.lower()):
                requests.append(head + await reader.readexactly(int(size[1])))
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with listening(serve) as url, reached(line, url, key=key) as ask:
        yield ask, requests


def good_body(line: str) -> bytes:
    return orjson.dumps(SERVER_WIRES[line.split()[0]].reply(asked(line), Reply("4"), 1))
