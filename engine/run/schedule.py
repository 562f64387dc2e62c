"""Schedules: which piece of work comes next, given the results so far.

All lanes share one schedule (see `run_lanes`). A schedule may wrap another one.

    InOrder      one piece after the other
    Passes       all missing work, repeatedly, while some of it waits for replies (`later.py`)
    StagedStart  a few cells of each row until one of them succeeds. A row whose first cells all
                 fail for the same reason is paused, since every further cell would cost money and
                 fail as well. So is a row whose first cell is not repeatable
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
from .record.values import LeftOut, RecordedCell

FIRST_CELLS = 4
"""Cells of a row that may run before one of them has succeeded."""
LAST_PART = 0.1
"""Fraction of cells, at the end, that are scheduled longest first."""
MAX_WAITING = 4096
"""Cells that may wait for the first cells of their row, and cells of a run that counts as short."""
FAILED_ALIKE = 8
"""Failures for the same reason, without any success, that pause a row."""

UNREPEATABLE = "unrepeatable"
"""Kind of a failure: composed again from its replies, the cell asks other calls."""

PAUSED = RecordedCell(-1, "", 0, 0, 0, 0, LeftOut("its row is paused"))
"""Result of a cell that is not started, since its row is paused."""

log = logging.getLogger(__name__)

Work = TypeVar("Work")
Completed = TypeVar("Completed")


class Schedule(AsyncIterator[Work], Generic[Work, Completed]):
    """Hands out work. A lane reports the result of each piece before it takes the next one."""

    @abstractmethod
    async def __anext__(self) -> Work:
        """Wait for the next piece; StopAsyncIteration when no work is left."""

    def record_result(self, work: Work, result: Completed | None) -> None:
        """Record the result of a piece; None if a reply is `Pending` or the run is stopping."""


class InOrder(Schedule[Work, Any]):
    """Hands out pieces in the given order. Each is taken from `works` only when a lane is free."""

    def __init__(self, works: Iterable[Work]) -> None:
        self._works = iter(works)

    async def __anext__(self) -> Work:
        for work in self._works:
            return work
        raise StopAsyncIteration


Missing: TypeAlias = Callable[[], Iterator[Work]]
"""Yields the work without a result, again on each call."""


@dataclass(slots=True)
class _RowProgress:
    steps: int
    open: bool
    """Whether all its cells may run: one has succeeded, now or earlier, or none is held back."""
    under_way: int = 0
    completed: int = 0
    seconds: float = 0.0
    """Total duration of the completed cells."""
    waiting: deque[Cell] = field(default_factory=deque)
    succeeded: bool = False
    failures: int = 0
    """Failed cells, counted until one succeeds."""
    causes: set[str] = field(default_factory=set)
    cause: str = ""
    """Why the row is paused."""
    earlier_cause: set[str] = field(default_factory=set)
    """The cause that paused the row in an earlier session."""
    paused: bool = False

    @property
    def length(self) -> tuple[float, int]:
        """Mean duration of a cell in s (infinite until one ends), then its successive calls."""
        return self.seconds / self.completed if self.completed else math.inf, self.steps


class StagedStart(Schedule[Cell, RecordedCell]):
    """Starts each row with a few cells, and pauses rows that always fail for the same reason.

    Wraps another schedule. The last tenth of the cells is scheduled longest first, by the mean
    duration of their row. A long chain that starts last would leave all other slots idle."""

    def __init__(
        self,
        schedule: Schedule[Cell, RecordedCell],
        rows: Sequence[Row],
        earlier: Iterable[tuple[Row, Failure | None]] | None = (),
        first_cells: int | None = FIRST_CELLS,
        total: int | None = None,
        steps: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Wrap a schedule.

        earlier: the row and failure (or None) of each outcome of earlier sessions. A row that was
        paused is tried again, and paused at its first failure of the same cause. None: no row is
        paused. first_cells: cells of a row that may run before one has succeeded; None: no limit.
        total: number of cells in the schedule, if its last cells are scheduled by length. steps:
        successive calls per cell, by address of the row, where known; they sort a short run from
        its beginning."""
        self._schedule = schedule
        self._pauses, self._first_cells = earlier is not None, first_cells or 0
        self._rows = {
            id(row): _RowProgress(steps.get(row.address, 0), first_cells is None) for row in rows
        }
        """By `id` of the row; the sweep keeps the row alive."""
        self._ready = deque[Cell]()
        """Cells that may start; they count as under way."""
        self._start_times: dict[int, float] = {}
        """Loop time (s) at which each running cell started, by its place."""
        short = MAX_WAITING if steps else 0
        self._until_last = math.inf if total is None else total - max(total * LAST_PART, short)
        """Cells to take before the last part."""
        self._waiting_count, self._exhausted = 0, False
        self._changed = asyncio.Event()
        for row, failure in earlier or ():
            state = self._rows[id(row)]
            if failure is None:
                state.open = state.succeeded = True
            else:
                state.failures += 1
                state.causes.add(_cause(failure))
        for state in self._rows.values():
            if state.failures >= FAILED_ALIKE and len(state.causes) == 1:
                state.earlier_cause, state.causes, state.failures = state.causes, set(), 0

    async def __anext__(self) -> Cell:
        while True:
            if self._ready:
                cell = self._ready.popleft()
                row = self._rows[id(cell.row)]
                if not row.paused:
                    self._start_times[cell.place] = asyncio.get_running_loop().time()
                    return cell
                row.under_way -= 1
                self._schedule.record_result(cell, PAUSED)
            elif self._exhausted or self._waiting_count >= MAX_WAITING:
                if not self._waiting_count:
                    raise StopAsyncIteration
                self._changed.clear()
                await self._changed.wait()
            elif self._until_last > 0:
                try:
                    cell = await anext(self._schedule)
                except StopAsyncIteration:
                    self._exhausted = True
                else:
                    self._until_last -= 1
                    self._admit(cell)
            else:
                self._exhausted = True
                last = [cell async for cell in self._schedule]
                lengths = {key: row.length for key, row in self._rows.items()}
                last.sort(key=lambda cell: lengths[id(cell.row)], reverse=True)
                for cell in last:
                    self._admit(cell)

    def record_result(self, cell: Cell, result: RecordedCell | None) -> None:
        self._schedule.record_result(cell, result)
        row = self._rows[id(cell.row)]
        row.under_way -= 1
        row.completed += 1
        row.seconds += asyncio.get_running_loop().time() - self._start_times.pop(cell.place)
        outcome = None if result is None else result.outcome
        if isinstance(outcome, Verdict):
            row.open = row.succeeded = True
        elif isinstance(outcome, Failure) and outcome.kind != NOT_RUN:
            self._record_failure(row, cell, outcome)
        while row.waiting and self._may_start(row):
            self._waiting_count -= 1
            self._start(row, row.waiting.popleft())

    def _admit(self, cell: Cell) -> None:
        row = self._rows[id(cell.row)]
        if self._may_start(row):
            self._start(row, cell)
        else:
            self._waiting_count += 1
            row.waiting.append(cell)

    def _may_start(self, row: _RowProgress) -> bool:
        """Whether another cell of the row may start; cells of a paused row end at once."""
        return row.open or row.paused or row.under_way < self._first_cells

    def _start(self, row: _RowProgress, cell: Cell) -> None:
        row.under_way += 1
        self._ready.append(cell)
        self._changed.set()

    def halt(self, unfinished: Iterable[Cell]) -> RowsPaused | None:
        """Return the halt that names paused rows with unfinished cells, or None. unfinished: cells
        without an outcome."""
        paused = {key: row.cause for key, row in self._rows.items() if row.paused}
        cells = [cell for cell in unfinished if id(cell.row) in paused] if paused else []
        if not cells:
            return None
        causes = {cell.row.title: paused[id(cell.row)] for cell in cells}
        titles_by_cause: dict[str, list[str]] = {}
        for title, cause in causes.items():
            titles_by_cause.setdefault(cause, []).append(title)
        rows = "; ".join(f"{', '.join(t)}: {cause}" for cause, t in titles_by_cause.items())
        return RowsPaused(
            f"{len(cells):,} cells were not started: their rows are paused ({rows}). "
            "Fix it and rerun, or continue anyway with --keep-going"
        )

    def _record_failure(self, row: _RowProgress, cell: Cell, failure: Failure) -> None:
        """Pause a row that is not repeatable, or that always failed for the same reason."""
        repeatable = failure.kind != UNREPEATABLE
        if (row.succeeded and repeatable) or row.paused or not self._pauses:
            return
        row.failures += 1
        row.causes.add(_cause(failure))
        limit = 1 if row.causes == row.earlier_cause else FAILED_ALIKE
        row.paused = not repeatable or (row.failures >= limit and len(row.causes) == 1)
        if row.paused:
            count = max(row.failures, FAILED_ALIKE) if repeatable else 1
            cells = f"its first {count} cells all" if repeatable else "its first cell"
            row.cause = f"{cells} failed: {failure.kind}: {failure.message}"
            log.warning("%s: paused: %s", cell.row.title, row.cause)


def _cause(outcome: Failure) -> str:
    """Return the part of a failure that is equal for all failures with the same reason."""
    if outcome.unread:
        return outcome.kind
    return f"{outcome.kind}: {re.sub('[0-9]+', '0', outcome.message)}"
