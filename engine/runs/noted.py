"""How much a run folder knows its store to hold, noted as the run goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from cache.errors import StoreGone
from cache.store import Store
from engine.errors import RunFolderError, StoreStopped
from engine.limits.latch import Latch
from engine.runs.runfolder import RunFolder

NOTE_EVERY = 10.0
"""Seconds."""


@asynccontextmanager
async def noted(
    folder: RunFolder, held: Callable[[], int], store: Store, latch: Latch
) -> AsyncIterator[None]:
    """Note how many replies are held, and where, while the body runs, and once more after it.

    A folder that cannot be written pulls the latch, and so does a store that is gone.
    """

    def note() -> None:
        try:
            store.check()
            folder.note(replies=held(), store_id=store.id)
        except (RunFolderError, StoreGone) as fault:
            latch.pull(StoreStopped(str(fault)))

    async def now_and_then() -> None:
        while True:
            note()
            await asyncio.sleep(NOTE_EVERY)

    noting = asyncio.create_task(now_and_then())
    try:
        yield
    finally:
        noting.cancel()
        await asyncio.wait([noting])
        note()
