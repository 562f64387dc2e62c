"""Progress on stderr: a live line on a terminal, plain lines now and then elsewhere."""

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass

from rich.console import Console, Group

from .log_lines import as_json, log_line
from .printable import printable
from .quantity import counted, duration
from .terminal_writer import TerminalWriter

FRAME = 0.125
"""Seconds between frames on a terminal, whatever the number of calls."""

MIN_BAR = 5
"""Characters below which a bar says nothing."""

PLAIN_EVERY = 10.0
"""Seconds between lines where stderr is not a terminal, as in a log."""

LINGER = 1.0
"""Seconds that a finished run waits for its terminal to take the last line."""

RATE_OVER = 30.0
"""Seconds over which the rate is measured, from which the time left is estimated."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a run stands."""

    total: int
    finished: int
    """Cells with an outcome, those of earlier sessions included."""
    failed: int
    calls: int = 0
    """Calls asked for in this session."""
    stored: int = 0
    """Those answered from the store."""
    shared: int = 0
    """Those that joined the same call in flight."""
    refused: int = 0
    """Replies in which a model declined."""
    spend: str = ""
    """Dollars, where anything costs any; else empty."""
    models: tuple[str, ...] = ()
    """One line per model with calls waiting: its throughput, and its bottleneck."""
    note: str = ""
    """Why the run is stopping; else empty."""
    in_flight: int = 0
    """Calls on the wire."""
    at_risk: float = 0.0
    """Dollars that those may cost at most."""
    awaited: str = ""
    """Batches that are out, and stay out even if this process ends; else empty."""


def console(quiet: bool = False) -> Console:
    """Stderr: live where it is a terminal, plain lines elsewhere, as in a notebook."""
    return Console(
        # Emoji would be looked up in a module that is loaded in the middle of a run.
        file=sys.stderr,
        highlight=False,
        emoji=False,
        quiet=quiet,
        force_jupyter=False,
    )


@asynccontextmanager
async def progress(
    snapshot: Callable[[], Snapshot], console: Console, speed: float = 1.0
) -> AsyncIterator[None]:
    """Show a run's snapshots while the body runs, and its last one after it.

    speed: how many seconds of the loop's clock pass in a real one.
    """
    clock = _Clock()
    with _unhurried(console) as behind:
        showing = asyncio.create_task(
            _live(snapshot, clock, console, speed, behind)
            if console.is_terminal and not as_json()
            else _plain(snapshot, clock, console, speed)
        )
        try:
            yield
        finally:
            showing.cancel()
            await asyncio.wait([showing])
            now = snapshot()
            _line(console, now, _figures(now, clock, left=False))


@contextmanager
def _unhurried(console: Console) -> Iterator[Callable[[], bool]]:
    """Write to the console's terminal, if it is one, from a thread while the body runs; yields
    whether the terminal lags behind."""
    stream = console.file
    if not stream.isatty():
        yield lambda: False
        return
    stream.flush()
    writer = TerminalWriter(stream.fileno())
    console.file = io.TextIOWrapper(writer, console.encoding, "replace", write_through=True)
    try:
        yield lambda: writer.behind
    finally:
        console.file = stream
        writer.end(LINGER)


class _Clock:
    """Elapsed time, and the rate at which cells finish."""

    def __init__(self) -> None:
        self.start = asyncio.get_running_loop().time()
        self._marks: list[tuple[float, int]] = []

    @property
    def elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self.start

    def left(self, now: Snapshot) -> float | None:
        """Seconds left, or None before there is a rate to estimate them from."""
        at = self.elapsed
        self._marks = [mark for mark in self._marks if at - mark[0] <= RATE_OVER]
        self._marks.append((at, now.finished))
        then, finished = self._marks[0]
        if at - then < 1 or now.finished == finished:
            return None
        return (now.total - now.finished) * (at - then) / (now.finished - finished)


async def _live(
    snapshot: Callable[[], Snapshot],
    clock: _Clock,
    console: Console,
    speed: float,
    behind: Callable[[], bool],
) -> None:
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            if behind():
                # Frames that nobody sees are left out.
                await asyncio.sleep(FRAME * speed)
                continue
            figures = _figures(now := snapshot(), clock, left=True)
            bar = Table.grid(padding=(0, 1))
            # On a narrow terminal the figures need the room more.
            room = min(30, console.width // 6, console.width - len(figures) - len("·   "))
            shown = ProgressBar(total=max(now.total, 1), completed=now.finished, width=room)
            bar.add_row(
                Text("·", style="dim"),
                *([shown] if room >= MIN_BAR else []),
                Text(figures, no_wrap=True, overflow="ellipsis"),
            )
            models = [Text(printable(f"·   {line}"), style="dim") for line in now.models]
            live.update(
                Group(bar, *models, *([Text(printable(now.note))] if now.note else [])),
                refresh=True,
            )
            await asyncio.sleep(FRAME * speed)


async def _plain(
    snapshot: Callable[[], Snapshot], clock: _Clock, console: Console, speed: float
) -> None:
    while True:
        await asyncio.sleep(PLAIN_EVERY * speed)
        now = snapshot()
        _line(console, now, _figures(now, clock, left=True), *now.models)


def _line(console: Console, now: Snapshot, figures: str, *models: str) -> None:
    """Figures, and under them a line for each model; as one object where logs are JSON."""
    if as_json():
        kept = {name: value for name, value in asdict(now).items() if name != "models"}
        lines = [log_line(figures, **kept, models=models)]
    else:
        lines = [printable(f"· {line}") for line in (figures, *(f"  {line}" for line in models))]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _figures(now: Snapshot, clock: _Clock, *, left: bool) -> str:
    reused = ", ".join(
        f"{count:,} {how}"
        for count, how in ((now.stored, "stored"), (now.shared, "shared"))
        if count
    )
    parts = [
        f"{now.finished:,}/{now.total:,} cells",
        counted(now.calls, "call") + (f" ({reused})" if reused else ""),
        now.spend,
        f"{now.refused:,} refused" if now.refused else "",
        f"{now.failed:,} failed",
    ]
    rest = clock.left(now) if left else None
    parts.append(f"{duration(rest)} left" if rest is not None else duration(clock.elapsed))
    return "  ".join(filter(None, parts))
