"""People in the seats of a sweep: their desk, as the sessions of a run see it, and its pages.

A call does not say of which row and world it is, because nothing that it holds may differ between
worlds unless what its reader may know differs. So the cell that asks says it, beside the call and
before it.
"""

import asyncio
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path
from types import FrameType

from ....cache.call import Ask, Call
from ....cache.reply import Reply
from ...display.progress import Snapshot
from ...errors import UsageError
from ...models.router import Models
from ...providers.simulated import simulation
from ...run.batching import AnsweredLater
from ...run.dry_run import Walker, stand_ins
from ...run.loaded_sweep import LoadedSweep
from ...run.observer import Observer
from ...sweep.sweep import Cell
from ...views.cli.output import say
from .desk import Desk, DeskSettings
from .journal import PERSONS, RaterJournal
from .panel import PERSON, seated_raters
from .pool import TaskPool
from .rating import RaterServer
from .task import Moment, PersonTask

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals by which the owner of the pages ends them."""


class SeatedPersons(AnsweredLater):
    """The people of a sweep, who answer at a desk."""

    def __init__(self, desk: Desk, panels: Iterable[str]) -> None:
        self._desk = desk
        self.models = tuple(f"{PERSON}{panel}" for panel in panels)

    def ask_of(self, cell: Cell, ask: Ask) -> Ask:
        return expecting(cell, self._desk.pool, ask)

    def has_answered(self, call: Call) -> bool:
        return self._desk.put(call)

    @property
    def answers(self) -> int:
        return len(self._desk.history.settled)

    @property
    def open(self) -> int:
        return len(self._desk.pool.waiting)

    async def news(self, most: float) -> None:
        await self._desk.news(most)


def expecting(cell: Cell, pool: TaskPool, ask: Ask) -> Ask:
    """The `Ask` of one cell: persons' tasks are expected in the pool before they come."""
    row, world = cell.row.address[:12], f"{cell.problem.values[cell.side]:+g}"

    async def expect_and_ask(call: Call) -> Reply:
        if call.model.startswith(PERSON):
            pool.expect(call.address, row, world)
        return await ask(call)

    return expect_and_ask


async def conversations(loaded: LoadedSweep) -> Counter[str]:
    """How many conversations about its first problem each panel of a sweep has, found out with
    simulated replies: nobody may have two. None where no simulation is registered."""
    if simulation() is None:
        return Counter()
    found: dict[str, list[list[Moment]]] = defaultdict(list)

    def see(call: Call, reply: Reply) -> None:
        if call.model.startswith(PERSON):
            task, had = PersonTask(call), found[call.model]
            goes_on = (each for each in had if all(map(task.continues, each)))
            if (its := next(goes_on, None)) is None:
                had.append(its := [])
            its.append(task.moment)

    answering = stand_ins(loaded.sweep, loaded.models.simulated)
    await Walker(answering.reply, see).walk(loaded.sweep.cells_of(0))
    return Counter({panel: len(had) for panel, had in found.items()})


class RaterPages(Observer):
    """Serves a desk as long as a run is watched, and then until its owner ends it: whoever looks
    again after the last answer reads that all is saved."""

    def __init__(self, desk: Desk, host: str, port: int, url: str = "") -> None:
        """url: as `RaterServer` has it."""
        self.desk = desk
        self._server = RaterServer(desk, host, url)
        self._port = port

    def watching(self, snapshot: Callable[[], Snapshot]) -> AbstractAsyncContextManager[None]:
        return self.open()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve while the body runs. UsageError where the port is taken."""
        async with AsyncExitStack() as stack:
            try:
                root = await stack.enter_async_context(self._server.serving(self._port))
            except OSError as taken:
                host = self._server.access.host
                raise UsageError(
                    f"--port {self._port} of {host}: {taken.strerror or taken}; "
                    "take another, or 0 for any"
                ) from taken
            for rater, link in self._server.links(root):
                say(f"{rater.name}  {link}")
            say("send each link to one person; whoever opens it answers in that rater's name")
            yield
            if not self.desk.stopped and self._server.visited:
                self.desk.finish()
                with _asked_to_end() as ended:
                    # A signal from just before is heard as a stop of the run.
                    self.desk.stop_token.listen(ended.set)
                    say("all is answered and saved; the pages stay up until Ctrl-C")
                    await ended.wait()


@contextmanager
def _asked_to_end() -> Iterator[asyncio.Event]:
    """What the first signal sets that is to end the pages; there is nothing left to stop."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def heard(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(ended.set)

    asked = [each for each in ENDS if signal.getsignal(each) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, heard)) for number in asked]
    try:
        yield ended
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def seated_desk(
    models: Models, run: Path, panels: Iterable[str], raters: int, settings: DeskSettings
) -> Desk:
    """A desk for so many raters a panel, who answer for `person/NAME` from now on.

    run: its folder, of which this process holds `persons`.
    """
    journal, asked = RaterJournal(run), set(panels)
    seated = [each for each in seated_raters(run / PERSONS, asked, raters) if each.panel in asked]
    desk = Desk(seated, journal, models.stop_token, settings)
    models.answered_by("person", desk)
    return desk
