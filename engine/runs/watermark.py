"""How much a run folder knows its store to hold, noted as the run goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from oversight.cache.errors import StoreGone
from oversight.cache.store import Store
from oversight.engine.errors import RunFolderError, StoreFailed
from oversight.engine.runs.run_folder import RunFolder
from oversight.engine.stop import StopToken

NOTE_EVERY = 10.0
"""Seconds."""


@asynccontextmanager
async def store_watermark(
    folder: RunFolder, held: Callable[[], int], store: Store, stop_token: StopToken
) -> AsyncIterator[None]:
    """Note how many replies are held, and where, while the body runs, and once more after it.

    A folder that cannot be written pulls the latch, and so does a store that is gone.
    """

    def note() -> None:
        try:
            store.check()
            folder.note(replies=held(), store_id=store.id)
        except (RunFolderError, StoreGone) as fault:
            stop_token.stop(StoreFailed(str(fault)))

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
