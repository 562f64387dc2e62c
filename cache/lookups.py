"""The one thread that reads from a store whose reads wait, many keys to a round trip."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from .errors import DamagedEntry
from .store import Reader

MAX_KEYS = 512
"""Maximum number of keys in one round trip."""


class GroupedLookups:
    """Reads in groups: keys asked for during a round trip go with the next one.

    The counterpart of `Writer`; belongs to one event loop. The thread starts with the first key.
    """

    def __init__(self, store: Reader) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "store-lookups")
        self._waiting: list[tuple[str, asyncio.Future[bytes | None]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def get(self, key: str) -> bytes | None:
        """As `Reader.get`. DamagedEntry, StoreError."""
        found: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, found))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        return await found

    async def close(self) -> None:
        """Finish the lookups that are under way, and end the thread. Safe to call twice."""
        if self._reading is not None:
            await asyncio.wait([self._reading])
        self._thread.shutdown(wait=False)

    async def _read(self) -> None:
        """Round trips until no caller waits."""
        loop = asyncio.get_running_loop()
        # Keys asked for in this turn of the loop join the first round trip.
        await asyncio.sleep(0)
        while self._waiting:
            group, self._waiting = self._waiting[:MAX_KEYS], self._waiting[MAX_KEYS:]
            keys = list({key for key, _ in group})
            values: dict[str, bytes | DamagedEntry] = {}
            fault: Exception | None = None
            try:
                values = await loop.run_in_executor(self._thread, self._store.get_many, keys)
            except Exception as exc:
                # Raised in every waiting caller: none may wait for ever.
                fault = exc
            for key, found in group:
                if found.done():
                    continue
                value = fault or values.get(key)
                if isinstance(value, Exception):
                    found.set_exception(value)
                else:
                    found.set_result(value)
        self._reading = None
