"""The current state of a run, in its database, for other processes to read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from ..display.progress import Snapshot
from ..errors import RunFolderError
from .observer import Observer
from .record.database import RunDatabase
from .record.tables import RunTables

WRITE_EVERY = 1.0
"""Seconds."""


class ProgressNotes(Observer):
    """Writes the state of a run down, once a second.

    A write that fails is skipped: nothing is lost, and the ledger stops a run whose folder cannot
    be written.
    """

    def __init__(self, database: RunDatabase) -> None:
        self._database = database

    @asynccontextmanager
    async def watching(self, snapshot: Callable[[], Snapshot]) -> AsyncIterator[None]:
        noting = asyncio.create_task(self._note_on(snapshot))
        try:
            yield
        finally:
            noting.cancel()
            await asyncio.wait([noting])
            self._note(replace(snapshot(), models=()))

    async def _note_on(self, snapshot: Callable[[], Snapshot]) -> None:
        while True:
            # A group of cells may be being written.
            await asyncio.to_thread(self._note, snapshot())
            await asyncio.sleep(WRITE_EVERY)

    def _note(self, now: Snapshot) -> None:
        try:
            self._database.tell("progress", orjson.dumps(now))
        except RunFolderError:
            return


def read_progress(folder: Path) -> dict[str, Any]:
    """The last state written; empty if there is none that can be read."""
    try:
        with RunTables.open(folder) as tables:
            told = orjson.loads(tables.told("progress") or b"{}")
    except (RunFolderError, orjson.JSONDecodeError):
        return {}
    return told if isinstance(told, dict) else {}
