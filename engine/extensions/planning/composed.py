"""Whether a cell is a function of its replies: run once, and again on what it heard.

A protocol must take chance from nothing but its `ask`. One that reads a clock, a counter or a
generator of random numbers composes other calls each time: nothing of it can be resumed, shared or
replayed, and all of it would be paid again.
"""

from typing import NamedTuple

from ....cache.call import Ask, Call
from ....cache.explain import differences
from ....cache.reply import Reply
from ...errors import Halt
from ...run.scheduler import CellOutcome, attempt
from ...sweep.sweep import Cell


class Difference(NamedTuple):
    """How the second run of a cell differs from the first."""

    text: str
    call: Call | None = None
    """The call that only the second run asks; None if the calls are the same."""


class Composed:
    """One cell, run twice; the second time nothing is asked."""

    def __init__(self, cell: Cell, ask: Ask) -> None:
        self._cell, self._ask = cell, ask
        self._heard: dict[str, tuple[Call, Reply]] = {}
        self._end: CellOutcome | None = None

    async def first(self) -> CellOutcome:
        """How the cell ends; Halt and ReplayMiss pass, as from `attempt`."""
        self._end = await attempt(self._cell, self._listening)
        return self._end

    async def _listening(self, call: Call) -> Reply:
        reply = await self._ask(call)
        self._heard[call.address] = call, reply
        return reply

    async def again(self) -> Difference | None:
        """The first difference of a second run on the same replies; None if there is none."""
        other: list[Call] = []

        async def from_before(call: Call) -> Reply:
            if call.address not in self._heard:
                other.append(call)
                raise Halt("another call")
            return self._heard[call.address][1]

        try:
            outcome = await attempt(self._cell, from_before)
        except Halt:
            outcome = None
        if other:
            found = [differences(call, other[0]) for call, _ in self._heard.values()]
            least = min(found, key=lambda each: (len(each), sum(map(len, each))), default=())
            where = least[0] if least else "it asks a call that it did not ask before"
            return Difference(f"composed twice, its calls differ: {where}", other[0])
        if self._end is not None and outcome != self._end:
            return Difference("run twice on the same replies, it ends with another verdict")
        return None
