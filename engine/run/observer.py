"""Observers of a run, and notes of its state and of the number of replies in its store.

Other processes read the state. A later start compares the number, and so detects lost replies."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import msgspec
import orjson

from ...cache.errors import StoreError
from ...cache.store import Store
from ..display.progress import Clock, Snapshot, progress
from ..display.text import counted
from ..errors import RunFolderError, StoreFailed
from ..stop import StopToken
from .record.database import RunDatabase
from .record.tables import RunTables
from .record.values import RecordedCell
from .run_folder import RunFolder


class Observer:
    """Watches a run. The methods do nothing; override the ones of interest.

    Observers are handed to `execute` and are called on the event loop's thread, in their order.
    They change no outcome. An exception that one raises ends the run, which resumes; one that is to
    end a run in good order holds its stop token (`LoadedSweep.stop_token`) and sets that."""

    def watching(self, snapshot: Callable[[], Snapshot]) -> AbstractAsyncContextManager[None]:
        """Entered before the first cell, and exited after the last one, at a stop, or on an error.
        snapshot: returns the state of the run (cells, calls, dollars); cheap enough for several
        calls per second. Start a task on entry for periodic work, and end it on exit."""
        return nullcontext()

    def completed(self, cells: Sequence[RecordedCell]) -> None:
        """Called with outcomes once they are durable in the run folder, some hundreds at a time, in
        order of completion. The run waits for it, so move slow work elsewhere."""


class ProgressDisplay(Observer):
    """Shows where a run stands: a live line on a terminal, plain lines elsewhere."""

    def __init__(self, stream: TextIO | None = None, speed: float = 1.0) -> None:
        """stream: None for stderr. speed: see `progress`."""
        self._stream = stream
        self._speed = speed

    def watching(self, snapshot: Callable[[], Snapshot]) -> AbstractAsyncContextManager[None]:
        stream = self._stream or sys.stderr
        if not stream.isatty():
            return progress(snapshot, stream, self._speed)
        # With rich, which most runs on servers do without.
        from ..display.console import live_progress

        return live_progress(snapshot, stream, self._speed)


WRITE_EVERY = 1.0
"""Seconds."""


class ProgressNotes(Observer):
    """Writes the state of a run down, once a second.

    A write that fails is skipped: nothing is lost, and the ledger stops a run whose folder cannot
    be written."""

    def __init__(self, database: RunDatabase) -> None:
        self._database = database

    @asynccontextmanager
    async def watching(self, snapshot: Callable[[], Snapshot]) -> AsyncIterator[None]:
        over = asyncio.Event()
        noting = asyncio.create_task(self._note_until(over, snapshot))
        try:
            yield
        finally:
            # Not cancelled: its thread would go on, and could write after the last note.
            over.set()
            await asyncio.wait([noting])
            self._note(replace(snapshot(), models=()))

    async def _note_until(self, over: asyncio.Event, snapshot: Callable[[], Snapshot]) -> None:
        clock = Clock()
        while not over.is_set():
            # A group of cells may be being written.
            await asyncio.to_thread(self._note, clock.timed(snapshot()))
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_EVERY):
                    await over.wait()

    def _note(self, now: Snapshot) -> None:
        with suppress(RunFolderError):
            self._database.tell("progress", orjson.dumps(now))


_STATE = msgspec.json.Decoder(Snapshot)


def read_progress(folder: Path) -> Snapshot:
    """Return the last state written; an empty one if none can be read."""
    try:
        with RunTables.open(folder) as tables:
            return _STATE.decode(tables.told("progress") or b"{}")
    except (RunFolderError, msgspec.MsgspecError):
        return Snapshot()


NOTE_EVERY = 10.0
"""Seconds."""


@asynccontextmanager
async def store_watermark(
    folder: RunFolder,
    added: Callable[[], int],
    store: Store,
    stop_token: StopToken,
    *,
    exact: bool = True,
) -> AsyncIterator[None]:
    """Record the reply count and the store's id while the body runs, and once more after it. added:
    how many replies this session has stored. exact: False if two workers may have stored one reply
    and counted it twice; then the store's own count holds. A folder that cannot be written stops
    the run, as does a store that is gone. A thread asks the store: a database may not answer."""

    async def note() -> None:
        try:
            await asyncio.to_thread(store.check)
            replies = count + added()
            if not exact:
                replies = min(replies, await asyncio.to_thread(len, store))
            folder.change(replies=replies, store_id=store.id or folder.manifest.store_id)
        except (RunFolderError, StoreError) as fault:
            stop_token.stop(StoreFailed(str(fault)))

    async def lost() -> None:
        """Stop where the store holds fewer replies than were there and were added."""
        try:
            missing = count + added() - await asyncio.to_thread(len, store)
        except StoreError as fault:
            stop_token.stop(StoreFailed(str(fault)))
            return
        if missing > 0:
            replies = counted(missing, "reply", "replies")
            stop_token.stop(
                StoreFailed(
                    f"the store has lost {replies} while this run used it: bring them back with "
                    "oversight cache import BACKUP, or pay for them again with "
                    "--allow-missing-replies"
                )
            )

    async def periodically() -> None:
        while True:
            await note()
            await asyncio.sleep(NOTE_EVERY)

    count = await asyncio.to_thread(len, store)
    try:
        async with stop_token.supervising(periodically()):
            yield
    finally:
        if not isinstance(stop_token.halt, StoreFailed):
            await note()
            if exact:
                await lost()
