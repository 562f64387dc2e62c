"""Work that many cells have in common: a speech, a verdict. It follows from replies alone, so it is
done once, as the replies are paid once."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import Any, TypeVar

Result = TypeVar("Result")

MAX_NOTES = 8192
"""Notes of the work that is remembered: about as many as the cells of one problem make."""
MAX_NUMBERED = 8192
"""Settings whose numbers are remembered."""


class Work:
    """A piece of work, under way or ended."""

    __slots__ = ("ended", "fault", "notes", "result", "waiting")

    def __init__(self, notes: list[object]) -> None:
        self.notes = notes
        """Notes of the `RecordingAsk` that the work asks."""
        self.result: Any = None
        self.fault: Exception | None = None
        """What it raised; then it has no result."""
        self.ended = False
        """Whether it has ended; False also where it was cancelled."""
        self.waiting: list[asyncio.Future[None]] = []
        """One future for each caller that has joined the work."""

    @property
    def size(self) -> int:
        """Its notes, which take most of its memory; at least 1, since work that asks nobody has its
        key and its result."""
        return len(self.notes) or 1

    async def wait(self) -> None:
        """Wait for it; a future for each who waits, so that none is cancelled with another."""
        end = asyncio.get_running_loop().create_future()
        self.waiting.append(end)
        await end


class SharedWork:
    """Remembers the latest pieces of work, and has those that are under way joined; for one loop.

    As with a flight of `Cache`, a fault reaches all who have joined, and is not remembered; and who
    is cancelled takes no other along.
    """

    def __init__(self, repeated: Callable[[int, bool], None]) -> None:
        """repeated: is told how many calls were not asked again, and whether they were under
        way."""
        self._repeated = repeated
        self._known: dict[Hashable, Work] = {}
        self._latest: deque[Hashable] = deque()
        """Keys of work that ended without a fault, the oldest first."""
        self._notes = 0
        self._numbers: dict[Hashable, int] = {}
        self._numbered: dict[int, tuple[Hashable, int]] = {}
        self._next = count()

    def number(self, settings: Hashable) -> int:
        """The number of an agent, a judge, a brief; equal ones have one number, since to compare
        them takes as long as to look up a call. TypeError for one that has no hash."""
        known = self._numbered.get(id(settings))
        if known is None:
            if len(self._numbered) >= MAX_NUMBERED:
                self._numbers, self._numbered = {}, {}
            number = self._numbers.setdefault(settings, next(self._next))
            # It is kept, so that nothing else gets its address.
            known = self._numbered[id(settings)] = settings, number
        return known[1]

    async def once(
        self,
        key: Hashable,
        do: Callable[[], Awaitable[Result]],
        own: list[object],
        notes: list[object],
    ) -> Result:
        """What was done under a key, once it has ended, or else what `do` comes to now. own: what
        `do` notes; notes: of whoever asks, who gets the notes of what was done."""
        while (work := self._known.get(key)) is not None:
            joined = not work.ended
            if joined:
                await work.wait()
            if work.ended:
                self._repeated(sum([type(each) is tuple for each in work.notes]), joined)
                notes += work.notes
                if work.fault is not None:
                    raise work.fault
                result: Result = work.result
                return result
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
                self._remember(key, work)
            else:
                del self._known[key]
            for end in work.waiting:
                if not end.done():
                    end.set_result(None)
        return result

    def _remember(self, key: Hashable, work: Work) -> None:
        self._latest.append(key)
        self._notes += work.size
        while self._notes > MAX_NOTES:
            self._notes -= self._known.pop(self._latest.popleft()).size
