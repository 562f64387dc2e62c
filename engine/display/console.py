"""The live display of a run on a terminal.

A slow terminal never holds up the run: output is written without waiting for it."""

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from queue import Queue
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    Group,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from .progress import Clock, Snapshot, as_json, figures, plain, progress
from .text import printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class PrintableConsole(Console):
    """The terminal as a console of rich, on which foreign text is inert wherever it stands."""

    def __init__(self, **options: Any) -> None:
        """options: as of rich.console.Console."""
        super().__init__(highlight=False, emoji=False, **options)
        self.push_render_hook(_Inert())

    def render_str(self, text: str, **options: Any) -> Text:
        # Before rich drops some of them: a model's text is shown whole.
        return super().render_str(printable(text), **options)


class _Inert(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(one) for one in renderables]


@dataclass(frozen=True, slots=True)
class _Printable:
    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.inner, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text), style)


FRAME = 0.125
"""Seconds between frames, whatever the number of calls."""

MIN_BAR = 5
"""Characters below which a bar says nothing."""

LINGER = 1.0
"""Seconds that a finished run waits for its terminal to take the last line."""


@asynccontextmanager
async def live_progress(
    snapshot: Callable[[], Snapshot], terminal: TextIO, speed: float
) -> AsyncIterator[None]:
    """`progress` on a terminal."""
    with _unhurried(terminal) as out:
        async with progress(snapshot, out, speed, plain if as_json() else _live):
            yield


async def _live(snapshot: Callable[[], Snapshot], clock: Clock, out: TextIO, speed: float) -> None:
    writer = out.buffer
    assert isinstance(writer, TerminalWriter)
    # Emoji would be looked up in a module that is loaded in the middle of a run.
    console = Console(file=out, highlight=False, emoji=False, force_jupyter=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            if writer.behind:
                # Frames that nobody sees are left out.
                await asyncio.sleep(FRAME * speed)
                continue
            text, below = figures(now := clock.timed(snapshot()))
            bar = Table.grid(padding=(0, 1))
            # On a narrow terminal the figures need the room more.
            room = min(30, console.width // 6, console.width - len(text) - 1)
            progress = ProgressBar(total=max(now.total, 1), completed=now.finished, width=room)
            bar.add_row(*([progress] if room >= MIN_BAR else []), Text(text))
            models = [Text(below)]
            models += [Text(printable(f"·   {line}"), style="dim") for line in now.models]
            live.update(
                Group(bar, *models, *([Text(printable(now.note))] if now.note else [])),
                refresh=True,
            )
            await asyncio.sleep(FRAME * speed)


@contextmanager
def _unhurried(terminal: TextIO) -> Iterator[TextIO]:
    """The terminal, written to from a thread while the body runs."""
    terminal.flush()
    writer = TerminalWriter(terminal.fileno())
    try:
        yield io.TextIOWrapper(writer, terminal.encoding, "replace", write_through=True)
    finally:
        writer.end(LINGER)


class TerminalWriter(io.BufferedIOBase):
    """Writes to a terminal from a separate thread.

    A terminal that was stopped (Ctrl-S), or that nobody reads, blocks its writer: an event loop
    that wrote to it directly would send no calls either."""

    name = "<terminal>"

    def __init__(self, terminal: int) -> None:
        """terminal: its file descriptor, which stays open."""
        self._terminal = terminal
        self._pieces: Queue[bytes] = Queue()
        # A daemon: a process may end though its terminal never takes the rest.
        threading.Thread(target=self._pass_on, name="terminal", daemon=True).start()

    @property
    def behind(self) -> bool:
        """Whether the terminal has yet to take some bytes."""
        return self._pieces.unfinished_tasks > 0

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def write(self, piece: "ReadableBuffer", /) -> int:
        written = bytes(piece)
        if written:
            self._pieces.put(written)
        return len(written)

    def end(self, seconds: float) -> None:
        """End the thread; wait at most `seconds` for the terminal to take the rest."""
        self._pieces.put(b"")
        with self._pieces.all_tasks_done:
            self._pieces.all_tasks_done.wait_for(lambda: not self.behind, seconds)

    def _pass_on(self) -> None:
        gone = False
        while piece := self._pieces.get():
            while piece and not gone:
                try:
                    piece = piece[os.write(self._terminal, piece) :]
                except OSError:
                    gone = True
            self._pieces.task_done()
        self._pieces.task_done()
