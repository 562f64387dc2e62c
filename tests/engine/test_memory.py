"""Answers that are far too large, to many calls at once: their sum is bounded, not only each."""

import asyncio
import sys
import zlib

import pytest

from tests.command_line import ROOT
from tests.lines import listening

pytestmark = pytest.mark.wire


def bomb() -> tuple[bytes, bytes]:
    """Short on the wire, and just short of the cap when it is inflated."""
    packer = zlib.compressobj(9, wbits=31)
    body = packer.compress(b"x" * 31 * 2**20) + packer.flush()
    return b"content-encoding: gzip\r\n", body


def giant() -> tuple[bytes, bytes]:
    return b"", b"x" * 34 * 2**20


@pytest.mark.parametrize("answer", [bomb, giant])
async def test_hundreds_of_huge_answers_do_not_take_the_memory(answer, campaign):
    calls = campaign.size(14, 48)
    headers, body = answer()
    head = b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n" % (headers, len(body))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(head)
                for start in range(0, len(body), 2**18):
                    writer.write(body[start : start + 2**18])
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with listening(serve) as url:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.engine.gulps", url, str(calls)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await child.communicate()
    assert child.returncode == 0
    peak = float(told)
    assert peak < 350, f"{calls} calls took {peak:.0f} MB"
