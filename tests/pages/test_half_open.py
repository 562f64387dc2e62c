"""Half-open connections: they end by themselves, and never keep others out."""

import asyncio
import resource
import sys
from functools import partial
from pathlib import Path

import pytest

from oversight.engine.views.pages import guard
from oversight.engine.views.pages.server import PageServer
from tests.waiting import PATIENCE

pytestmark = pytest.mark.wire


@pytest.mark.parametrize("sends", [b"", b"GET / HTTP/1.1\r\nHost: ", b"GET /x HTTP/1.1\r\n\r\n"])
async def test_half_open_connections_do_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    for name, most in (("MAX_CONNECTIONS", 100), ("MAX_PER_CLIENT", 50), ("IDLE_SECONDS", 300.0)):
        monkeypatch.setattr(guard, name, most)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    try:
        async with PageServer(tmp_path).serving(0) as url:
            port = int(url.rpartition(":")[2].strip("/"))
            connect = partial(asyncio.open_connection, "127.0.0.1", port)
            # An earlier client from another address: Linux has several loopback addresses.
            linux = sys.platform == "linux"
            others = [await connect(local_addr=("127.0.0.2", 0))] if linux else []
            crowd = []
            for _ in range(400):
                crowd.append(await connect())
                crowd[-1][1].write(sends)
            async with asyncio.timeout(PATIENCE):
                for reader, writer in (*others, await connect()):
                    writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                    assert (await reader.read()).startswith(b"HTTP/1.1 200")
                    writer.close()
            for _, writer in crowd:
                writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "Traceback" not in caplog.text


async def test_connection_without_a_request_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    server = PageServer(tmp_path)
    server.access = type(server.access)("127.0.0.1", methods=("GET", "POST"))
    async with server.serving(0) as url, asyncio.timeout(PATIENCE):
        port = int(url.rpartition(":")[2].strip("/"))
        head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n"
        for sent in ("", "GET / HT", f"{head}Content-Length: 99\r\n\r\nhalf"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent.encode())
            received = await reader.read()
            assert received == b"" or received.startswith(b"HTTP/1.1 408"), received
            writer.close()
