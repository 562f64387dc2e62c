"""Group commit: a thread writes entries in groups, since one commit costs as much as many."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeAlias, TypeVar

from .errors import StoreError
from .store import Store

Item = TypeVar("Item")
Written = TypeVar("Written")

MAX_COMMIT_ENTRIES = 1024

GATHER_SECONDS = 0.004
"""Seconds that the first entry of a commit waits for more. A reply takes a hundred times as long,
and a commit costs as much as writing thirty entries, plus two thread switches."""

MAX_HELD = 8192
"""Maximum items that wait for the disk; see `GroupCommit.room`."""


class GroupCommit(Generic[Item, Written]):
    """Collects items and writes them in a thread, in order and in groups.

    Items that arrive while a group gathers, or while another is written, form one group. It belongs
    to one event loop; the thread starts with the first item."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Written],
        written: Callable[[Sequence[Item], Written], None],
        *,
        name: str,
        seconds: float,
        most: int,
        failed: Callable[[BaseException], None] = lambda fault: None,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        """write: called in the thread with each group. written: called on the loop with the group
        and the result of `write`. name: of the thread. seconds: how long the first item of a group
        waits for others. most: maximum items of a group.

        failed: called on the loop, once, with an exception of either. After that nothing is
        written, and `put` and `flush` raise it. at_end: called in the thread."""
        self._write, self._written, self._failed = write, written, failed
        self._seconds, self._most = seconds, most
        self._name, self._at_end = name, at_end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._work = SimpleQueue[list[Item] | None]()
        self._items: list[Item] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._busy = False
        """Whether the items have waited long enough; whether the thread has a group."""
        self.full = False
        """Whether the maximum of items waits for the disk. Adding more would fill the memory."""
        self._moved: list[asyncio.Future[None]] = []
        """Callers that wait until the thread returns a group."""
        self._fault: BaseException | None = None

    def put(self, *items: Item) -> None:
        """Queue items. Raises the exception of an earlier write, or StoreError if no thread can be
        started."""
        if self._fault is not None:
            raise self._fault
        if self._thread is None or self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._thread = self._started()
        self._items += items
        if self._timer is None and not self._due:
            self._timer = self._loop.call_later(self._seconds, self._hand_over)
        if len(self._items) >= self._most:
            self._hand_over()

    async def room(self) -> None:
        """Wait until fewer items than `MAX_HELD` wait for the disk."""
        while self.full:
            await self._back_again()

    async def _back_again(self) -> None:
        """Wait until the thread returns its group."""
        moved = asyncio.get_running_loop().create_future()
        self._moved.append(moved)
        await moved

    async def flush(self) -> None:
        """Wait until all queued items are written. Raises the exception of a write."""
        while self._busy or (self._items and self._fault is None):
            self._hand_over()
            await self._back_again()
        if self._fault is not None:
            raise self._fault

    def close(self) -> None:
        """End the thread after its present group. Items that were not flushed are lost."""
        if self._timer is not None:
            self._timer.cancel()
        self._items.clear()  # otherwise a returning group would start another one
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
            self._thread = None

    def _hand_over(self) -> None:
        """Give the thread a group, now or when it returns."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = bool(self._items)
        if self._due and not self._busy:
            self._work.put(self._items[: self._most])
            self._items = self._items[self._most :]
            self._due, self._busy = bool(self._items), True
        self.full = len(self._items) >= MAX_HELD

    def _started(self) -> Thread:
        # A daemon: entries that were not acknowledged are lost when the process ends.
        thread = Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as exc:
            raise StoreError(f"nothing can be written: {exc}; allow more (ulimit -u)") from exc
        return thread

    def _run(self) -> None:
        assert self._loop is not None, "items were put"
        while (group := self._work.get()) is not None:
            back: tuple[Any, BaseException | None]
            try:
                back = self._write(group), None
            except BaseException as fault:
                back = None, fault
            with suppress(RuntimeError):  # the loop is closed, and nobody is waiting
                self._loop.call_soon_threadsafe(self._back, group, *back)
        self._at_end()

    def _back(self, group: Sequence[Item], result: Any, fault: BaseException | None) -> None:
        self._busy = False
        if fault is None and self._fault is None:
            try:
                self._written(group, result)
            except Exception as exc:
                fault = exc
        if fault is not None and self._fault is None:
            self._fault = fault
            self._failed(fault)
        if self._fault is not None:
            self._items.clear()
        if self._due:
            self._hand_over()
        moved, self._moved = self._moved, []
        for waiter in moved:
            if not waiter.done():
                waiter.set_result(None)


Kept: TypeAlias = BaseException | bytes | None
"""Result for an entry: None if it was stored; the existing value if that stays; else the exception:
StoreFull, StoreError, or one of `pack`."""
_Waiting: TypeAlias = tuple[str, Callable[[], bytes], Callable[[Kept], None]]
"""(key, function that builds the value, callback)."""


class Writer(GroupCommit[_Waiting, list[Kept]]):
    """Writes entries to a store, and calls back with each result.

    Values are built in the writer thread, where compression does not block the loop; callbacks run
    on the loop. An entry cannot be withdrawn."""

    def __init__(self, store: Store, *, replaces: bool = False) -> None:
        """replaces: whether an entry replaces a stored one."""
        self._store = store
        self._replaces = replaces
        super().__init__(
            self._commit,
            self._tell,
            name="store-writer",
            seconds=GATHER_SECONDS,
            most=MAX_COMMIT_ENTRIES,
            at_end=store.close_thread,
        )

    def put_at_once(self, entry: _Waiting) -> None:
        """`put` in this thread, for a store that does not wait for a disk."""
        if self._fault is not None:
            raise self._fault
        self._tell([entry], self._commit([entry]))

    async def end(self) -> None:
        """Write the queue and end the thread; later entries are refused. Safe to repeat."""
        if self._fault is None:
            await self.flush()
            self._fault = StoreError("the writer is closed: a reply arrived after the last commit")
            self.close()

    def _tell(self, entries: Sequence[_Waiting], ends: Sequence[Kept]) -> None:
        for (_, _, callback), result in zip(entries, ends, strict=True):
            callback(result)

    def _commit(self, entries: Sequence[_Waiting]) -> list[Kept]:
        """Store the values that can be built; returns the result of each entry."""
        packed: list[tuple[str, bytes]] = []
        ends: dict[int, Kept] = {}
        for place, (key, pack, _) in enumerate(entries):
            try:
                packed.append((key, pack()))
            except OSError as exc:
                ends[place] = StoreError(f"a reply cannot be stored: {exc}")
            except BaseException as exc:
                # An entry that fails must not take other paid replies with it.
                ends[place] = exc
        older: dict[str, bytes] = {}
        fault: Kept = None
        try:
            if self._replaces:
                self._store.put_many(packed)
            else:
                older = self._store.keep_many(packed)
        except BaseException as exc:
            # Every waiting caller must get it, even a bug: otherwise they would wait forever.
            fault = exc
        return [ends.get(place, fault or older.get(key)) for place, (key, *_) in enumerate(entries)]
