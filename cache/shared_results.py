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
"""Notes of the work that is remembered: about as many as the cells of one problem make."""
MAX_KINDS = 4096
"""Kinds of work, such as an agent's under a brief, whose settings are remembered."""
TRIED = 64
"""Pieces of work of one kind, none of them asked for again, after which the kind is not shared: of
a row whose worlds have nothing in common, nothing need be remembered."""

WorkKind: TypeAlias = tuple[int, ...]
"""Identities of settings, as long as their numbers are remembered."""
Numbered: TypeAlias = tuple[tuple[int, ...], tuple[Hashable, ...]]
"""The numbers of settings; and these, so that they keep their identity."""
_next = count()


class Work(Struct, eq=False):
    """A piece of work, under way or ended."""

    notes: list[object]
    """Notes of the `RecordingAsk` that the work asks."""
    result: Any = None
    fault: Exception | None = None
    """What it raised; then it has no result."""
    ended: bool = False
    """Whether it has ended; False also where it was cancelled."""
    waiting: list["asyncio.Future[None]"] = []
    """One future for each caller that has joined the work."""

    async def wait(self) -> None:
        """Wait for it; a future for each who waits, so that none is cancelled with another."""
        end = asyncio.get_running_loop().create_future()
        self.waiting.append(end)
        await end


class SharedResults:
    """Remembers the latest pieces of work, and has those that are under way joined; for one loop.

    As with a flight of `Cache`, a fault reaches all who have joined, and is not remembered; and who
    is cancelled takes no other along.
    """

    def __init__(self, repeated: Callable[[list[object], bool], None]) -> None:
        """repeated: is told the notes of work that is not done again, and whether it was under
        way."""
        self._repeated = repeated
        self._known: dict[Hashable, Work] = {}
        self._latest: deque[Hashable] = deque()
        """Keys of work that ended without a fault, the oldest first."""
        self._notes = 0
        self._numbers: dict[Hashable, int] = {}
        self.kinds: dict[WorkKind, Numbered] = {}
        self._tried: Counter[WorkKind] = Counter()
        self.unshared: set[WorkKind] = set()
        """Kinds of work that nobody asks for again."""

    def numbered(self, kind: WorkKind, settings: tuple[Hashable, ...]) -> Numbered:
        """Number each agent, judge and brief of a new kind of work; equal ones have one number,
        since to compare them takes as long as to look up a call. TypeError for one without hash."""
        if len(self.kinds) >= MAX_KINDS:
            for each in (self._numbers, self.kinds, self._tried, self.unshared):
                each.clear()
        numbers = tuple([self._numbers.setdefault(each, next(_next)) for each in settings])
        self.kinds[kind] = numbers, settings
        return self.kinds[kind]

    async def run_once(
        self,
        key: Hashable,
        do: Callable[[], Awaitable[Result]],
        own: list[object],
        notes: list[object],
        kind: WorkKind,
    ) -> Result:
        """What was done under a key, once it has ended, or else what `do` comes to now. own: what
        `do` notes; notes: of whoever asks, who gets the notes of what was done."""
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
        work = self._known[key] = Work(own)
        try:
            result = work.result = await do()
            work.ended = True
        except Exception as fault:
            work.fault, work.ended = fault, True
            raise
        finally:
            notes += own
            if work.ended and work.fault is None:
                self._latest.append(key)
                self._notes += len(own) or 1  # work that asks nobody has its key and its result
                while self._notes > MAX_NOTES:
                    self._notes -= len(self._known.pop(self._latest.popleft()).notes) or 1
            else:
                del self._known[key]
            for end in work.waiting:
                if not end.done():
                    end.set_result(None)
        return result
