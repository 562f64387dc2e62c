"""Pages for raters while something runs: their links, their desk, and the end of the work."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import FrameType

from ....display.progress import Snapshot
from ....errors import UsageError
from ....models.router import Models
from ....run.observer import Observer
from ....views.cli.output import say
from ..desk import Desk, DeskSettings
from ..journal import PERSONS, RaterJournal
from ..pages.rating import RaterServer
from ..panel import seated_raters

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals by which the owner of the pages ends them."""


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
                say("all is answered and saved; the pages stay up until Ctrl-C")
                await _ended()


async def _ended() -> None:
    """Return at the first signal that is to end the pages; there is nothing left to stop."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def heard(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(ended.set)

    asked = [each for each in ENDS if signal.getsignal(each) is not signal.SIG_IGN]
    before = [(number, signal.signal(number, heard)) for number in asked]
    try:
        await ended.wait()
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
