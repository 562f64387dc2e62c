"""A run read again from its store, cell by cell, with the calls that each cell asks."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from ...cache.address import store_key
from ...cache.call import Call, Identity
from ...cache.errors import ReplayMiss
from ...cache.record import stored_at, stored_reply
from ...cache.reply import Reply
from ...cache.store import Reader
from ..runs.loaded_sweep import LoadedSweep
from ..runs.scheduler import CellOutcome, attempt
from ..sweeps.sweep import Cell


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call of a run with its reply, as the store has them."""

    key: str
    call: Call
    reply: Reply
    stored_at: int
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class ReplayedCell:
    """A cell as it was run again."""

    cell: Cell
    outcome: CellOutcome | None
    """None where the store lacks a call of it."""
    calls: dict[str, Recorded]
    """The calls that it asked, by address."""
    missed: ReplayMiss | None = None
    """The call that the store lacks."""


async def replayed_cells(
    opened: LoadedSweep, cells: Iterable[Cell], store: Reader
) -> AsyncIterator[ReplayedCell]:
    """Cells run again from a store, in the order given, which is best that of the sweep.

    DamagedEntry becomes StoreFailed, as in a run.
    """
    recorded = _Store(store, opened.models.identity_in(store))
    for cell in cells:
        recorded.begin(cell)
        outcome: CellOutcome | None = None
        missed: ReplayMiss | None = None
        try:
            outcome = await attempt(cell, recorded)
        except ReplayMiss as miss:
            missed = miss
        yield ReplayedCell(cell, outcome, recorded.asked, missed)


class _Store:
    """An `Ask` that answers from a store alone and remembers what one problem asks: its rows and
    worlds share many calls, and those of other problems hardly any."""

    def __init__(self, store: Reader, identity: Identity) -> None:
        self.asked: dict[str, Recorded] = {}
        self._store = store
        self._identity = identity
        self._known: dict[str, Recorded] = {}
        self._problem = ""

    def begin(self, cell: Cell) -> None:
        self.asked = {}
        if cell.problem.id != self._problem:
            self._problem = cell.problem.id
            self._known.clear()

    async def __call__(self, call: Call) -> Reply:
        address = call.address
        found = self._known.get(address)
        if found is None:
            key = store_key(address, self._identity(call))
            value = self._store.get(key)
            if value is None:
                raise ReplayMiss(call.model, address)
            reply = stored_reply(key, value, address)
            found = self._known[address] = Recorded(key, call, reply, stored_at(key, value))
        self.asked[address] = found
        return found.reply
