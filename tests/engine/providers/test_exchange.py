"""One exchange below a session of aiohttp's: what the conformance of whole lines does not reach."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from oversight.engine.providers.exchange import Overflow, Ramped, Sending, Straight
from tests.lines import listening

pytestmark = pytest.mark.wire

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


@asynccontextmanager
async def served(
    *answers: bytes, cap: int = 1000
) -> AsyncIterator[tuple[Straight, URL, list[bytes]]]:
    """A server that gives each request of a connection the next answer, and what it was sent."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(4)
            writer.write(answer)
        writer.close()

    async with listening(serve) as url:
        straight = Straight(Ramped(1, 4.0, None), cap)
        yield straight, URL(f"{url}/v1/x"), heads
        await straight.close()


async def test_a_connection_serves_one_exchange_after_another() -> None:
    async with served(OK, OK.replace(b"hi", b"ho")) as (straight, url, heads):
        said = [(await straight.post(url, {}, b"body", Sending())).body for _ in range(2)]
    assert said == [b"hi", b"ho"] and len(heads) == 2


async def test_what_is_sent_is_named_once_and_our_headers_give_way() -> None:
    async with served(OK) as (straight, url, heads):
        headers = {"User-Agent": "theirs", "Content-Length": "999", "Host": "elsewhere"}
        await straight.post(url, headers, b"body", Sending())
    assert sorted(heads[0].lower().split(b"\r\n")) == sorted(
        [
            b"",
            b"",
            b"post /v1/x http/1.1",
            b"accept-encoding: gzip, deflate",
            b"user-agent: theirs",
            b"content-length: 4",
            f"host: 127.0.0.1:{url.port}".encode(),
        ]
    )


async def test_an_announcement_is_no_answer() -> None:
    async with served(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + OK) as (straight, url, _):
        response = await straight.post(url, {}, b"body", Sending())
    assert (response.status, response.body) == (200, b"hi")


async def test_an_answer_beyond_the_cap_is_cut_and_its_connection_closed() -> None:
    long = b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5000
    async with served(long) as (straight, url, _):
        with pytest.raises(Overflow) as caught:
            await straight.post(url, {}, b"body", Sending())
    assert 1000 < len(caught.value.body) <= 5000


@pytest.mark.parametrize("value", ["a\r\nx-other: b", "a\nb", "a\rb"])
async def test_a_header_with_a_line_break_is_never_sent(value: str) -> None:
    async with served(OK) as (straight, url, heads):
        sending = Sending()
        with pytest.raises(ValueError, match="line break"):
            await straight.post(url, {"x-name": value}, b"body", sending)
    assert not heads and not sending.sent
