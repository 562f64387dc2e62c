"""Workers as processes of this machine: a pipe each way, and frames of pickle on them."""

import asyncio
import itertools
import pickle
import struct
import sys
import time
from contextlib import suppress
from typing import Any

from oversight.engine.errors import UsageError
from oversight.engine.fleet.messages import Acknowledgement, Orders, WorkerReport, WorkerSetup
from oversight.engine.fleet.worker_handle import WorkerHandle, WorkerLost
from oversight.engine.sweeps.elsewhere import code_files

FRAME_HEADER = struct.Struct("<QI")
"""Before each frame: the number of the call, and the size of the frame in bytes."""
UNRESPONSIVE_AFTER = 60.0
"""Seconds without any word after which a worker is ended. A loop that a protocol blocks for so long
answers no model either."""


class ProcessWorker(WorkerHandle):
    """A child in a session of its own, so that Ctrl-C reaches the fleet alone, which says what to
    do. The child ends when its pipe does."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

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

    async def open(self, opening: WorkerSetup) -> None:
        try:
            await self._call("know", code_files())
            await self._call("open", opening)
        except (AttributeError, ModuleNotFoundError, pickle.PicklingError) as exc:
            raise UsageError(
                f"a worker cannot make this sweep: {exc}. With --workers, protocols and settings "
                "of your own must be importable: define them in a module, not in a notebook or in "
                "the script that is run"
            ) from exc

    async def order(self, orders: Orders) -> Acknowledgement:
        # One machine has one clock: orders that lay in the pipe are as old as they are.
        receipt: Acknowledgement = await self._call("order", orders, time.monotonic())
        return receipt

    async def report(self, hold: float) -> WorkerReport:
        try:
            async with asyncio.timeout(hold + UNRESPONSIVE_AFTER):
                report: WorkerReport = await self._call("report", hold)
                return report
        except TimeoutError:
            raise WorkerLost(
                f"worker {self.process.pid} said nothing for {UNRESPONSIVE_AFTER:.0f} s"
            ) from None

    async def close(self, *, abandon: bool) -> WorkerReport:
        report: WorkerReport = await self._call("close", abandon)
        assert self.process.stdin is not None, "it is a pipe"
        self.process.stdin.close()
        await self.process.wait()
        await self._reading
        return report

    async def lose(self) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()
        await self.process.wait()
        await self._reading

    async def _call(self, method: str, *args: object) -> Any:
        """What the worker answered, or raised."""
        assert self.process.stdin is not None, "it is a pipe"
        if self._reading.done() or self.process.stdin.is_closing():
            raise self._lost()
        number = next(self._numbers)
        frame = pickle.dumps((method, args), pickle.HIGHEST_PROTOCOL)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self.process.stdin.write(FRAME_HEADER.pack(number, len(frame)) + frame)
            await self.process.stdin.drain()
            return await waiting
        except (BrokenPipeError, ConnectionResetError) as exc:
            raise self._lost() from exc
        finally:
            # Whoever was cancelled hears the answer no more.
            self._waiting.pop(number, None)
            waiting.cancel()

    async def _read(self) -> None:
        assert self.process.stdout is not None, "it is a pipe"
        try:
            while True:
                head = await self.process.stdout.readexactly(FRAME_HEADER.size)
                number, length = FRAME_HEADER.unpack(head)
                value = pickle.loads(await self.process.stdout.readexactly(length))
                waiting = self._waiting.get(number)
                if waiting is None or waiting.done():
                    continue
                if isinstance(value, Exception):
                    waiting.set_exception(value)
                else:
                    waiting.set_result(value)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(self._lost())

    def _lost(self) -> WorkerLost:
        return WorkerLost(f"worker {self.process.pid} is gone")
