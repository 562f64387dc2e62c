"""Checks of the first cell of each row: repeatable, and not already paid in another store."""

import logging
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from ...cache.call import Call, Exchange, store_key
from ...cache.call_diff import differences
from ...cache.errors import StoreError
from ...cache.reply import Reply
from ...protocols.transcript import NOT_RUN, Failure, Verdict
from ..errors import Pending
from ..sweep.sweep import Cell, Row
from .folders import remembered_store, sibling_runs
from .lanes import NotedOutcome, attempt_noted
from .run import Run
from .schedule import UNREPEATABLE
from .settings import open_for_reading, shown_name, store_name

COMPOSED = 12
"""How often a first cell is composed again: a protocol that tosses a coin differs once at least."""

log = logging.getLogger(__name__)


class FirstCells:
    """Composes the first cell of each row again, from its replies.

    A protocol must ask equal calls each time: otherwise it is paid twice and cannot be replayed."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._unchecked = {row.address for row in rows}

    async def checked(self, cell: Cell, first: NotedOutcome) -> NotedOutcome:
        """The outcome of a cell; a Failure for the first of its row if it is not repeatable."""
        if cell.row.address not in self._unchecked or not isinstance(first.outcome, Verdict):
            return first
        self._unchecked.discard(cell.row.address)
        for _ in range(COMPOSED):
            if difference := await _difference(cell, first):
                return NotedOutcome(Failure(UNREPEATABLE, difference), first.notes)
        return first


async def _difference(cell: Cell, first: NotedOutcome) -> str:
    """How a cell differs when it is composed again from its replies; empty if it does not."""
    notes = {note.call.address: note for note in first.notes if isinstance(note, Exchange)}
    again, other = set[str](), list[Call]()

    async def ask(call: Call) -> Reply:
        again.add(call.address)
        if call.address not in notes:
            other.append(call)
            raise Pending
        return notes[call.address].reply

    outcome = (await attempt_noted(cell, ask, failed=_stopped)).outcome
    if other:
        difference = nearest_difference((note.call for note in notes.values()), other[0])
        where = f" ({difference:.200})"
    elif again != notes.keys():
        where = f" ({len(again)} calls, {len(notes)} before)"
    elif outcome != first.outcome:
        return "composed twice, its verdicts differ: take randomness and time from ask"
    else:
        return ""
    return f"composed twice, its calls differ: take randomness from ask{where}"


def nearest_difference(calls: Iterable[Call], other: Call) -> str:
    """How another call differs from the most similar of these calls."""
    lines = [differences(call, other) for call in calls]
    nearest = min(lines, key=lambda line: (len(line), sum(map(len, line))), default=())
    return nearest[0] if nearest else "it asks a call that it did not ask before"


async def name_other_stores(run: Run) -> None:
    """Warn where a run next to this one keeps replies that this run's store lacks."""
    ours, others = shown_name(store_name(run.settings.store)), dict[str, Path]()
    for folder in sibling_runs(run.folder.path):
        others.setdefault(remembered_store(folder), folder)
    if not others.keys() - {"", ours}:
        return
    keys, rows = list[str](), set[str]()

    async def ask(call: Call) -> Reply:
        keys.append(store_key(call.address, run.loaded.models.identity(call)))
        raise Pending

    for cell in run.loaded.sweep.cells(run.folder.ended()):
        if cell.row.address not in rows:
            rows.add(cell.row.address)
            await attempt_noted(cell, ask, failed=_stopped)
    lacking = [*set(keys).difference(run.store.get_many(keys))]
    for name in others.keys() - {"", ours} if lacking else ():
        try:
            with closing(open_for_reading(name)) as store:
                if store.get_many(lacking):
                    log.warning(
                        "%s has replies to calls of this run, and %s lacks them: to reuse them, "
                        "stop and add --store %s (%s left them there)",
                        *(name, ours, name, others[name]),
                    )
        except StoreError as fault:
            log.info("%s: %s", name, fault)


def _stopped(cell: Cell, raised: BaseException) -> Failure:
    return Failure(NOT_RUN, str(raised))
