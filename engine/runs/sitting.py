"""A sitting: the cells of a sweep that have no outcome yet, run into its run folder."""

from cache.cached import Cache
from engine.errors import Halt, RunFolderError, StoreStopped
from engine.limits.latch import Latch
from engine.runs.collector import rare_collections
from engine.runs.outcome import line
from engine.runs.runfolder import RunFolder
from engine.runs.scheduler import Outcome, run_cells
from engine.sweeps.sweep import Cell, Sweep
from protocols.transcript import Failure


class Sitting:
    """One go at a sweep, from start or resume to its end or its stop."""

    def __init__(self, sweep: Sweep, folder: RunFolder, cache: Cache, latch: Latch) -> None:
        self.sweep = sweep
        self.folder = folder
        self.cache = cache
        self.latch = latch

    async def run(self, lanes: int) -> Halt | None:
        """Run what is missing; why it stopped early, or None when every cell has an outcome.

        Replies in flight at a stop land and are saved before this returns. When cancelled they
        are abandoned, which may mean paid for in vain, and what had landed is saved.
        """
        todo = (cell for cell in self.sweep.cells() if not self.folder.has(cell.place))
        try:
            with rare_collections():
                await run_cells(
                    todo,
                    self.cache,
                    self._keep,
                    lanes=lanes,
                    latch=self.latch,
                    waits=lambda: self.cache.waits,
                )
        except BaseException:
            await self.cache.abandon()
            self._count_unsaved()
            raise
        await self.cache.close()
        self._count_unsaved()
        if not self.folder.complete:
            return self.latch.halt
        try:
            self.folder.settle()
        except RunFolderError as fault:
            return StoreStopped(str(fault))
        return None

    def _count_unsaved(self) -> None:
        if self.latch.halt is not None:
            self.latch.halt.unsaved = self.cache.statistics.unsaved

    def _keep(self, cell: Cell, outcome: Outcome) -> None:
        self.folder.append(cell.place, line(cell, outcome), failed=isinstance(outcome, Failure))
