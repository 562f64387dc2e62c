"""One worker, as the fleet holds it: the one seam between processes."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from oversight.engine.errors import EngineError
from oversight.engine.fleet.messages import Acknowledgement, Orders, WorkerReport, WorkerSetup


class WorkerLost(EngineError):
    """A worker is dead, or cannot be reached. Its work goes to another."""

    slug = "WorkerLost"


class WorkerHandle(ABC):
    """Anything but `lose` may raise WorkerLost, or what the worker itself raised.

    The fleet calls; a worker never does. At most one `report` is awaited at a time; orders may
    overtake it.
    """

    @abstractmethod
    async def open(self, opening: WorkerSetup) -> None:
        """Make ready to work. UsageError where the worker cannot: another code, a missing key."""

    @abstractmethod
    async def order(self, orders: Orders) -> Acknowledgement:
        """Returns once the orders are taken."""

    @abstractmethod
    async def report(self, hold: float) -> WorkerReport:
        """What is new: at once if it is urgent, else after `hold` seconds."""

    @abstractmethod
    async def close(self, *, abandon: bool) -> WorkerReport:
        """Let what is in flight land, or abandon it; the last report, and the end of the worker."""

    @abstractmethod
    async def lose(self) -> None:
        """Make sure that the worker is gone. Safe to call at any time, and twice."""


SpawnWorker: TypeAlias = Callable[[], Awaitable[WorkerHandle]]
"""Starts a worker. WorkerLost if it does not start."""
