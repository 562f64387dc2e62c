"""The first cell of each row, composed before the run asks anything."""

import logging
from collections.abc import Iterable
from contextlib import closing

from ...cache.address import store_key
from ...cache.call import Call, Identity
from ...cache.errors import StoreError
from ...cache.reply import Reply
from ...cache.store import Reader
from ...protocols.transcript import NOT_RUN, Failure
from ..errors import Pending
from ..sweep.sweep import Cell
from .lanes import attempt_noted
from .stores import open_for_reading

log = logging.getLogger(__name__)


async def first_calls(cells: Iterable[Cell]) -> list[Call]:
    """The calls that the first of these cells in each row asks before it has a reply."""
    calls: list[Call] = []
    rows = set[str]()

    async def ask(call: Call) -> Reply:
        calls.append(call)
        raise Pending

    for cell in cells:
        if cell.row.address not in rows:
            rows.add(cell.row.address)
            await attempt_noted(cell, ask, failed=_stopped)
    return calls


async def stores_with_replies(
    cells: Iterable[Cell], identity: Identity, ours: Reader, others: Iterable[str]
) -> list[str]:
    """The other stores that hold a reply to a first call which our store lacks.

    others: names of stores. One that cannot be opened is left out.
    """
    keys = [store_key(call.address, identity(call)) for call in await first_calls(cells)]
    stored = ours.get_many(keys)
    lacking = [key for key in keys if key not in stored]
    names: list[str] = []
    for name in others if lacking else ():
        try:
            with closing(open_for_reading(name)) as store:
                if store.get_many(lacking):
                    names.append(name)
        except StoreError as fault:
            log.info("%s: %s", name, fault)
    return names


def _stopped(cell: Cell, raised: BaseException) -> Failure:
    return Failure(NOT_RUN, str(raised))
