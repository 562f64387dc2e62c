"""The deadline of an exchange, which a process that stood still does not miss."""

import asyncio
from types import TracebackType

LATE = 0.5
"""Seconds by which a clock goes off too late where the process was stopped, or was busy."""
GRACE = 1.0
"""Seconds to look, in that case, at what has come meanwhile."""


class within:
    """TimeoutError once the body has taken so many seconds.

    A process that was stopped (SIGSTOP, a laptop that slept) past the deadline finds answers in
    its sockets that came in time and are paid for. It would throw them away, since clocks come
    before sockets in a loop's turn: a clock that goes off late gives them a moment first.
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
        way: TracebackType | None,
    ) -> None:
        self._clock.cancel()
        await self._timeout.__aexit__(kind, raised, way)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._end < LATE:
            self._over()
        else:
            self._clock = loop.call_later(GRACE, self._over)

    def _over(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())
