"""How a run goes on just now, for who looks on from another process: `progress.json`."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from oversight.engine.errors import RunFolderError
from oversight.engine.system.files import replace_file
from oversight.engine.throughput import LimitStatistics

PROGRESS_FILE = "progress.json"

EVERY = 1.0
"""Seconds between two notes."""


@asynccontextmanager
async def progress_kept(
    folder: Path, tell: Callable[[], Mapping[str, Any]], speed: float = 1.0
) -> AsyncIterator[None]:
    """Note how it goes once a second while the body runs.

    tell: what there is to tell. speed: seconds of the loop's clock in a real one. A note that
    cannot be written is left out: nothing is lost with it, and the ledger stops a run whose folder
    takes no more.
    """
    noting = asyncio.create_task(_note_on(folder, tell, speed))
    try:
        yield
    finally:
        noting.cancel()
        await asyncio.wait([noting])
        _note(folder, {**tell(), "models": {}})


async def _note_on(folder: Path, tell: Callable[[], Mapping[str, Any]], speed: float) -> None:
    while True:
        _note(folder, tell())
        await asyncio.sleep(EVERY * speed)


def _note(folder: Path, told: Mapping[str, Any]) -> None:
    try:
        replace_file(folder / PROGRESS_FILE, [orjson.dumps(told)], durable=False)
    except RunFolderError:
        return


def told_of(statistics: LimitStatistics) -> dict[str, Any]:
    """One model's rate and what holds it back, as it is noted."""
    return {
        "per_second": statistics.per_second,
        "in_flight": statistics.in_flight,
        "waiting": statistics.waiting,
        "width": None if math.isinf(statistics.width) else statistics.width,
        "told": str(statistics),
        "binds": str(statistics.binding or ""),
        "fault": statistics.fault,
    }


def read_progress(folder: Path) -> dict[str, Any]:
    """The last note; empty where there is none that can be read."""
    try:
        told = orjson.loads((folder / PROGRESS_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return told if isinstance(told, dict) else {}
