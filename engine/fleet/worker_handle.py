"""The fleet's handle on one worker: the one seam between processes."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ..errors import EngineError
from .messages import Acknowledgement, Orders, WorkerReport, WorkerSetup


class WorkerLost(EngineError):
    """A worker is dead or unreachable. Its work goes to another."""

    slug = "WorkerLost"


class WorkerHandle(ABC):
    """Every method but `kill` may raise WorkerLost, or what the worker itself raised.

    Only the fleet calls. At most one `report` is awaited at a time; orders may overtake it.
    """

    @abstractmethod
    async def open(self, setup: WorkerSetup) -> None:
        """Get the worker ready. UsageError where it cannot be: other code, a missing key."""

    @abstractmethod
    async def order(self, orders: Orders) -> Acknowledgement:
        """Returns once the worker has taken the orders."""

    @abstractmethod
    async def report(self, hold: float) -> WorkerReport:
        """What is new: at once if it is urgent, else after `hold` seconds."""

    @abstractmethod
    async def close(self, *, abandon: bool) -> WorkerReport:
        """End the worker; its last report. Calls in flight land, or are abandoned."""

    @abstractmethod
    async def kill(self) -> None:
        """Make sure that the worker is gone. Safe at any time, and twice."""


SpawnWorker: TypeAlias = Callable[[], Awaitable[WorkerHandle]]
"""Starts a worker. WorkerLost if it does not start."""
