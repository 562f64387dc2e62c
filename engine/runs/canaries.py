"""Canaries: the first cells of each row, which show whether the row can succeed before it is paid.

A judge that is never readable, or a protocol with a typo after its fifth speech, fails in every
cell, and each cell pays for its calls. So a row begins with a few cells; it gets all of its lanes
with the first of them that succeeds, and is paused when its cells all fail for one cause.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from ...cache.call import Ask, Call
from ...cache.explain import differences
from ...cache.reply import Reply
from ...protocols.transcript import Failure
from ..errors import NotReproducible, RowsPaused
from ..stop import StopToken
from ..sweeps.sweep import Cell
from .scheduler import CellEnd, CellOutcome, attempt, attempt_noted

CANARIES = 4
"""Cells of a row under way until one of them has succeeded."""
FAILED_ALIKE = 8
"""Failures of one cause, without any success, that pause a row."""
MAX_HELD = 4096
"""Cells of rows that are not open yet that are looked past for those of others."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _RowState:
    name: str
    open: bool = False
    paused: bool = False
    under_way: int = 0
    causes: set[str] = field(default_factory=set)
    failed: int = 0
    skipped: int = 0
    """Cells that were not begun since the row is paused."""
    held: deque[Cell] = field(default_factory=deque)


class RowWatch(Iterator[Cell]):
    """Hands out cells, those of a row that has not succeeded yet a few at a time.

    An iterator that may end for now: once a cell has landed there may be more, see `more`.
    """

    def __init__(
        self,
        cells: Iterable[Cell],
        stop_token: StopToken,
        *,
        canaries: int = CANARIES,
        pauses: bool = True,
    ) -> None:
        """canaries: cells of an unproven row under way. pauses: whether a row whose cells all fail
        for one cause is paused."""
        self._cells: Iterator[Cell] | None = iter(cells)
        self._canaries = canaries
        self._pauses = pauses
        self._rows: dict[int, _RowState] = {}
        """By the identity of the row, which the sweep keeps."""
        self._opened: deque[Cell] = deque()
        self._holding = 0
        self._landed = asyncio.Event()
        self._stop_token = stop_token
        stop_token.listen(self._landed.set)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Cell:
        while self._opened:
            cell = self._opened.popleft()
            if self._begin(cell):
                return cell
        while self._cells is not None and self._holding < MAX_HELD:
            try:
                cell = next(self._cells)
            except StopIteration:
                self._cells = None
                break
            if self._begin(cell):
                return cell
        raise StopIteration

    async def more(self) -> bool:
        """Once a further cell may be handed out: True; False if there will be none."""
        while not self._opened and (self._holding or self._cells is not None):
            stopped = self._stop_token.halt is not None
            if stopped or not any(row.under_way for row in self._rows.values()):
                return False
            self._landed.clear()
            await self._landed.wait()
        return bool(self._opened)

    def landed(self, cell: Cell, outcome: CellOutcome) -> None:
        """Take note of an outcome: it opens or pauses its row, or lets another canary go."""
        row = self._state(cell)
        row.under_way -= 1
        self._landed.set()
        if row.open or row.paused:
            return
        if not isinstance(outcome, Failure):
            row.open = True
            self._release(row, len(row.held))
            return
        row.failed += 1
        row.causes.add(_cause(outcome))
        if self._pauses and row.failed >= FAILED_ALIKE and len(row.causes) == 1:
            row.paused = True
            row.skipped = len(row.held)
            self._holding -= len(row.held)
            row.held.clear()
            log.warning("%s: paused: its first %d cells all failed: %s", *_why(row, outcome))
            return
        self._release(row, 1)

    def paused(self) -> RowsPaused | None:
        """The halt to end with if cells were not begun since their rows are paused."""
        rows = [row for row in self._rows.values() if row.paused and row.skipped]
        if not rows:
            return None
        cells = sum(row.skipped for row in rows)
        named = "; ".join(f"{row.name}: {next(iter(row.causes))}" for row in rows)
        return RowsPaused(
            f"{cells:,} cells were not begun, since the first {FAILED_ALIKE} of their row all "
            f"failed for one cause ({named}). Put that right and run it again, or go on "
            "regardless with --keep-going"
        )

    def _begin(self, cell: Cell) -> bool:
        row = self._state(cell)
        if row.paused:
            row.skipped += 1
            return False
        if not row.open and row.under_way >= self._canaries:
            row.held.append(cell)
            self._holding += 1
            return False
        row.under_way += 1
        return True

    def _release(self, row: _RowState, count: int) -> None:
        for _ in range(min(count, len(row.held))):
            self._opened.append(row.held.popleft())
            self._holding -= 1

    def _state(self, cell: Cell) -> _RowState:
        row = self._rows.get(id(cell.row))
        return row or self._rows.setdefault(id(cell.row), _RowState(_name(cell)))


class ComposedTwice:
    """An attempt that runs the first cell of each row a second time, on the replies of the first.

    A protocol must take chance from nothing but its `ask`. One that reads a clock, a counter or a
    generator of random numbers composes other calls each time: nothing of it can be resumed, shared
    or replayed, and all of it would be paid again.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._done: set[int] = set()

    def __call__(self, cell: Cell) -> Awaitable[CellEnd]:
        if id(cell.row) in self._done:
            return attempt_noted(cell, self._ask)
        return self._twice(cell)

    async def _twice(self, cell: Cell) -> CellEnd:
        """NotReproducible, which names the first field in which two calls differ."""
        heard: list[tuple[Call, Reply]] = []

        async def listening(call: Call) -> Reply:
            reply = await self._ask(call)
            heard.append((call, reply))
            return reply

        end = await attempt_noted(cell, listening)
        if isinstance(end.outcome, Failure) and end.outcome.kind not in ("unreadable", "declined"):
            return end
        again = {call.address: reply for call, reply in heard}
        other: list[Call] = []

        async def from_before(call: Call) -> Reply:
            reply = again.get(call.address)
            if reply is None:
                other.append(call)
                raise NotReproducible("another call")
            return reply

        with suppress(NotReproducible):
            await attempt(cell, from_before)
        self._done.add(id(cell.row))
        if other:
            raise NotReproducible(_difference(cell, [call for call, _ in heard], other[0]))
        return end


def _difference(cell: Cell, before: list[Call], now: Call) -> str:
    found = [differences(call, now) for call in before]
    least = min(found, key=lambda each: (len(each), sum(map(len, each))), default=())
    where = least[0] if least else "it asks a call that it did not ask before"
    return (
        f"{_name(cell)}: composed twice, its calls differ: {where}. A protocol must take chance "
        "from its ask alone: with a clock, a counter or random numbers in a prompt nothing can be "
        "resumed or replayed, and everything would be paid again"
    )


def _cause(outcome: Failure) -> str:
    """What failures of one cause have in common: what models say differs from cell to cell."""
    if outcome.kind in ("unreadable", "declined"):
        return outcome.kind
    return f"{outcome.kind}: {re.sub('[0-9]+', '0', outcome.message)}"


def _why(row: _RowState, outcome: Failure) -> tuple[str, int, str]:
    return row.name, row.failed, f"{outcome.kind}: {outcome.message}"


def _name(cell: Cell) -> str:
    row = cell.row
    return " · ".join(filter(None, (row.kind, row.agent, row.judge)))
