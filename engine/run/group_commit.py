"""Writing in groups, in a thread of its own: a commit costs as much for one cell as for many."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from ..errors import RunFolderError

Item = TypeVar("Item")

MAX_GROUP = 256
"""Items of one commit."""
MAX_SECONDS = 0.25
"""Seconds that the first item of a group waits for others."""
MAX_GROUPS = 32
"""Groups that may wait for the disk; see `GroupCommit.room`."""


class GroupCommit(Generic[Item]):
    """Collects items, and writes them a group at a time, in order; used on one event loop."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], None],
        written: Callable[[Sequence[Item]], None],
        failed: Callable[[RunFolderError], None],
    ) -> None:
        """write: called in the thread with each group. written: called on the loop once the group
        is written. failed: called on the loop, once, with a RunFolderError of either. After
        any exception nothing is written any more, and the next `put` or `flush` raises it."""
        self._write = write
        self._written = written
        self._failed = failed
        self._thread = ThreadPoolExecutor(1, "run.db")
        self._group: list[Item] = []
        self._timer: asyncio.TimerHandle | None = None
        self._writing: set[asyncio.Task[None]] = set()
        self.full = False
        """Whether as much waits for the disk as may: whoever goes on then fills the memory."""
        self._fault: BaseException | None = None

    def put(self, items: Sequence[Item]) -> None:
        """Queue items for writing. Raises whatever an earlier write raised."""
        if self._fault is not None:
            raise self._fault
        self._group += items
        if len(self._group) >= MAX_GROUP:
            self._commit()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MAX_SECONDS, self._commit)

    async def room(self) -> None:
        """Wait until not as much waits for the disk as may."""
        while self.full:
            await asyncio.wait(self._writing, return_when=asyncio.FIRST_COMPLETED)

    async def flush(self) -> None:
        """Wait until all that was put is written. Raises whatever a write raised."""
        self._commit()
        while self._writing:
            await asyncio.wait(self._writing)
        if self._fault is not None:
            raise self._fault

    def close(self) -> None:
        """End the thread. What was not flushed is lost."""
        if self._timer is not None:
            self._timer.cancel()
        self._thread.shutdown()

    def _commit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._group or self._fault is not None:
            return
        group, self._group = self._group, []
        done = self._thread.submit(self._write, group)
        task = asyncio.create_task(self._await(asyncio.wrap_future(done), group))
        self._writing.add(task)
        self.full = len(self._writing) >= MAX_GROUPS
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        self.full = len(self._writing) >= MAX_GROUPS

    async def _await(self, done: "asyncio.Future[None]", group: list[Item]) -> None:
        try:
            await done
            if self._fault is None:
                self._written(group)
        except Exception as fault:
            if self._fault is None:
                self._fault = fault
                if isinstance(fault, RunFolderError):
                    self._failed(fault)
