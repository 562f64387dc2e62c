"""A transport that runs its own server: llama.cpp in a child process."""

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping

from ...errors import ProviderDown
from ...providers.transport import Response, Transport
from .weights import SLOTS, weights

START_TIMEOUT = 60.0
"""Timeout (s) of the server's start, in which it loads its model."""


class LocalTransport(Transport):
    """Starts the server with the first call, and sends ordinary HTTP to it; if it dies, the next
    call starts another. It ends with `close`, and with this process, however that ends. Raises:
    UsageError without the weights or llama.cpp, ProviderDown if it does not start."""

    def __init__(self, connect: Callable[[str], Transport]) -> None:
        """connect: makes the transport to a base URL."""
        self._connect = connect
        self._starting = asyncio.Lock()
        self._server: Process | None = None
        self._transport: Transport | None = None

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, about: str = ""
    ) -> Response:
        async with self._starting:
            if self._server is not None and self._server.returncode is not None:
                # It was killed, for instance when memory ran out: start another one.
                await self.close()
            if self._transport is None:
                self._transport = self._connect(f"{await self._start()}/v1")
            transport = self._transport
        return await transport.post(path, headers, body, about)

    def read(self, came: Response) -> Response:
        assert self._transport is not None
        return self._transport.read(came)

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()
        if self._server is not None and self._server.stdin is not None:
            # The server ends when its standard input does.
            self._server.stdin.close()
            await self._server.wait()
        self._server = self._transport = None

    async def _start(self) -> str:
        weights()
        self._server = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "oversight.engine.extensions.local",
            "--slots",
            str(SLOTS),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Keep Ctrl-C from the server: calls in flight are still to land.
            start_new_session=True,
        )
        assert self._server.stdout is not None, "it is a pipe"
        try:
            async with asyncio.timeout(START_TIMEOUT):
                line = await self._server.stdout.readline()
        except TimeoutError as exc:
            raise ProviderDown(f"local: llama.cpp did not start in {START_TIMEOUT:g} s") from exc
        if line:
            return line.decode().strip()
        raise ProviderDown("local: llama.cpp did not start; what it said stands above")
