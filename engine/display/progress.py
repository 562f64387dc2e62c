"""Progress on stderr: a live line on a terminal, otherwise plain lines, or JSON for machines."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

from .text import minutes, printable

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

MIN_CALLS = 20
"""Calls that must have ended before a forecast is made from them."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a run stands."""

    total: int = 0
    finished: int = 0
    """Cells with an outcome, including earlier sessions."""
    failed: int = 0
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
    expected: int = 0
    """About how many calls this session asks for in all; 0 if that is not known."""
    elapsed: float = 0.0
    """Seconds since this session began."""
    left: float | None = None
    """Seconds that it will still take, about; None before a rate is known."""

    @property
    def ended(self) -> int:
        """Calls that were answered."""
        return self.new + self.stored + self.shared


async def plain(
    snapshot: Callable[[], Snapshot], clock: "Clock", out: TextIO, speed: float
) -> None:
    """Lines now and then, and when a model begins or ends to wait, or waits longer."""
    seconds, waits = 0.0, tuple[str, ...]()
    while True:
        await asyncio.sleep(LOOK_EVERY * speed)
        seconds, now = seconds + LOOK_EVERY, clock.timed(snapshot())
        due = seconds >= PLAIN_EVERY and not (waits and not now.in_flight)
        if due or now.waits != waits:
            seconds, waits = 0.0, now.waits
            _write(out, now, *now.models)


@asynccontextmanager
async def progress(
    snapshot: Callable[[], Snapshot],
    out: TextIO,
    speed: float,
    show: Callable[..., Coroutine[Any, Any, None]] = plain,
) -> AsyncIterator[None]:
    """Show a run's snapshots while the body runs, and its last one after it. speed: how many
    seconds of the loop's clock pass in a real one; show: called as `plain` is."""
    clock = Clock()
    showing = asyncio.create_task(show(snapshot, clock, out, speed))
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait([showing])
        _write(out, replace(clock.timed(snapshot()), expected=0, left=None))


class Clock:
    """Elapsed time, and the time left at the rate at which calls are answered."""

    def __init__(self) -> None:
        self.start = asyncio.get_running_loop().time()
        self._marks: list[tuple[float, int]] = []

    def timed(self, now: Snapshot) -> Snapshot:
        """The snapshot with the time elapsed and left. Work that does not know how many calls it
        asks for is measured by its cells."""
        at = asyncio.get_running_loop().time() - self.start
        ended, total = (now.ended, now.expected) if now.expected else (now.finished, now.total)
        self._marks = [mark for mark in self._marks if at - mark[0] <= RATE_OVER]
        self._marks.append((at, ended))
        then, before = self._marks[0]
        if ended == before:  # Nothing was answered lately: the rate of the whole session.
            then, before = 0.0, 0
        is_known = ended > before and at - then >= 1 and not (now.expected and ended < MIN_CALLS)
        left = max(total - ended, 0) * (at - then) / (ended - before) if is_known else None
        return replace(now, elapsed=at, left=left)


def _write(out: TextIO, now: Snapshot, *models: str) -> None:
    """Two lines of figures, and under them a line for each model; one object in JSON logs."""
    lines = figures(now)
    if as_json():
        counts = {name: value for name, value in asdict(now).items() if name != "models"}
        written = [log_line(" · ".join(lines), **counts, models=models)]
    else:
        written = [printable(f"· {line}") for line in (*lines, *(f"  {line}" for line in models))]
    print(*written, sep="\n", file=out, flush=True)


def calls_of(now: Snapshot) -> str:
    """`619 of about 1,656`."""
    return f"{now.calls:,}" + (f" of about {now.expected:,}" if now.expected > now.calls else "")


def figures(now: Snapshot) -> tuple[str, str]:
    """Two lines: the cells and their calls; failures, dollars and times."""
    ways = (now.new, "sent"), (now.stored, "from cache"), (now.shared, "reused")
    answered = ", ".join(f"{count:,} {how}" for count, how in ways if count or how == "sent")
    noun = "call" if max(now.expected, now.calls) == 1 else "calls"
    cells = f"{now.finished:,} of {now.total:,} cells · {calls_of(now)} {noun}"
    parts = (
        f"{now.failed:,} failed",
        f"{now.refused:,} refused" if now.refused else "",
        now.spend,
        f"{minutes(now.elapsed)} elapsed",
        f"about {minutes(now.left)} left" if now.left is not None else "",
    )
    return cells + (f" ({answered})" if now.calls else ""), " · ".join(filter(None, parts))
