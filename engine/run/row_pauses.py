"""Rows that are left alone since their first cells all failed for one cause, wherever cells run."""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...protocols.transcript import NOT_RUN, Failure
from ..errors import RowsPaused
from ..sweep.rows import Row
from ..sweep.sweep import Cell
from .record.values import NotRun, RecordedCell
from .scheduler import CellOutcome

FAILED_ALIKE = 8
"""Failures of one cause, without any success, that pause a row."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failing:
    """A row of which no cell has succeeded yet."""

    causes: set[str] = field(default_factory=set)
    example: str = ""
    """Its last failure in words, numbers and all."""
    failed: int = 0
    paused: bool = False
    before: set[str] = field(default_factory=set)
    """The cause for which an earlier session has paused it."""


class RowPauses:
    """Takes note of outcomes, whichever process or person they come from.

    A judge that is never readable, or a protocol with a typo after its fifth speech, fails in every
    cell, and each cell pays for its calls.
    """

    def __init__(self, rows: Sequence[Row], *, active: bool = True) -> None:
        """active: whether rows are paused at all."""
        self._rows = rows
        self._active = active
        self._failing = {id(row): _Failing() for row in rows}
        """By the identity of the row, which the sweep keeps; without those that have succeeded."""
        self._any = False

    def resume(self, earlier: Iterable[tuple[Row, Failure | None]]) -> None:
        """Take note of what earlier sessions have left: the failure of each cell, or None. A row
        that they have paused is tried again, and paused at its first failure of the same cause."""
        for row, failure in earlier:
            if failure is None:
                self._failing.pop(id(row), None)
            elif (failing := self._failing.get(id(row))) is not None:
                failing.failed += 1
                failing.causes.add(_cause(failure))
        for failing in self._failing.values():
            if failing.failed >= FAILED_ALIKE and len(failing.causes) == 1:
                failing.before, failing.causes, failing.failed = failing.causes, set(), 0

    def completed(self, cells: Iterable[RecordedCell]) -> None:
        """Take note of cells that have just ended."""
        for cell in cells:
            if self._failing:
                self.note(self._rows[cell.row], cell.outcome)

    def note(self, row: Row, outcome: CellOutcome | NotRun) -> None:
        failing = self._failing.get(id(row))
        if failing is None or failing.paused or isinstance(outcome, NotRun):
            return
        if not isinstance(outcome, Failure):
            del self._failing[id(row)]
        elif outcome.kind != NOT_RUN:
            failing.failed += 1
            failing.causes.add(_cause(outcome))
            failing.example = f"{outcome.kind}: {outcome.message}"
            enough = 1 if failing.causes == failing.before else FAILED_ALIKE
            if self._active and failing.failed >= enough and len(failing.causes) == 1:
                failing.paused = self._any = True
                told = row.title, max(failing.failed, FAILED_ALIKE), failing.example
                log.warning("%s: paused: its first %d cells all failed: %s", *told)

    def paused(self, row: Row) -> bool:
        """Whether no further cell of a row is to begin."""
        return self._any and (failing := self._failing.get(id(row))) is not None and failing.paused

    def halt(self, left: Iterable[Cell]) -> RowsPaused | None:
        """What to stop with if cells were not begun since their rows are paused. left: cells
        without an outcome."""
        if not self._any:
            return None
        cells = [cell for cell in left if self.paused(cell.row)]
        if not cells:
            return None
        rows = {id(cell.row): cell.row for cell in cells}.values()
        told = "; ".join(f"{row.title}: {self._failing[id(row)].example}" for row in rows)
        return RowsPaused(
            f"{len(cells):,} cells were not begun, since the first {FAILED_ALIKE} of their row all "
            f"failed for one cause ({told}). Put that right and run it again, or go on "
            "regardless with --keep-going"
        )


def _cause(outcome: Failure) -> str:
    """What failures of one cause have in common: what models say differs from cell to cell."""
    if outcome.unread:
        return outcome.kind
    return f"{outcome.kind}: {re.sub('[0-9]+', '0', outcome.message)}"
