"""Sessions: the cells of a run, attempted in their order in this process."""

from collections.abc import Iterator, Mapping

from ..errors import Halt, UsageError
from ..models.accounting.ledger import UsageTotals
from ..sweep.sweep import Cell
from ..system.garbage import YOUNG, gc_relaxed
from .batching import batching
from .canaries import CANARIES, FREE_PATIENCE, Canaries, Pauses
from .dry_run import chains
from .executor import LocalExecutor
from .lanes import run_lanes
from .order import Order, order_of
from .record.capture import Capture
from .replay import REPLAY_LANES
from .run import Run
from .scheduler import NotedOutcome, attempt_noted

YOUNG_IN_WAVES = 5_000
"""Few: most attempts of a wave leave garbage, and no calls in flight make a collection slow."""


class RunSession(LocalExecutor):
    """One session of a run, from its start or resume to its end or its stop."""

    def __init__(self, run: Run, before: Mapping[str, UsageTotals]) -> None:
        """before: what earlier sessions of the run paid, by model. UsageError."""
        loaded, options = run.loaded, run.options
        policy = run.policy(before)
        loaded.models.prepare(loaded.sweep.roles, policy)
        paid = set[str]()
        super().__init__(loaded.models, run.store, options.mode, run.folder.id, paid)
        self._run = run
        self._stop_token = loaded.stop_token
        prices, cancels = loaded.models.priced(policy.prices), options.terms.cancels is not None
        if options.mode != "replay" and (run.batched or run.has_batches or cancels):
            if options.mode == "off":
                raise UsageError(
                    "what comes of a batch goes into the store, which --cache off does not write: "
                    "leave one of them out"
                )
            by = batching()
            assert by is not None, "there would be no batches"
            self.deferred = by.deferred(
                run.folder.path,
                loaded.models,
                self.cache,
                prices,
                options.terms,
                before,
                batched=run.batched,
                later=run.later,
                forgives=bool(run.run_again),
            )
        self._under_way = 0
        """Cells that are being attempted."""
        self._ended = bytearray(len(loaded.sweep))
        """1 at the place of each cell that this session has handed to the run folder."""
        self._capture = Capture(
            loaded.sweep,
            loaded.models.identity,
            prices,
            paid,
            live=loaded.models.origin,
            run=self.cache.token,
        )

    async def run(self) -> Halt | None:
        """Attempt what is missing; why it stopped early, or None once every cell has an outcome."""
        run, stop_token, order = self._run, self._stop_token, await self.cells()
        pauses = None
        if run.options.mode != "replay" and not run.options.keeps_going:
            order = pauses = Pauses(order, run.loaded.sweep.rows, run.earlier())
        with gc_relaxed(YOUNG if self.deferred is None else YOUNG_IN_WAVES):
            async with self.cache:
                await self.work(order)
                await run.flush()
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
        order: Order[Cell, NotedOutcome] = order_of(self.missing, self.deferred)
        if self.deferred is not None or run.later is not None or run.options.mode == "replay":
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
        self._run.keep((self._capture.cell(cell, end.outcome, end.notes),))
        self._ended[cell.place] = 1

    @property
    def max_cells(self) -> int:
        """Cells that may be under way now; slots that a server has stated since the run began
        count too."""
        loaded, mode = self._run.loaded, self._run.options.mode
        if mode == "replay":
            return REPLAY_LANES
        return loaded.file.top.max_cells or self.models.cells_at_once(loaded.sweep.models)

    def lines(self) -> tuple[str, ...]:
        lines = super().lines()
        if self._under_way >= self.max_cells and not self.models.busy:
            lines = (*lines, f"limited by max_cells {self.max_cells:,}: the models have free slots")
        return lines

    async def _attempt(self, cell: Cell) -> NotedOutcome:
        later = self._run.later
        self._under_way += 1
        try:
            if later is None:
                return await attempt_noted(cell, self.cache, self.cache.shared_work)
            return await attempt_noted(cell, later.ask_of(cell, self.cache))
        finally:
            self._under_way -= 1
