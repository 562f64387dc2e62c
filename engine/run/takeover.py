"""Taking cells over from other runs: what was run with the same code is not run again.

A cell is known by its id, which is made of its problem, its row's settings, its side and its draw.
It is taken over where the code behind its row and the endpoints of its models are the same as well,
and where every reply that it rests on is still there: in the store of that run, in which nothing
has been replaced since it began; and if something was deleted, each is looked up.
"""

import asyncio
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...cache.address import store_key, value_address
from ...cache.errors import ReplayMiss
from ...cache.store import REPLACED, Store
from ...protocols.transcript import Failure
from ..errors import RunFolderError
from ..models.directory import ModelDirectory
from ..sweep.grid import joined_digest, models_in
from ..sweep.sweep import Cell, Sweep
from .folders import beside, is_as_left, touched
from .manifest import Manifest
from .outcome import OutcomeRecord
from .reader import RunReader
from .record.schema import WITHDRAWN
from .replay import replay_cells
from .run_folder import RunFolder

Moved = dict[int, tuple[int, int, int]]
"""By place of a cell in its source: its place, row and problem in this run."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken over from one run."""

    source: Path
    cells: int
    verified: int = 0
    """How many of them were replayed first, and gave the same."""


@dataclass(frozen=True)
class Takeover:
    """Cells of other runs, as those of a run that is about to begin or to go on."""

    sweep: Sweep
    folder: RunFolder
    """The folder of this run; open."""
    store: Store
    models: ModelDirectory
    verify: int = 0
    """How many cells of each source are replayed first."""

    def take(self, named: Sequence[Path]) -> Iterator[Taken]:
        """Take over from these runs: RunFolderError for one from which nothing can be taken. None:
        from those beside this one; those that have nothing, cannot be read, or are not as this
        machine left them are passed over. RunFolderError where a replay disagrees."""
        passed_over = () if named else RunFolderError
        for source in named or beside(self.folder.path):
            if self.folder.complete:
                return
            with RunReader(source) as run:
                try:
                    rows = self._rows_of(run)
                    if not is_as_left(source):
                        # It may have been elsewhere since: whoever relies on it names it.
                        if not named:
                            continue
                        _read(run)
                    moved = self._cells(run, rows)
                except passed_over:
                    continue
                verified = self._verified(run, moved) if self.verify else 0
            if moved:
                self.folder.take(source, moved)
            if moved:
                yield Taken(source, len(moved), verified)

    def _rows_of(self, run: RunReader) -> dict[int, int]:
        """Number of a row of the source -> that of the same row here. RunFolderError if there is
        none, and if its replies may be gone."""
        source, manifest, grid = run.folder, run.manifest, run.sweep
        if fault := _unfit(run, manifest, self.store):
            raise RunFolderError(f"{source}: nothing can be taken over: {fault}")
        ours = {row.address: number for number, row in enumerate(self.sweep.rows)}
        theirs, here = manifest.code, self.folder.manifest.code
        shared = {}
        for number, row in enumerate(grid.rows):
            known = set(theirs.rows.get(row.address, ()))
            same_code = len(known) == 1 and known == {*here.rows.get(row.address, ())[-1:]}
            if same_code and all(
                grid.identities.get(model) == self.sweep.identities.get(model)
                for model in models_in(row.settings)
            ):
                shared[number] = ours[row.address]
        if not shared:
            raise RunFolderError(
                f"{source}: nothing can be taken over: no row of it has the settings, the code and "
                "the endpoints of a row of this sweep"
            )
        return shared

    def _cells(self, run: RunReader, rows: dict[int, int]) -> Moved:
        """The cells of the source that this run lacks."""
        grid, ours = run.sweep, self.sweep
        numbers = {problem.id: number for number, problem in enumerate(ours.problems)}
        same = [numbers.get(problem.id) for problem in grid.problems]
        # Neighbouring cells are of one problem.
        about = lru_cache(64)(lambda number: joined_digest(value_address(ours.problems[number])))
        moved: Moved = {}
        for cells in run.tables.stored():
            for theirs, id, row, problem, side, draw, status, _, _, failure, *_ in cells:
                # Running it again can only give the same.
                lasts = status < WITHDRAWN and (not failure or Failure(failure, "").unread)
                here, number = rows.get(row), same[problem]
                if not lasts or here is None or number is None or not 0 <= draw < ours.draws:
                    continue
                answers = len(ours.problems[number].values)
                first = ours.span(number).start + (draw * len(ours.rows) + here) * answers
                place = first + side
                if not 0 <= side < answers or self.folder.has(place):
                    continue
                address = ours.rows[here].address
                known = joined_digest(about(number), address, str(side), str(draw))[:16]
                if known == id.hex():
                    moved[theirs] = place, here, number
        return moved

    def _verified(self, run: RunReader, moved: Moved) -> int:
        """Replay some cells of the source; how many. RunFolderError if one gives something else."""
        chosen = random.Random(self.sweep.seed).sample(sorted(moved), min(self.verify, len(moved)))
        recorded = run.records(chosen)
        expected = {moved[theirs][0]: recorded[theirs] for theirs in chosen}
        cells = [
            cell
            for number in sorted({self.sweep.problem_at(place) for place in expected})
            for cell in self.sweep.cells_of(number)
            if cell.place in expected
        ]
        source, different = run.folder, list[Cell]()

        def compare(cell: Cell, outcome: OutcomeRecord, _: object) -> None:
            if outcome.figures != expected[cell.place].figures:
                different.append(cell)

        try:
            identity, tags = self.models.identity, self.models.tags
            asyncio.run(replay_cells(cells, self.store, identity, compare, tags=tags))
        except ReplayMiss as exc:
            raise RunFolderError(f"{source}: nothing is taken over: {exc}") from exc
        for other in different:
            raise RunFolderError(
                f"{source}: cell {other.id} ({other.row.kind}, {other.problem.id}) does not give "
                "today what was recorded, so that nothing is taken over: see what differs with "
                f"oversight replay {source}, or take from another run with --from"
            )
        return len(cells)


def _read(run: RunReader) -> None:
    """Read all of it, so that damage is found before anything is taken."""
    deque(run.outcomes(), 0)
    deque(run.tables.batches("calls", "call"), 0)


def _unfit(run: RunReader, manifest: Manifest, store: Store) -> str:
    """Why it cannot be relied upon that a store has the replies of a run; empty if it can."""
    if not store.id or manifest.store_id != store.id:
        return "its replies are in another store"
    then, now = manifest.losses, store.losses
    if then is None or now is None:
        return "nobody counts what is deleted from its store"
    if then // REPLACED != now // REPLACED:
        return "replies were replaced in its store since it began"
    if (then != now or len(store) < manifest.replies) and not _all_held(run, store):
        return "replies were deleted from its store since it began"
    return ""


def _all_held(run: RunReader, store: Store) -> bool:
    """Whether a store has every reply that the outcomes of a run rest on."""
    keys = [
        store_key(address, identity)
        for address, identity in run.tables.fetched(
            "SELECT lower(hex(address)), identity FROM calls JOIN endpoints USING(endpoint)"
        )
    ]
    different = set(keys)
    return all(keys) and store.held([*different], touched(run.folder)) == len(different)
