"""A sitting: the cells of a sweep that have no outcome yet, run into its run folder."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from oversight.cache.cache import Cache
from oversight.engine.errors import Halt, RunFolderError, StoreFailed
from oversight.engine.runs.outcome import line
from oversight.engine.runs.run_folder import RunFolder
from oversight.engine.runs.scheduler import CellOutcome, run_cells
from oversight.engine.stop import StopToken
from oversight.engine.sweeps.sweep import Cell, Sweep
from oversight.engine.system.garbage import gc_relaxed
from oversight.protocols.transcript import Failure

Batches: TypeAlias = Callable[[RunFolder], Iterable[Iterable[Cell]]]


class RunSession:
    """One go at a sweep, from start or resume to its end or its stop."""

    def __init__(
        self, sweep: Sweep, folder: RunFolder, cache: Cache, stop_token: StopToken
    ) -> None:
        self.sweep = sweep
        self.folder = folder
        self.cache = cache
        self.stop_token = stop_token

    async def run(self, lanes: int, batches: Batches | None = None) -> Halt | None:
        """Run what is missing; why it stopped early, or None when every cell has an outcome.

        Replies in flight at a stop land and are saved before this returns. When cancelled they
        are abandoned, which may mean paid for in vain, and what had landed is saved.

        batches: missing cells, one batch after the other; the next is asked for when all of one
        have landed, and where there is none the run has told enough. None: all cells in one.
        """
        try:
            with gc_relaxed():
                for cells in batches(self.folder) if batches else (self._missing(),):
                    await run_cells(
                        cells,
                        self.cache,
                        self._keep,
                        lanes=lanes,
                        stop_token=self.stop_token,
                        waits=lambda: self.cache.waits,
                    )
                    if self.stop_token.halt is not None:
                        break
        except BaseException:
            await self.cache.abandon()
            self._count_unsaved()
            raise
        await self.cache.close()
        self._count_unsaved()
        if self.stop_token.halt is not None and not self.folder.complete:
            return self.stop_token.halt
        try:
            self.folder.settle()
        except RunFolderError as fault:
            return StoreFailed(str(fault))
        return None

    def _missing(self) -> Iterator[Cell]:
        return (cell for cell in self.sweep.cells() if not self.folder.has(cell.place))

    def _count_unsaved(self) -> None:
        if self.stop_token.halt is not None:
            self.stop_token.halt.unsaved = self.cache.statistics.unsaved

    def _keep(self, cell: Cell, outcome: CellOutcome) -> None:
        self.folder.append(cell.place, line(cell, outcome), failed=isinstance(outcome, Failure))
