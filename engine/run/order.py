"""Orders: which piece of work comes next, given how those before it ended.

Lanes ask one order side by side (see `run_lanes`). An order may be put around another one.

    Plain      one piece after the other
    Passes     all of it again and again, as long as some of it waits for replies (see `later`)
    Canaries   a few cells of each row, until one of them has succeeded; and no cell of a row whose
               first cells all failed for one cause: a judge that is never readable, or a protocol
               with a typo after its fifth speech, fails in every cell, and each cell pays. Nor of
               a row whose first cell is not repeatable
"""

import asyncio
import logging
import math
import re
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

from ...protocols.transcript import NOT_RUN, Failure, Verdict
from ..errors import RowsPaused
from ..sweep.sweep import Cell, Row
from .record.values import NotRun, RecordedCell

CANARIES = 4
"""Cells of a row under way until one of them has succeeded."""
LAST_PART = 0.1
"""The part of all cells that goes by length."""
MAX_HELD = 4096
"""Cells of rows that are not open yet that are looked past for those of others; and of a run that
is short."""
FAILED_ALIKE = 8
"""Failures of one cause, without any success, that pause a row."""

UNREPEATABLE = "unrepeatable"
"""Kind of a failure: the cell asks other calls when it is composed again from its replies."""

PAUSED = RecordedCell(-1, "", 0, 0, 0, 0, NotRun("its row is paused"))
"""How a cell ends that is not begun."""

log = logging.getLogger(__name__)

Work = TypeVar("Work")
Completed = TypeVar("Completed")


class Order(AsyncIterator[Work], Generic[Work, Completed]):
    """Hands out work. Whoever takes a piece says how it ended before taking another."""

    @abstractmethod
    async def __anext__(self) -> Work:
        """The next piece, as soon as there is one; StopAsyncIteration once there will be none."""

    def ended(self, work: Work, end: Completed | None) -> None:
        """Take note of how a piece ended. end: None where it has no result yet, since a reply is
        `Pending` or nothing more is asked."""


class Plain(Order[Work, Any]):
    """Pieces as they come. The next is taken from `works` no sooner than a lane is free."""

    def __init__(self, works: Iterable[Work]) -> None:
        self._works = iter(works)

    async def __anext__(self) -> Work:
        for work in self._works:
            return work
        raise StopAsyncIteration


Missing: TypeAlias = Callable[[], Iterator[Work]]
"""Yields the work that has no result yet, anew each time it is called."""


@dataclass(slots=True)
class _Begun:
    """How far the cells of a row are."""

    steps: int
    open: bool
    """Whether as many may be under way as there are lanes: one has succeeded, now or in an earlier
    session, or nothing is held back."""
    under_way: int = 0
    ended: int = 0
    seconds: float = 0.0
    """Total time of the cells that have ended."""
    held: deque[Cell] = field(default_factory=deque)
    succeeded: bool = False
    alike: int = 0
    """Failures, as long as none has succeeded."""
    causes: set[str] = field(default_factory=set)
    cause: str = ""
    """Why it is paused."""
    before: set[str] = field(default_factory=set)
    """The cause for which an earlier session has paused the row."""
    paused: bool = False

    @property
    def takes(self) -> tuple[float, int]:
        """Seconds that a cell takes: longer than those of all other rows before the first ends, and
        of these by the calls that it asks one after another."""
        return self.seconds / self.ended if self.ended else math.inf, self.steps


class Canaries(Order[Cell, RecordedCell]):
    """The cells of an order, those of a row that has not succeeded yet a few at a time, and none of
    a row whose first cells all failed for one cause: it is paused.

    Those of the last tenth go by how long the cells of their row take, the longest first: one long
    chain that begins last would leave all slots but its own idle at the end.
    """

    def __init__(
        self,
        order: Order[Cell, RecordedCell],
        rows: Sequence[Row],
        earlier: Iterable[tuple[Row, Failure | None]] | None = (),
        canaries: int | None = CANARIES,
        total: int | None = None,
        steps: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """earlier: what earlier sessions have left: the row of each cell, and its failure, or None.
        A row that they have paused is tried again, and paused at its first failure of the same
        cause. None in place of all that: no row is paused. canaries: cells under way of a row that
        has not succeeded; None for any number. total: cells of the order, where its last ones go by
        length. steps: calls of a cell one after another, by the address of its row, as far as
        known: they order a short run from its beginning."""
        self._order = order
        self._pauses, self._canaries = earlier is not None, canaries or 0
        self._rows = {id(row): _Begun(steps.get(row.address, 0), canaries is None) for row in rows}
        """By the identity of the row, which the sweep keeps."""
        self._ready = deque[Cell]()
        """Cells that may begin, counted as under way."""
        self._began: dict[int, float] = {}
        """Loop time (s) at which a cell that is under way began, by its place."""
        short = MAX_HELD if steps else 0
        self._left = math.inf if total is None else total - max(total * LAST_PART, short)
        """Cells until the last part."""
        self._holding, self._exhausted = 0, False
        self._landed = asyncio.Event()
        for row, failure in earlier or ():
            begun = self._rows[id(row)]
            if failure is None:
                begun.open = begun.succeeded = True
            else:
                begun.alike += 1
                begun.causes.add(_cause(failure))
        for begun in self._rows.values():
            if begun.alike >= FAILED_ALIKE and len(begun.causes) == 1:
                begun.before, begun.causes, begun.alike = begun.causes, set(), 0

    async def __anext__(self) -> Cell:
        while True:
            if self._ready:
                cell = self._ready.popleft()
                row = self._rows[id(cell.row)]
                if not row.paused:
                    self._began[cell.place] = asyncio.get_running_loop().time()
                    return cell
                row.under_way -= 1
                self._order.ended(cell, PAUSED)
            elif self._exhausted or self._holding >= MAX_HELD:
                if not self._holding:
                    raise StopAsyncIteration
                self._landed.clear()
                await self._landed.wait()
            elif self._left > 0:
                try:
                    cell = await anext(self._order)
                except StopAsyncIteration:
                    self._exhausted = True
                else:
                    self._left -= 1
                    self._admit(cell)
            else:
                self._exhausted = True
                last = [cell async for cell in self._order]
                last.sort(key=lambda cell: self._rows[id(cell.row)].takes, reverse=True)
                for cell in last:
                    self._admit(cell)

    def ended(self, cell: Cell, end: RecordedCell | None) -> None:
        self._order.ended(cell, end)
        row = self._rows[id(cell.row)]
        row.under_way -= 1
        row.ended += 1
        row.seconds += asyncio.get_running_loop().time() - self._began.pop(cell.place)
        outcome = None if end is None else end.outcome
        if isinstance(outcome, Verdict):
            row.open = row.succeeded = True
        elif isinstance(outcome, Failure) and outcome.kind != NOT_RUN:
            self._failed(row, cell, outcome)
        while row.held and self._may_begin(row):
            self._holding -= 1
            self._begin(row, row.held.popleft())

    def _admit(self, cell: Cell) -> None:
        row = self._rows[id(cell.row)]
        if self._may_begin(row):
            self._begin(row, cell)
        else:
            self._holding += 1
            row.held.append(cell)

    def _may_begin(self, row: _Begun) -> bool:
        """Whether one more of its cells may begin; those of a paused row end there."""
        return row.open or row.paused or row.under_way < self._canaries

    def _begin(self, row: _Begun, cell: Cell) -> None:
        row.under_way += 1
        self._ready.append(cell)
        self._landed.set()

    def halt(self, left: Iterable[Cell]) -> RowsPaused | None:
        """What to stop with if cells were not begun since their rows are paused. left: cells
        without an outcome."""
        paused = {key: row.cause for key, row in self._rows.items() if row.paused}
        cells = [cell for cell in left if id(cell.row) in paused] if paused else []
        if not cells:
            return None
        causes = {cell.row.title: paused[id(cell.row)] for cell in cells}
        alike: dict[str, list[str]] = {}
        for title, cause in causes.items():
            alike.setdefault(cause, []).append(title)
        rows = "; ".join(f"{', '.join(titles)}: {cause}" for cause, titles in alike.items())
        return RowsPaused(
            f"{len(cells):,} cells were not started: their rows are paused ({rows}). "
            "Fix it and rerun, or continue anyway with --keep-going"
        )

    def _failed(self, row: _Begun, cell: Cell, failure: Failure) -> None:
        """Pause a row that is not repeatable, or that always failed for one cause."""
        repeatable = failure.kind != UNREPEATABLE
        if (row.succeeded and repeatable) or row.paused or not self._pauses:
            return
        row.alike += 1
        row.causes.add(_cause(failure))
        enough = 1 if row.causes == row.before else FAILED_ALIKE
        row.paused = not repeatable or (row.alike >= enough and len(row.causes) == 1)
        if row.paused:
            count = max(row.alike, FAILED_ALIKE) if repeatable else 1
            cells = f"its first {count} cells all" if repeatable else "its first cell"
            row.cause = f"{cells} failed: {failure.kind}: {failure.message}"
            log.warning("%s: paused: %s", cell.row.title, row.cause)


def _cause(outcome: Failure) -> str:
    """What failures of one cause have in common: what models say differs from cell to cell."""
    if outcome.unread:
        return outcome.kind
    return f"{outcome.kind}: {re.sub('[0-9]+', '0', outcome.message)}"
