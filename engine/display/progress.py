"""Progress on stderr: a live line on a terminal, otherwise plain lines, or JSON for machines."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

import orjson

from .text import counted, duration, printable

LOG = "OVERSIGHT_LOG"
"""The environment variable that asks for it, by the value `json`."""


def as_json() -> bool:
    """Whether lines on stderr are JSON in this process."""
    return os.environ.get(LOG) == "json"


def log_line(message: str, level: str = "info", **more: object) -> str:
    """One line without its end: `time` (UTC, ISO 8601), `level` (`info`, `warning` or `error`),
    `message`, and what else is known."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    return orjson.dumps({"time": time, "level": level, "message": message, **more}).decode()


class JsonFormatter(logging.Formatter):
    """Log records as such lines, a traceback under `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        more: dict[str, object] = {"logger": record.name}
        if record.exc_info:
            more["exception"] = self.formatException(record.exc_info)
        level = "error" if record.levelno >= logging.ERROR else record.levelname.lower()
        return log_line(record.getMessage(), level, **more)


def log_as_json() -> None:
    """Write all lines on stderr as JSON from now on, including the standard library's log."""
    os.environ[LOG] = "json"
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


PLAIN_EVERY, LOOK_EVERY = 10.0, 1.0
"""Seconds between lines where stderr is not a terminal, as in a log; and between two looks whether
some model begins to wait. While nothing else goes on, only a change is worth a line."""

RATE_OVER = 30.0
"""Seconds over which the rate is measured, from which the time left is estimated."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a run stands."""

    total: int
    finished: int
    """Cells with an outcome, including earlier sessions."""
    failed: int
    calls: int = 0
    """Calls asked for in this session."""
    stored: int = 0
    """Those answered from the store."""
    shared: int = 0
    """Those that joined the same call in flight."""
    new: int = 0
    """Those that a model answered now."""
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
    pending: str = ""
    """Work that goes on even if this process ends, such as at a vendor; empty if none does."""
    waits: tuple[str, ...] = ()
    """Models that wait after failures, each with its fault."""


async def plain(
    snapshot: Callable[[], Snapshot], figures: Callable[[Snapshot], str], out: TextIO, speed: float
) -> None:
    """A line now and then, and when a model begins or ends to wait, or waits longer."""
    seconds, waits = 0.0, tuple[str, ...]()
    while True:
        await asyncio.sleep(LOOK_EVERY * speed)
        seconds, now = seconds + LOOK_EVERY, snapshot()
        due = seconds >= PLAIN_EVERY and not (waits and not now.in_flight)
        if due or now.waits != waits:
            seconds, waits = 0.0, now.waits
            _line(out, now, figures(now), *now.models)


@asynccontextmanager
async def progress(
    snapshot: Callable[[], Snapshot],
    out: TextIO,
    speed: float,
    show: Callable[..., Coroutine[Any, Any, None]] = plain,
) -> AsyncIterator[None]:
    """Show a run's snapshots while the body runs, and its last one after it. speed: how many
    seconds of the loop's clock pass in a real one; show: called as `plain` is."""
    clock = _Clock()
    showing = asyncio.create_task(show(snapshot, partial(_figures, clock=clock), out, speed))
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait([showing])
        now = snapshot()
        _line(out, now, _figures(now, clock=clock, eta=False))


class _Clock:
    """Elapsed time, and the rate at which cells finish."""

    def __init__(self) -> None:
        self.start = asyncio.get_running_loop().time()
        self._marks: list[tuple[float, int]] = []

    @property
    def elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self.start

    def remaining(self, now: Snapshot) -> float | None:
        """Seconds left, or None before a rate is known."""
        at = self.elapsed
        self._marks = [mark for mark in self._marks if at - mark[0] <= RATE_OVER]
        self._marks.append((at, now.finished))
        then, finished = self._marks[0]
        if at - then < 1 or now.finished == finished:
            return None
        return (now.total - now.finished) * (at - then) / (now.finished - finished)


def _line(out: TextIO, now: Snapshot, figures: str, *models: str) -> None:
    """Figures, and under them a line for each model; as one object where logs are JSON."""
    if as_json():
        counts = {name: value for name, value in asdict(now).items() if name != "models"}
        lines = [log_line(figures, **counts, models=models)]
    else:
        lines = [printable(f"· {line}") for line in (figures, *(f"  {line}" for line in models))]
    print(*lines, sep="\n", file=out, flush=True)


def _figures(now: Snapshot, *, clock: _Clock, eta: bool = True) -> str:
    ways = (now.new, "sent"), (now.stored, "from cache"), (now.shared, "reused")
    answered = ", ".join(f"{count:,} {how}" for count, how in ways if count or how == "sent")
    parts = [
        f"{now.finished:,}/{now.total:,} cells",
        counted(now.calls, "call") + (f": {answered}" if now.calls else ""),
        now.spend,
        f"{now.refused:,} refused" if now.refused else "",
        f"{now.failed:,} failed",
    ]
    seconds = clock.remaining(now) if eta else None
    parts.append(f"{duration(seconds)} left" if seconds is not None else duration(clock.elapsed))
    return "  ".join(filter(None, parts))
