"""Replies that come in their own time, as far as the core knows them: of batches.

Work that asks for them is gone through in waves. An extension registers a `MakeDeferred` under
`oversight.batching`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from ...cache.cache import Cache, CacheStatistics
from ..models.accounting.ledger import UsageTotals
from ..models.router import Router
from ..stop import StopToken
from ..system.entry_points import BATCHING_GROUP, load_function, registered
from .lanes import run_lanes
from .order import Completed, Missing, Order, Plain, Work
from .settings import AskSettings


class Deferred(ABC):
    """Replies that come in their own time, in batches."""

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


async def run_all(
    missing: Missing[Work],
    attempt: Callable[[Work], Awaitable[Completed]],
    keep: Callable[[Work, Completed], None],
    *,
    replies: Deferred | None = None,
    lanes: int,
    stop_token: StopToken,
    waits: Callable[[], bool] = lambda: True,
) -> None:
    """Attempt all that is missing, as `run_lanes` does. replies: those that come in their own
    time; None where all models answer at once."""
    order: Order[Work, Completed] = Plain(missing()) if replies is None else Waves(missing, replies)
    await run_lanes(order, attempt, keep, lanes=lanes, stop_token=stop_token, waits=waits)
    if replies is not None and stop_token.halt is None:
        await replies.finish()


@dataclass(frozen=True, slots=True)
class BatchedWork:
    """Work whose calls go in batches, as far as they may."""

    folder: Path
    """Keeps the events; this process holds its lock."""
    models: Router
    cache: Cache
    settings: AskSettings
    batched: Sequence[str]
    """Models to ask in batches."""
    entered: Mapping[str, UsageTotals] = field(default_factory=dict)
    """By model, what the ledger of the folder knows of earlier sessions."""
    forgives: bool = False
    """Whether calls that can never be served are asked once more."""
    cancels: bool = False
    """Whether to cancel all batches, and do no work."""


MakeDeferred: TypeAlias = Callable[[BatchedWork], Deferred | None]
"""The replies of batches, at half the price; None where none are to be asked for, and none are
out."""


@cache
def batching() -> MakeDeferred | None:
    """The one that is registered; None where there is none."""
    names = registered(BATCHING_GROUP)
    return next((load_function(BATCHING_GROUP, name) for name in names), None)
