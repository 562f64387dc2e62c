"""Run sessions of sweeps with persons, which tell the desk the row and world of each call.

A call does not say so, because nothing that it holds may differ between worlds unless what its
reader may know differs. So the cell that asks says it, beside the call and before it.
"""

from collections.abc import Awaitable

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..runs.executor import Assignment
from ..runs.scheduler import CellEnd, attempt_noted
from ..runs.session import RunSession
from ..sweeps.sweep import Cell
from .panel import PERSON
from .pool import TaskPool


class PersonsSession(RunSession):
    """A go at a sweep that tells a pool of which row and world its tasks are."""

    has_canaries = False

    def __init__(self, assignment: Assignment, pool: TaskPool) -> None:
        super().__init__(assignment)
        self._pool = pool

    def _attempt(self, cell: Cell) -> Awaitable[CellEnd]:
        return attempt_noted(cell, expecting(cell, self._pool, self.cache))


def expecting(cell: Cell, pool: TaskPool, ask: Ask) -> Ask:
    """The `Ask` of one cell: persons' tasks are expected in the pool before they come."""
    row, world = cell.row.address[:12], f"{cell.problem.values[cell.side]:+g}"

    async def expect_and_ask(call: Call) -> Reply:
        if call.model.startswith(PERSON):
            pool.expect(call.address, row, world)
        return await ask(call)

    return expect_and_ask
