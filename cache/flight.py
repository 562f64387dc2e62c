"""Calls on the wire, those who wait for them, and who hears a reply while it is being saved."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from .errors import Superseded
from .reply import Reply


class Heard:
    """The replies that one piece of work has been given before they were durable."""

    def __init__(self) -> None:
        self._flights: set[Flight] = set()

    def add(self, flight: "Flight") -> None:
        self._flights.add(flight)

    async def saved(self) -> None:
        """Return once all of them are durable. StoreFull, StoreError: one could not be saved;
        Superseded."""
        for flight in [*self._flights]:
            task = flight.task
            stored = task.result() if task.done() else await flight.landing()
            if stored is not flight.reply:
                raise Superseded(stored.call)
            self._flights.discard(flight)


HEARD: ContextVar[Heard | None] = ContextVar("heard", default=None)
"""Replies that the work that asks now was given early; None: it gets durable replies alone."""


@contextmanager
def heard_early() -> Generator[Heard]:
    """Within this, and in tasks that it starts, a cache over a shared store gives a reply while it
    is being saved. The next call is looked up meanwhile, and sent when all before it is durable:
    one waits for the store once a call, and not twice. What is made of the replies counts when
    `Heard.saved` has returned."""
    heard = Heard()
    token = HEARD.set(heard)
    try:
        yield heard
    finally:
        HEARD.reset(token)


class Flight:
    """One call on the wire, and the callers who wait for it. `asyncio.shield` would make two
    callbacks for each of them."""

    __slots__ = ("_hearing", "_loop", "_waiting", "reply", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Reply]") -> None:
        self.task = task
        self.reply: Reply | None = None
        """The reply that is being saved."""
        self._loop = loop
        self._waiting: list[asyncio.Future[Reply]] = []
        self._hearing: list[asyncio.Future[Reply]] = []

    def landing(self) -> "asyncio.Future[Reply]":
        """The reply, once it is durable; cancelling the wait for it does not cancel the flight."""
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        return waiting

    async def hear(self, heard: Heard) -> Reply:
        """The reply, once it is there."""
        reply = self.reply
        if reply is None:
            hearing: asyncio.Future[Reply] = self._loop.create_future()
            self._hearing.append(hearing)
            reply = await hearing
        if reply is self.reply:
            heard.add(self)
        return reply

    def tell(self, reply: Reply) -> None:
        self.reply = reply
        for hearing in self._hearing:
            if not hearing.done():
                hearing.set_result(reply)

    def land(self, task: "asyncio.Task[Reply]") -> None:
        # Asked for even if nobody waits any more: nothing else retrieves the exception.
        fault = None if task.cancelled() else task.exception()
        for waiting in (*self._waiting, *self._hearing):
            if waiting.done():
                continue
            if task.cancelled():
                waiting.cancel()
            elif fault is not None:
                waiting.set_exception(fault)
            else:
                waiting.set_result(task.result())
