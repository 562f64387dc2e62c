"""Taking cells over from other runs: what was run with the same code is not run again.

A cell is known by its id, which is made of its problem, its row's settings, its side and its draw.
It is taken over where the code behind its row and the endpoints of its models are the same as well,
from a run that is as this machine left it, and whose replies are all still there: in the store of
this run, in which nothing has been deleted or replaced since it began. Everything else is run
again from the store, which gives the same.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ...cache.store import Store
from ...protocols.transcript import Failure
from ..errors import RunFolderError
from ..sweep.grid import models_in
from ..sweep.sweep import Cell, Sweep
from .folders import beside, is_as_left
from .manifest import Manifest
from .reader import RunReader
from .record.schema import WITHDRAWN
from .run_folder import RunFolder

Moved = dict[int, tuple[int, int, int]]
"""By place of a cell in its source: its place, row and problem in this run."""


def take_over(sweep: Sweep, folder: RunFolder, store: Store) -> Iterator[tuple[Path, int]]:
    """Take over from the runs beside an open one: (run, how many of its cells). Those that have
    nothing, or cannot be read, are passed over. RunFolderError if this one takes no more."""
    for source in beside(folder.path):
        if folder.complete:
            return
        with RunReader(source) as run:
            try:
                if not (is_as_left(source) and _is_whole(run.manifest, store)):
                    continue
                moved = _cells(run, _rows(run, sweep, folder), sweep, folder)
            except RunFolderError:
                continue
        if moved:
            folder.take(source, moved)
            yield source, len(moved)


def _is_whole(manifest: Manifest, store: Store) -> bool:
    """Whether it can be relied upon that a store has the replies of a run."""
    ours = store.id and manifest.store_id == store.id
    same = manifest.losses is not None and manifest.losses == store.losses
    return bool(ours and same and len(store) >= manifest.replies)


def _rows(run: RunReader, sweep: Sweep, folder: RunFolder) -> dict[int, int]:
    """Number of a row of a run -> that of the row here with the same settings, code and
    endpoints."""
    ours = {row.address: number for number, row in enumerate(sweep.rows)}
    theirs, here = run.manifest.code.rows, folder.manifest.code.rows
    shared = {}
    for number, row in enumerate(run.sweep.rows):
        known = set(theirs.get(row.address, ()))
        same_code = len(known) == 1 and known == {*here.get(row.address, ())[-1:]}
        if same_code and all(
            run.sweep.identities.get(model) == sweep.identities.get(model)
            for model in models_in(row.settings)
        ):
            shared[number] = ours[row.address]
    return shared


def _cells(run: RunReader, rows: dict[int, int], sweep: Sweep, folder: RunFolder) -> Moved:
    """The cells of these rows of a run that this one lacks."""
    numbers = {problem.id: number for number, problem in enumerate(sweep.problems)}
    same = [numbers.get(problem.id) for problem in run.sweep.problems]

    @lru_cache(64)  # neighbouring cells are of one problem
    def cells_of(number: int) -> dict[str, Cell]:
        return {cell.id: cell for cell in sweep.cells_of(number)}

    moved: Moved = {}
    for cells in run.tables.stored() if rows else ():
        for place, id, row, problem, _, _, status, _, _, failure, *_ in cells:
            number = same[problem]
            # Running it again can only give the same.
            lasts = status < WITHDRAWN and (not failure or Failure(failure, "").unread)
            if not lasts or row not in rows or number is None:
                continue
            cell = cells_of(number).get(id.hex())
            if cell is not None and not folder.has(cell.place):
                moved[place] = cell.place, rows[row], number
    return moved
