"""Orders: which piece of work comes next, given how those before it ended.

Lanes ask one order side by side (see `run_lanes`). An order may be put around another one.

    Plain      one piece after the other
    Waves      all of it again and again, as long as some of it waits for replies that come in their
               own time: batches, and people who answer beside them
    Canaries   a few cells of each row, until one of them has succeeded; and no cell of a row whose
               first cells all failed for one cause
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from ...cache.cache import CacheStatistics

Work = TypeVar("Work")
Completed = TypeVar("Completed")


class Order(AsyncIterator[Work], Generic[Work, Completed]):
    """Hands out work. Whoever takes a piece says how it ended before taking another."""

    @abstractmethod
    async def __anext__(self) -> Work:
        """The next piece, as soon as there is one; StopAsyncIteration once there will be none."""

    def ended(self, work: Work, end: Completed | None) -> None:
        """Take note of how a piece ended. end: None where it has no result yet, since a reply is
        `Pending` or nothing more is asked."""


class Plain(Order[Work, Any]):
    """Pieces as they come. The next is taken from `works` no sooner than a lane is free."""

    def __init__(self, works: Iterable[Work]) -> None:
        self._works = iter(works)

    async def __anext__(self) -> Work:
        for work in self._works:
            return work
        raise StopAsyncIteration


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


Missing: TypeAlias = Callable[[], Iterator[Work]]
"""Yields the work that has no result yet, anew each time it is called."""


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


def order_of(missing: Missing[Work], replies: Deferred | None) -> Order[Work, Any]:
    """The order of work that nothing holds back. replies: None where all models answer at once."""
    return Plain(missing()) if replies is None else Waves(missing, replies)
