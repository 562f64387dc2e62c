"""The thread that writes to a store, many entries to a commit."""

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

Kept: TypeAlias = BaseException | bytes | None
"""What became of an entry: None once it is durable, or the value that was stored first and stays,
or the fault for which nothing of its commit is kept: StoreFull, StoreError, or what `pack`
raised."""
_Waiting: TypeAlias = tuple[str, Callable[[], bytes], Callable[[Kept], None]]
"""(key, what makes the value, what is told of it)."""
_Landed: TypeAlias = tuple[Callable[[Kept], None], Kept]


class Writer:
    """Group commit: entries that arrive while a commit gathers, or while another runs, go together.

    Belongs to one event loop. A commit costs about the same for one entry and for a hundred, so
    the busier the writer, the cheaper an entry. The thread starts with the first entry.
    """

    def __init__(self, store: Store, *, replaces: bool = False) -> None:
        """replaces: whether an entry replaces one that is stored; if not, the stored one stays."""
        self._store = store
        self._replaces = replaces
        self._threads = ThreadPoolExecutor(1, "store-writer")
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._closed = False
        self.failed = 0
        """Entries that could not be stored, whether anybody still waits for them or not."""

    def put(self, key: str, pack: Callable[[], bytes], told: Callable[[Kept], None]) -> None:
        """Have an entry written; nothing takes it back. pack: makes the value; called on the
        writer's thread, where compressing delays nobody. told: called in the loop."""
        if self._closed:
            self.failed += 1
            told(StoreError("the writer is closed: a reply came after the last commit"))
            return
        self._waiting.append((key, pack, told))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def put_at_once(
        self, key: str, pack: Callable[[], bytes], told: Callable[[Kept], None]
    ) -> None:
        """`put` in this thread, for a store that never waits for a disk."""
        for _, kept in self._commit([(key, pack, told)]):
            self.failed += isinstance(kept, BaseException)
            told(kept)

    async def close(self) -> None:
        """Write what is queued and end the thread. Safe to call twice."""
        self._closed = True
        loop = asyncio.get_running_loop()
        wrote = self._writing is not None
        while self._waiting or (self._writing is not None and not self._writing.done()):
            if self._writing is None or self._writing.done():
                # The task that was to write these was cancelled, as all are when a loop is closed.
                self._writing = loop.create_task(self._write())
            # Not awaited itself: cancelling this wait must not cancel the writing.
            await asyncio.wait([self._writing])
        if wrote:
            self._writing = None
            await loop.run_in_executor(self._threads, self._store.close_thread)
        self._threads.shutdown(wait=False)

    async def _write(self) -> None:
        """Commits until no caller waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(0 if self._closed else GATHER_SECONDS)
            batch = self._waiting[:MAX_COMMIT_ENTRIES]
            del self._waiting[:MAX_COMMIT_ENTRIES]
            for told, kept in await loop.run_in_executor(self._threads, self._commit, batch):
                self.failed += isinstance(kept, BaseException)
                told(kept)

    def _commit(self, batch: list[_Waiting]) -> list[_Landed]:
        """Store what can be packed; what became of each entry."""
        entries: list[tuple[str, bytes]] = []
        landed: list[_Landed] = []
        waiting: list[tuple[str, Callable[[Kept], None]]] = []
        for key, pack, told in batch:
            try:
                entries.append((key, pack()))
                waiting.append((key, told))
            except OSError as exc:
                landed.append((told, StoreError(f"a reply cannot be stored: {exc}")))
            except BaseException as exc:
                # One that cannot be packed must not take its paid neighbours down with it.
                landed.append((told, exc))
        older: dict[str, bytes] = {}
        try:
            older = self._keep(entries)
        except BaseException as exc:
            # Raised in every waiting caller, bugs too: none may wait for ever.
            return landed + [(told, exc) for _, told in waiting]
        return landed + [(told, older.get(key)) for key, told in waiting]

    def _keep(self, entries: list[tuple[str, bytes]]) -> dict[str, bytes]:
        if not self._replaces:
            return self._store.keep_many(entries)
        self._store.put_many(entries)
        return {}
