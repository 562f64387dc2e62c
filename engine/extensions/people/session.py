"""People in the seats of a sweep: their desk, as the sessions of a run see it.

A call does not say of which row and world it is, because nothing that it holds may differ between
worlds unless what its reader may know differs. So the cell that asks says it, beside the call and
before it.
"""

from collections.abc import Iterable

from ....cache.call import Ask, Call
from ....cache.reply import Reply
from ...run.batching import AnsweredLater
from ...sweep.sweep import Cell
from .desk import Desk
from .panel import PERSON
from .pool import TaskPool


class SeatedPersons(AnsweredLater):
    """The people of a sweep, who answer at a desk."""

    def __init__(self, desk: Desk, panels: Iterable[str]) -> None:
        self._desk = desk
        self.models = tuple(f"{PERSON}{panel}" for panel in panels)

    def ask_of(self, cell: Cell, ask: Ask) -> Ask:
        return expecting(cell, self._desk.pool, ask)

    def has_answered(self, call: Call) -> bool:
        return self._desk.put(call)

    @property
    def answers(self) -> int:
        return len(self._desk.history.settled)

    @property
    def open(self) -> int:
        return len(self._desk.pool.waiting)

    async def news(self, most: float) -> None:
        await self._desk.news(most)


def expecting(cell: Cell, pool: TaskPool, ask: Ask) -> Ask:
    """The `Ask` of one cell: persons' tasks are expected in the pool before they come."""
    row, world = cell.row.address[:12], f"{cell.problem.values[cell.side]:+g}"

    async def expect_and_ask(call: Call) -> Reply:
        if call.model.startswith(PERSON):
            pool.expect(call.address, row, world)
        return await ask(call)

    return expect_and_ask
