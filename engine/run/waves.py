"""Waves of work on replies that come in their own time."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from ...cache.cache import CacheStatistics
from .order import Missing, Order, Work


class Deferred(ABC):
    """Replies that come in their own time: in batches, or from people who are not waited for."""

    @abstractmethod
    async def next_wave(self) -> bool:
        """Before the first wave, and after each in which replies were missing: hand in the calls
        of the last one, and return when it is worth going through the work again. False at a stop,
        and where nothing is waited for."""

    @abstractmethod
    async def finish(self) -> None:
        """Nothing is missing any more: cancel what is still out, and collect what is paid for."""

    @abstractmethod
    def counted(self, calls: CacheStatistics) -> CacheStatistics:
        """The statistics for the display: a call that several waves ask counts once."""

    @abstractmethod
    def lines(self, live: Sequence[str]) -> Sequence[str]:
        """Lines of the display. live: those of the models that are asked live."""

    @property
    @abstractmethod
    def awaited(self) -> str:
        """What outlives this process, such as submitted batches; empty if there is nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Close every connection of its own."""


class Waves(Order[Work, Any]):
    """Goes through what is missing in waves: a piece ends at the first reply that is missing, and
    is run again in the next wave, on the replies that have come.

    No piece is suspended meanwhile, so that memory does not grow with what waits, and a process
    that is killed loses nothing but a wave.
    """

    def __init__(self, missing: Missing[Work], replies: Deferred) -> None:
        self._missing, self._replies = missing, replies
        self._wave: Iterator[Work] = iter(())
        self._number, self._under_way = 0, 0
        self._waits = True
        """Whether some piece of this wave had no result."""
        self._turn, self._landed = asyncio.Lock(), asyncio.Event()

    async def __anext__(self) -> Work:
        while (work := next(self._wave, None)) is None:
            number = self._number
            async with self._turn:
                # Whoever came first has begun a wave for all lanes, or found that there is none.
                if number == self._number and not await self._begin():
                    raise StopAsyncIteration
        self._under_way += 1
        return work

    def ended(self, work: Work, end: object) -> None:
        self._waits = self._waits or end is None
        self._under_way -= 1
        self._landed.set()

    async def _begin(self) -> bool:
        """Begin the next wave, once the last piece of this one has ended; whether there is one."""
        while self._under_way:
            self._landed.clear()
            await self._landed.wait()
        if not self._waits or not await self._replies.next_wave():
            self._waits = False
            return False
        self._waits, self._number = False, self._number + 1
        self._wave = self._missing()
        return True
