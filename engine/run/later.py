"""An extension's part in an execution, such as replies that come later.

An extension registers an `Entry` under `oversight.execution`. Work whose replies come later is gone
through in passes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...cache.cache import Cache, CacheStatistics, Mode
from ...cache.call import Ask
from ..errors import UsageError
from ..models.accounting.ledger import UsageTotals
from ..models.directory import Directory
from ..models.router import Router
from ..stop import StopToken
from ..system.process import EXECUTION_GROUP, load_one, registered
from .lanes import run_lanes
from .schedule import Completed, InOrder, Missing, Schedule, Work
from .settings import AskSettings


@dataclass(frozen=True, slots=True)
class ExecutionWork:
    """Work that asks models, as an extension sees it before it begins."""

    folder: Path
    """Keeps the events; this process holds its lock."""
    models: Router
    names: Sequence[str]
    """The models that the work asks."""
    cache: Cache
    settings: AskSettings
    mode: Mode = "use"
    """Of the cache."""
    entered: Mapping[str, UsageTotals] = field(default_factory=dict)
    """By model, the accounts of earlier sessions in the ledger of the folder."""
    forgives: bool = False
    """Whether calls that can never be served are asked once more."""


class Addition(ABC):
    """The part of an extension in an execution: asks by model, a schedule, an end."""

    asks: Mapping[str, Ask]
    """By model, the `Ask` that takes its calls instead of its sender."""

    @abstractmethod
    def schedule(self, missing: Missing[Work]) -> Schedule[Work, Any]:
        """Return the schedule of the missing work."""

    @abstractmethod
    async def end(self) -> None:
        """End whatever outlives this process. No work is missing any more."""

    @property
    def pending(self) -> str:
        """Names the work that outlives this process, such as at a vendor; empty if none does."""
        return ""

    def counted(self, calls: CacheStatistics) -> CacheStatistics:
        """The statistics for the display: a call that several passes ask counts once."""
        return calls

    def lines(self, live: Sequence[str]) -> Sequence[str]:
        """Lines of the display. live: the lines of models that are asked live."""
        return live

    @abstractmethod
    async def close(self) -> None:
        """Close every connection."""


class Entry(ABC):
    """The object that an extension registers. Every run loads it, so its imports stay light."""

    defers = False
    """Whether it takes deferred calls."""

    def outlives(self, folder: Path) -> bool:
        """Whether earlier sessions left something in a folder that has to be brought to an end."""
        return False

    @abstractmethod
    def made(self, work: ExecutionWork) -> Addition | None:
        """The addition to some work; None for work without need of one. UsageError."""


class Passes(Schedule[Work, Any]):
    """Goes through missing work in passes: a piece ends at the first reply that is missing, and
    runs again in the next pass, on the replies that have come.

    No piece is suspended meanwhile, so that memory does not grow with the waiting work, and a
    killed process loses nothing but a pass."""

    def __init__(self, missing: Missing[Work], begin: Callable[[], Awaitable[bool]]) -> None:
        """begin: awaited before each pass; False ends the work."""
        self._missing, self._allowed = missing, begin
        self._pass: Iterator[Work] = iter(())
        self._number, self._under_way = 0, 0
        self._waits = True
        """Whether some piece of this pass had no result."""
        self._turn, self._landed = asyncio.Lock(), asyncio.Event()

    async def __anext__(self) -> Work:
        while (work := next(self._pass, None)) is None:
            number = self._number
            async with self._turn:
                # The first lane has begun a pass for all lanes, or has ended the work.
                if number == self._number and not await self._begin():
                    raise StopAsyncIteration
        self._under_way += 1
        return work

    def record_result(self, work: Work, result: object) -> None:
        self._waits = self._waits or result is None
        self._under_way -= 1
        self._landed.set()

    async def _begin(self) -> bool:
        """Begin the next pass once this one has ended; False if none is needed."""
        while self._under_way:
            self._landed.clear()
            await self._landed.wait()
        if not self._waits or not await self._allowed():
            self._waits = False
            return False
        self._waits, self._number = False, self._number + 1
        self._pass = self._missing()
        return True


async def run_all(
    missing: Missing[Work],
    attempt: Callable[[Work], Awaitable[Completed]],
    keep: Callable[[Work, Completed], None],
    *,
    added: Addition | None = None,
    lanes: int,
    stop_token: StopToken,
    waits: Callable[[], bool] = lambda: True,
) -> None:
    """Attempt all missing work, as `run_lanes` does, with the addition of an extension."""
    schedule: Schedule[Work, Completed] = (
        InOrder(missing()) if added is None else added.schedule(missing)
    )
    await run_lanes(schedule, attempt, keep, lanes=lanes, stop_token=stop_token, waits=waits)
    if added is not None and stop_token.halt is None:
        await added.end()


def entries() -> list[Entry]:
    return [load_one(EXECUTION_GROUP, name, Entry) for name in registered(EXECUTION_GROUP)]


def added_to(work: ExecutionWork) -> Addition | None:
    """The addition of an extension to some work. UsageError for one that cannot be made, and where
    two would add to one execution."""
    require_extensions(work.models.directory, work.names, work.settings)
    additions = [added for entry in entries() if (added := entry.made(work)) is not None]
    if len(additions) > 1:
        names = " and ".join(type(added).__name__ for added in additions)
        raise UsageError(f"{names} cannot take part in the same run")
    for added in additions:
        work.models.diverted.update(added.asks)
    return additions[0] if additions else None


def require_extensions(models: Directory, names: Sequence[str], settings: AskSettings) -> None:
    """UsageError if calls are to be deferred and cannot be."""
    deferred = models.deferred(names, settings.batch)
    if settings.batch and not deferred:
        raise UsageError(f"no model of this sweep can be asked in batches: {', '.join(names)}")
    if deferred and not any(entry.defers for entry in entries()):
        raise UsageError(f"{deferred[0]}: batches are not installed; ask it live")
