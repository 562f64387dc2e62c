"""The stop token: a one-way switch that stops every waiter at once, with a `Halt` as reason."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from .errors import Halt

T = TypeVar("T")


class StopToken:
    """Stops once and for good. One per model, or one that several share."""

    def __init__(self) -> None:
        self.halt: Halt | None = None
        """The reason of the stop; None while running."""
        self.last_cells = False
        """Whether all cells of the run have begun."""
        self._alarms: set[asyncio.Future[None]] = set()
        self._listeners: list[Callable[[], None]] = []

    def stop(self, halt: Halt) -> None:
        """Stop for this reason; the first reason stays. Sleepers wake and raise it."""
        if self.halt is not None:
            return
        self.halt = halt
        for alarm in self._alarms:
            _ring(alarm)
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` at the stop."""
        self._listeners.append(listener)

    def raise_if_stopped(self) -> None:
        """Raise the Halt, after a stop."""
        if self.halt is not None:
            # One exception reaches thousands of callers; their tracebacks must not accumulate on
            # it.
            raise self.halt.with_traceback(None)

    async def until_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. At a stop, cancel it and raise the Halt."""
        if self.halt is not None:
            work.close()
        self.raise_if_stopped()
        task = asyncio.ensure_future(work)
        alarm = task.get_loop().create_future()
        self._alarms.add(alarm)
        try:
            await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self.raise_if_stopped()
            return task.result()
        finally:
            self._alarms.discard(alarm)
            if task.cancel():
                await asyncio.wait((task,))

    @asynccontextmanager
    async def supervising(self, work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Run `work` while the body runs, then cancel it. An error in it stops this token, since
        what it saves would be lost, and is raised after the body."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()):
                self.stop(Halt(f"a task that saves the run failed: {error!r}"))

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds; at a stop, raise the Halt at once. Cancellation-safe."""
        self.raise_if_stopped()
        loop = asyncio.get_running_loop()
        alarm: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _ring, alarm)
        self._alarms.add(alarm)
        try:
            await alarm
        finally:
            timer.cancel()
            self._alarms.discard(alarm)
        self.raise_if_stopped()


def _ring(alarm: asyncio.Future[None]) -> None:
    if not alarm.done():
        alarm.set_result(None)
