"""Sessions: the cells of a run, attempted in their order in this process."""

from collections.abc import Awaitable, Iterator, Mapping

from ..errors import Halt, UsageError
from ..models.accounting.ledger import UsageTotals
from ..sweep.sweep import Cell
from ..system.garbage import YOUNG, gc_relaxed
from .canaries import CANARIES, FREE_PATIENCE, Canaries, Pauses
from .dry_run import chains
from .executor import LocalExecutor
from .lanes import REPLAY_LANES, run_lanes
from .order import Order, Plain
from .record.capture import Capture
from .run import Run
from .scheduler import NotedOutcome, attempt_noted

YOUNG_IN_WAVES = 5_000
"""Few: most attempts of a wave leave garbage, and no calls in flight make a collection slow."""


class RunSession(LocalExecutor):
    """One session of a run, from its start or resume to its end or its stop."""

    def __init__(self, run: Run, before: Mapping[str, UsageTotals]) -> None:
        """before: what earlier sessions of the run paid, by model. UsageError."""
        loaded, settings = run.loaded, run.settings
        loaded.models.prepare(loaded.sweep.roles, run.policy(before))
        paid = set[str]()
        super().__init__(loaded.models, run.store, settings.cache, run.folder.id, paid)
        self._run = run
        self._keep = run.folder.put
        self._stop_token = loaded.stop_token
        cancels = settings.terms.cancels is not None
        if settings.cache != "replay" and (run.batched or run.has_batches or cancels):
            if settings.cache == "off":
                raise UsageError(
                    "what comes of a batch goes into the store, which --cache off does not write: "
                    "leave one of them out"
                )
            from .batching import BatchedWork, batching

            by = batching()
            assert by is not None, "there would be no batches"
            work = BatchedWork(
                run.folder.path,
                loaded.models,
                self.cache,
                settings.terms,
                run.batched,
                before,
                run.later,
                forgives=bool(run.run_again),
            )
            self.deferred = by.deferred(work)
        self._begun = self._kept = 0
        """Cells that were begun, and those of them that have ended with an outcome."""
        self._ended = bytearray(len(loaded.sweep))
        """1 at the place of each cell that this session has handed to the run folder."""
        models, token = loaded.models, self.cache.token
        self._capture = Capture(loaded.sweep, models, models.prices, paid, token)

    async def run(self) -> Halt | None:
        """Attempt what is missing; why it stopped early, or None once every cell has an outcome."""
        run, stop_token, pauses = self._run, self._stop_token, None
        try:
            order = await self.cells()
        except Halt as early:
            return early
        if run.settings.cache != "replay" and not run.settings.keep_going:
            order = pauses = Pauses(order, run.loaded.sweep.rows, run.earlier())
        with gc_relaxed(YOUNG if self.deferred is None else YOUNG_IN_WAVES):
            async with self.cache:
                await self.work(order)
                await run.folder.flush()
                if pauses and stop_token.halt is None and (halt := pauses.halt(self.missing())):
                    stop_token.stop(halt)
                if self.deferred is not None and run.folder.complete:
                    await self.deferred.finish()
        return None if run.folder.complete else stop_token.halt

    def missing(self) -> Iterator[Cell]:
        """The cells without an outcome, anew each time."""
        has, ended = self._run.folder.has, self._ended
        every = self._run.loaded.sweep.cells()
        return (cell for cell in every if not (ended[cell.place] or has(cell.place)))

    async def cells(self) -> Order[Cell, NotedOutcome]:
        """The order of the cells, whatever rows are paused."""
        run = self._run
        if self.deferred is not None:
            from .batching import Waves

            return Waves(self.missing, self.deferred)
        order: Order[Cell, NotedOutcome] = Plain(self.missing())
        if run.later is not None or run.settings.cache == "replay":
            return order
        sweep, most = run.loaded.sweep, run.loaded.file.top.max_cells or CANARIES
        left = len(run.folder) - run.folder.finished
        if self.models.bills:
            return Canaries(order, sweep.rows, total=left, canaries=most)
        walked = await chains(sweep, self.models.simulated)
        steps = {row: len(found) for row, found in walked.items()}
        patience = FREE_PATIENCE
        return Canaries(
            order, sweep.rows, total=left, canaries=most, patience=patience, steps=steps
        )

    async def work(self, order: Order[Cell, NotedOutcome]) -> None:
        """Attempt the cells of an order."""
        await run_lanes(
            order,
            self._attempt,
            self.keep,
            lanes=lambda: self.max_cells,
            stop_token=self._stop_token,
            waits=lambda: self.cache.waits,
        )

    def keep(self, cell: Cell, end: NotedOutcome) -> None:
        """Hand over how a cell ended. RunFolderError."""
        self._keep((self._capture.cell(cell, end.outcome, end.notes),))
        self._ended[cell.place] = 1
        self._kept += 1

    @property
    def max_cells(self) -> int:
        """Cells that may be under way now; slots that a server has stated since the run began
        count too."""
        loaded, mode = self._run.loaded, self._run.settings.cache
        if mode == "replay":
            return REPLAY_LANES
        return loaded.file.top.max_cells or self.models.cells_at_once(loaded.sweep.models)

    def lines(self) -> tuple[str, ...]:
        lines = super().lines()
        waits = self.deferred is not None or self._run.later is not None
        if not waits and self._begun - self._kept >= self.max_cells and not self.models.busy:
            lines = (*lines, f"limited by max_cells {self.max_cells:,}: the models have free slots")
        return lines

    def _attempt(self, cell: Cell) -> Awaitable[NotedOutcome]:
        self._begun += 1
        return self._delayed(cell) if self._run.folder.behind else self._noted(cell)

    async def _delayed(self, cell: Cell) -> NotedOutcome:
        """Hold the run up where the disk is slower, and not its cells in memory."""
        await self._run.folder.room()
        return await self._noted(cell)

    def _noted(self, cell: Cell) -> Awaitable[NotedOutcome]:
        if (later := self._run.later) is None:
            return attempt_noted(cell, self.cache, self.cache.shared_work)
        return attempt_noted(cell, later.ask_of(cell, self.cache))
