"""Records the store's reply count in the manifest: a later start can detect lost replies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ...cache.errors import StoreGone
from ...cache.store import Store
from ..errors import RunFolderError, StoreFailed
from ..stop import StopToken
from .run_folder import RunFolder

NOTE_EVERY = 10.0
"""Seconds."""


@asynccontextmanager
async def store_watermark(
    folder: RunFolder, held: Callable[[], int], store: Store, stop_token: StopToken
) -> AsyncIterator[None]:
    """Record the reply count and the store's id while the body runs, and once more after it.

    held: returns the count. A folder that cannot be written stops the run, as does a store that is
    gone.
    """

    def note() -> None:
        try:
            store.check()
            folder.note(replies=held(), store_id=store.id)
        except (RunFolderError, StoreGone) as fault:
            stop_token.stop(StoreFailed(str(fault)))

    async def periodically() -> None:
        while True:
            note()
            await asyncio.sleep(NOTE_EVERY)

    recording = asyncio.create_task(periodically())
    try:
        yield
    finally:
        recording.cancel()
        await asyncio.wait([recording])
        note()
