"""The threads that write to a store, many entries to a commit; one, unless the store is far."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from .errors import StoreError
from .store import Store

MAX_COMMIT_ENTRIES = 1024
"""Maximum number of entries in one commit."""

GATHER_SECONDS = 0.002
"""Seconds that a commit waits for more entries. A reply takes a hundred times as long; and a
commit costs as much as writing ten entries, and two changes of thread."""

_Waiting: TypeAlias = tuple[str, Callable[[], bytes], asyncio.Future[bytes | None]]
"""(key, what makes the value, what is told once it is durable)."""
_Landed: TypeAlias = tuple[asyncio.Future[bytes | None], BaseException | bytes | None]
MAX_THREADS = 4


class Writer:
    """Group commit: entries that arrive while a commit gathers, or while another runs, go together.

    Belongs to one event loop. A commit costs about the same for one entry and for a hundred, so
    the busier the writer, the cheaper an entry. The thread starts with the first entry.
    """

    def __init__(self, store: Store, *, replaces: bool = False) -> None:
        """replaces: whether an entry replaces one that is stored; if not, the stored one stays."""
        self._store = store
        self._replaces = replaces
        self._threads = ThreadPoolExecutor(MAX_THREADS if store.claims else 1, "store-writer")
        self._waiting: list[_Waiting] = []
        self._freeing: list[str] = []
        """Keys whose leases go with the next commit."""
        self._writing: set[asyncio.Task[None]] = set()
        self._gathering = False
        self._wrote = False
        self._closed = False
        self.failed = 0
        """Entries that could not be stored, whether anybody still waits for them or not."""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def put(self, key: str, pack: Callable[[], bytes], leased: bool = False) -> bytes | None:
        """Returns once the entry is durable: None, or the value that was stored first and stays.

        StoreFull, StoreError: nothing of its commit is kept.
        pack: makes the value; called on the writer's thread, where compressing delays nobody.
        leased: whether the key is leased to this process; the lease ends with the commit.
        Cancelling only stops the wait: an entry that was queued is written all the same.
        """
        if self._closed:
            self.failed += 1
            raise StoreError("the writer is closed: a reply came after the last commit")
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        durable: asyncio.Future[bytes | None] = loop.create_future()
        self._waiting.append((key, pack, durable))
        if leased:
            self._freeing.append(key)
        if not self._gathering:
            self._start()
        return await durable

    def free(self, key: str) -> None:
        """Give back a lease without an entry, some time after this returns."""
        self._freeing.append(key)
        self._start()

    def _start(self) -> None:
        if not self._gathering and len(self._writing) < self._store.sessions:
            self._gathering = True
            writing = asyncio.create_task(self._write())
            self._writing.add(writing)
            # One that is cancelled cannot take itself out, and `close` would wait for it for ever.
            writing.add_done_callback(self._writing.discard)

    async def put_at_once(
        self, key: str, pack: Callable[[], bytes], leased: bool = False
    ) -> bytes | None:
        """`put` in this thread, for a store that never waits for a disk."""
        return self._keep([(key, pack())], []).get(key)

    async def close(self) -> None:
        """Write what is queued and end the thread. Safe to call twice."""
        self._closed = True
        while self._writing or self._waiting or self._freeing:
            if not self._writing:
                # The task that was to write these was cancelled, as all are when a loop is closed.
                self._gathering = False
                self._start()
            # Not awaited themselves: cancelling this wait must not cancel the writing.
            await asyncio.wait(self._writing)
        if self._wrote:
            self._wrote = False
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, self._store.close_thread)
        self._threads.shutdown(wait=False)

    async def _write(self) -> None:
        """Commits until no caller waits."""
        self._wrote = True
        loop = asyncio.get_running_loop()
        while True:
            if self._waiting or self._freeing:
                await asyncio.sleep(0 if self._closed else GATHER_SECONDS)
            self._gathering = False
            batch = self._waiting[:MAX_COMMIT_ENTRIES]
            del self._waiting[:MAX_COMMIT_ENTRIES]
            queued = {key for key, _, _ in self._waiting}
            freed = [key for key in self._freeing if key not in queued]
            self._freeing = [key for key in self._freeing if key in queued]
            if not batch and not freed:
                # At once: whoever puts next must find that nobody writes any more.
                if (task := asyncio.current_task()) is not None:
                    self._writing.discard(task)
                return
            landed = await loop.run_in_executor(self._threads, self._commit, batch, freed)
            self.failed += sum(isinstance(what, BaseException) for _, what in landed)
            _acknowledge(landed)

    def _commit(self, batch: list[_Waiting], freed: list[str]) -> list[_Landed]:
        """Store what can be packed, and give back leases; what became of each entry."""
        entries: list[tuple[str, bytes]] = []
        landed: list[_Landed] = []
        waiting: list[tuple[str, asyncio.Future[bytes | None]]] = []
        for key, pack, durable in batch:
            try:
                entries.append((key, pack()))
                waiting.append((key, durable))
            except OSError as exc:
                landed.append((durable, StoreError(f"a reply cannot be stored: {exc}")))
            except BaseException as exc:
                # One that cannot be packed must not take its paid neighbours down with it.
                landed.append((durable, exc))
        older: dict[str, bytes] = {}
        try:
            older = self._keep(entries, freed)
        except BaseException as exc:
            # Raised in every waiting caller, bugs too: none may wait for ever.
            return landed + [(durable, exc) for _, durable in waiting]
        return landed + [(durable, older.get(key)) for key, durable in waiting]

    def _keep(self, entries: list[tuple[str, bytes]], freed: list[str]) -> dict[str, bytes]:
        if entries and not self._replaces:
            # Stores that know of no leases need not know of their end.
            return (
                self._store.keep_many(entries, freed) if freed else self._store.keep_many(entries)
            )
        if entries:
            self._store.put_many(entries)
        if freed:
            self._store.free(freed)
        return {}


def _acknowledge(landed: list[_Landed]) -> None:
    for durable, what in landed:
        if durable.done():
            continue
        if isinstance(what, BaseException):
            durable.set_exception(what)
        else:
            durable.set_result(what)
