"""Orders: which piece of work comes next, given how those before it ended.

Lanes ask one order side by side (see `run_lanes`). An order may be put around another one.

    Plain      one piece after the other
    Waves      all of it again and again, as long as some of it waits for replies that come in their
               own time: batches, and people who answer beside them
    Canaries   a few cells of each row, until one of them has succeeded; and no cell of a row whose
               first cells all failed for one cause
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

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


Missing: TypeAlias = Callable[[], Iterator[Work]]
"""Yields the work that has no result yet, anew each time it is called."""
