"""The deadline of an exchange, with a grace period for a process that was suspended."""

import asyncio
from types import TracebackType

LATE = 0.5
"""Seconds; a timer later than this means that the process was suspended or busy."""
GRACE = 1.0
"""Seconds to read, in that case, answers that have arrived meanwhile."""


class within:
    """Raises TimeoutError once the body has taken so many seconds.

    A process that was suspended (SIGSTOP, a sleeping laptop) past the deadline finds answers in
    its sockets that came in time and are paid for. The event loop runs timers before it reads
    sockets, so those would be lost: a timer that fires late waits `GRACE` seconds first.

    Cancels the task as `asyncio.timeout` does. A plain context manager, since entering and leaving
    an asynchronous one is a tenth of what an exchange costs.
    """

    __slots__ = ("_cancelling", "_clock", "_end", "_expired", "_loop", "_task")

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds

    def __enter__(self) -> None:
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("a deadline needs a task that it can cancel")
        self._task, self._cancelling, self._expired = task, task.cancelling(), False
        self._clock = self._loop.call_at(self._end, self._look)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clock.cancel()
        if not self._expired:
            return
        # A cancellation from elsewhere, at the same time, stays one.
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        if self._task.uncancel() <= self._cancelling and cancelled:
            raise TimeoutError from raised

    def _look(self) -> None:
        if self._loop.time() - self._end < LATE:
            self._over()
        else:
            self._clock = self._loop.call_later(GRACE, self._over)

    def _over(self) -> None:
        self._expired = True
        self._task.cancel()
