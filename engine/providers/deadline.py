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
    """

    __slots__ = ("_clock", "_end", "_timeout")

    def __init__(self, seconds: float) -> None:
        self._end = asyncio.get_running_loop().time() + seconds
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._clock = asyncio.get_running_loop().call_at(self._end, self._look)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clock.cancel()
        await self._timeout.__aexit__(kind, raised, trace)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._end < LATE:
            self._over()
        else:
            self._clock = loop.call_later(GRACE, self._over)

    def _over(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())
