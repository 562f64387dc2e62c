"""Results that many cells share, such as a speech or a verdict; each is computed once."""

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

Result = TypeVar("Result")

MAX_NOTES = 8192
"""Maximum notes in memory: about as many as the cells of one problem make."""
MAX_KINDS = 4096
"""Maximum kinds of work, such as an agent with a role prompt, whose settings are remembered."""
TRIED = 64
"""Unrepeated pieces of work after which a kind is no longer shared, since nothing of it is
reused."""

WorkKind: TypeAlias = tuple[int, ...]
"""Identities of the settings, valid while their numbers are remembered."""
Numbered: TypeAlias = tuple[tuple[int, ...], tuple[Hashable, ...]]
"""Numbers of the settings, and the settings, kept so that their identities stay valid."""
_next = count()


class Work(Struct, eq=False):
    notes: list[object]
    result: Any = None
    fault: Exception | None = None
    ended: bool = False
    """Whether it completed; False if it was cancelled."""
    waiting: list["asyncio.Future[None]"] = []
    """One future per caller that has joined."""

    async def wait(self) -> None:
        """Wait for the end. Each caller has a future, so that cancelling one leaves the others
        alone."""
        end = asyncio.get_running_loop().create_future()
        self.waiting.append(end)
        await end


class SharedResults:
    """Keeps the latest results and lets callers join running work; for one event loop.

    An exception reaches all callers that have joined, and is not kept. Cancelling a caller leaves
    the others alone."""

    def __init__(self, repeated: Callable[[list[object], bool], None]) -> None:
        """repeated: called with the notes of reused work, and whether it was still running."""
        self._repeated = repeated
        self._known: dict[Hashable, Work] = {}
        self._latest: deque[Hashable] = deque()
        """Keys of completed work, the oldest first."""
        self._notes = 0
        self._numbers: dict[Hashable, int] = {}
        self.kinds: dict[WorkKind, Numbered] = {}
        self._tried: Counter[WorkKind] = Counter()
        self.unshared: set[WorkKind] = set()
        """Kinds of work that are not repeated."""

    def numbered(self, kind: WorkKind, settings: tuple[Hashable, ...]) -> Numbered:
        """Number the settings of a new kind of work. Equal settings get equal numbers: comparing
        numbers is fast. TypeError for settings without a hash."""
        if len(self.kinds) >= MAX_KINDS:
            for store in (self._numbers, self.kinds, self._tried, self.unshared):
                store.clear()
        numbers = tuple([self._numbers.setdefault(store, next(_next)) for store in settings])
        self.kinds[kind] = numbers, settings
        return self.kinds[kind]

    async def run_once(
        self,
        key: Hashable,
        do: Callable[[], Awaitable[Result]],
        work_notes: list[object],
        notes: list[object],
        kind: WorkKind,
    ) -> Result:
        """The result under this key: reused, or computed by `do` now. work_notes: filled by `do`.
        notes: of the caller, extended by the notes of the work."""
        while (work := self._known.get(key)) is not None:
            self._tried[kind] = -sys.maxsize
            joined = not work.ended
            if joined:
                await work.wait()
            if work.ended:
                self._repeated(work.notes, joined)
                notes += work.notes
                if work.fault is not None:
                    raise work.fault
                result: Result = work.result
                return result
        self._tried[kind] += 1
        if self._tried[kind] >= TRIED:
            self.unshared.add(kind)
        work = self._known[key] = Work(work_notes)
        try:
            result = work.result = await do()
            work.ended = True
        except Exception as fault:
            work.fault, work.ended = fault, True
            raise
        finally:
            notes += work_notes
            if work.ended and work.fault is None:
                self._latest.append(key)
                self._notes += len(work_notes) or 1  # work without calls still takes room
                while self._notes > MAX_NOTES:
                    self._notes -= len(self._known.pop(self._latest.popleft()).notes) or 1
            else:
                del self._known[key]
            for end in work.waiting:
                if not end.done():
                    end.set_result(None)
        return result
