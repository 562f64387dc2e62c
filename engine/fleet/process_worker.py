"""Workers as processes of this machine: a pipe each way, carrying frames of pickle."""

import asyncio
import itertools
import pickle
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from ..errors import UsageError
from ..sweeps.plugins import code_files
from .messages import Acknowledgement, Orders, WorkerReport, WorkerSetup
from .worker_handle import WorkerHandle, WorkerLost

FRAME_HEADER = struct.Struct("<QI")
"""Before each frame: the number of the request, and the size of the frame in bytes."""
UNRESPONSIVE_AFTER = 60.0
"""Seconds without an answer after which a worker is killed. A loop that a protocol blocks for so
long asks no model either."""


class ProcessWorker(WorkerHandle):
    """A child in a session of its own, so that Ctrl-C reaches the fleet alone. The child ends when
    its pipe does."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def spawn(cls) -> "ProcessWorker":
        """Start a worker with this Python and this environment."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "oversight.engine.fleet", *sys.path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as exc:
            raise WorkerLost(f"a worker cannot be started: {exc}") from exc
        return cls(process)

    async def open(self, setup: WorkerSetup) -> None:
        try:
            await self._request("load_code", code_files())
            await self._request("open", setup)
        except (AttributeError, ModuleNotFoundError, pickle.PicklingError) as exc:
            raise UsageError(
                f"a worker cannot make this sweep: {exc}. With --workers, protocols and settings "
                "of your own must be importable: define them in a module, not in a notebook or in "
                "the script that is run"
            ) from exc

    async def order(self, orders: Orders) -> Acknowledgement:
        # One machine has one clock: the worker deducts the time that orders lay in the pipe.
        answer: Acknowledgement = await self._request("order", orders, time.monotonic())
        return answer

    async def report(self, hold: float) -> WorkerReport:
        try:
            async with asyncio.timeout(hold + UNRESPONSIVE_AFTER):
                report: WorkerReport = await self._request("report", hold)
                return report
        except TimeoutError:
            raise WorkerLost(
                f"worker {self._process.pid} said nothing for {UNRESPONSIVE_AFTER:.0f} s"
            ) from None

    async def close(self, *, abandon: bool) -> WorkerReport:
        report: WorkerReport = await self._request("close", abandon)
        assert self._process.stdin is not None, "it is a pipe"
        self._process.stdin.close()
        await self._process.wait()
        await self._reader
        return report

    async def kill(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()
        await self._reader

    async def _request(self, method: str, *args: object) -> Any:
        """What the worker answered, or raised."""
        assert self._process.stdin is not None, "it is a pipe"
        if self._reader.done() or self._process.stdin.is_closing():
            raise self._lost()
        number = next(self._numbers)
        frame = pickle.dumps((method, args), pickle.HIGHEST_PROTOCOL)
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            self._process.stdin.write(FRAME_HEADER.pack(number, len(frame)) + frame)
            await self._process.stdin.drain()
            return await answer
        except (BrokenPipeError, ConnectionResetError) as exc:
            raise self._lost() from exc
        finally:
            # An answer that comes after a cancellation is dropped.
            self._pending.pop(number, None)
            answer.cancel()

    async def _read(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        try:
            while True:
                header = await self._process.stdout.readexactly(FRAME_HEADER.size)
                number, length = FRAME_HEADER.unpack(header)
                value = pickle.loads(await self._process.stdout.readexactly(length))
                answer = self._pending.get(number)
                if answer is None or answer.done():
                    continue
                if isinstance(value, Exception):
                    answer.set_exception(value)
                else:
                    answer.set_result(value)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(self._lost())

    def _lost(self) -> WorkerLost:
        return WorkerLost(f"worker {self._process.pid} is gone")
