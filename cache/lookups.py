"""Threads that read from a store whose reads wait, many keys to a round trip."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .errors import DamagedEntry
from .store import Acquired, Reader, Store

MAX_KEYS = 512
"""Maximum number of keys in one round trip."""
MAX_THREADS = 4


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is known of one key."""

    value: bytes | None = None
    leased: bool = False
    """Whether there is no value, and this process is to pay for it."""
    holder: str = ""
    """Who is paying for it now."""


class GroupedLookups:
    """Reads in groups: keys asked for during a round trip go with the next one.

    The counterpart of `Writer`; belongs to one event loop. Threads start with the first keys, and
    are as many as the store has use for.
    """

    def __init__(self, store: Reader, *, acquires: bool = False) -> None:
        """acquires: whether what is not there is to be paid for by one process alone."""
        self._store = store
        self._acquires = acquires and isinstance(store, Store) and store.claims
        self._threads = ThreadPoolExecutor(MAX_THREADS, "store-lookups")
        self._waiting: list[tuple[str, asyncio.Future[Lookup]]] = []
        self._reading: set[asyncio.Task[None]] = set()
        self._gathering = False

    async def get(self, key: str) -> Lookup:
        """DamagedEntry, StoreError."""
        found: asyncio.Future[Lookup] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, found))
        most = self._store.sessions if isinstance(self._store, Store) else 1
        if not self._gathering and len(self._reading) < most:
            self._gathering = True
            self._reading.add(asyncio.create_task(self._read()))
        return await found

    async def close(self) -> None:
        """Finish the lookups that are under way, and end the threads. Safe to call twice."""
        while self._reading:
            await asyncio.wait(self._reading)
        self._threads.shutdown(wait=False)

    async def _read(self) -> None:
        """Round trips until no caller waits."""
        loop = asyncio.get_running_loop()
        while True:
            # Keys asked for in this turn of the loop join the first round trip.
            await asyncio.sleep(0)
            self._gathering = False
            group, self._waiting = self._waiting[:MAX_KEYS], self._waiting[MAX_KEYS:]
            if not group:
                # At once: whoever asks next must find that nobody reads any more.
                if (task := asyncio.current_task()) is not None:
                    self._reading.discard(task)
                return
            keys = list({key for key, _ in group})
            fault, known = None, Acquired({}, (), {})
            try:
                known = await loop.run_in_executor(self._threads, self._look_up, keys)
            except Exception as exc:
                # Raised in every waiting caller: none may wait for ever.
                fault = exc
            for key, found in group:
                if found.done():
                    if key in known.leased and isinstance(self._store, Store):
                        # Nobody waits for the reply any more.
                        loop.run_in_executor(self._threads, self._store.free, [key])
                    continue
                value = fault or known.values.get(key)
                if isinstance(value, Exception):
                    found.set_exception(value)
                else:
                    holder = known.holders.get(key, "")
                    found.set_result(Lookup(value, key in known.leased, holder))

    def _look_up(self, keys: list[str]) -> Acquired:
        if self._acquires and isinstance(self._store, Store):
            return self._store.acquire(keys)
        values: dict[str, bytes | DamagedEntry] = self._store.get_many(keys)
        return Acquired(values, (), {})
