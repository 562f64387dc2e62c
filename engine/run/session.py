"""Executors in this process: models behind a cache over the store."""

import math
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TypeAlias

from ...cache.cache import Cache, CacheStatistics, Mode
from ...cache.store import Store
from ..display.progress import Snapshot
from ..errors import Halt
from ..models.accounting.ledger import Ledger, UsageTotals, sum_usage
from ..models.router import Models
from ..providers.prompt_cache import shared_beginning
from ..sweep.sweep import Cell
from ..system.garbage import YOUNG, gc_relaxed
from .canaries import CANARIES, FREE_PATIENCE, ComposedTwice, RowWatch
from .dry_run import chains
from .executor import Assignment
from .lanes import run_lanes
from .record.capture import Capture
from .rounds import MakeRounds, one_round
from .scheduler import NotedOutcome

YOUNG_IN_ROUNDS = 5_000
"""Few: most attempts of a round leave garbage, and no calls in flight make a collection slow."""


class LocalExecutor:
    """Models behind a cache over the store, and what is told of them."""

    def __init__(
        self,
        models: Models,
        store: Store,
        mode: Mode = "use",
        run_id: str = "",
        paid: set[str] | None = None,
        rounds: MakeRounds = one_round,
    ) -> None:
        """models: prepared; `close` closes them. paid: as `Cache` has it."""
        self.models = models
        self.cache = Cache(
            store,
            models,
            identity=models.identity,
            mode=mode,
            origin=models.origin,
            run_id=run_id,
            paid=paid,
            shared=shared_beginning,
            tags=models.tags,
        )
        self.rounds = rounds(self.cache)

    async def close(self) -> None:
        await self.rounds.close()
        await self.models.close()

    @property
    def statistics(self) -> CacheStatistics:
        return self.rounds.counted(self.cache.statistics)

    def accounts(self) -> dict[str, UsageTotals]:
        return self.models.accounts()

    def lines(self) -> tuple[str, ...]:
        return (*self.rounds.lines(self.models.lines()),)

    @property
    def awaited(self) -> str:
        return self.rounds.awaited

    @property
    def in_flight(self) -> int:
        return self.models.in_flight

    @property
    def ledger(self) -> Ledger:
        return self.models.ledger

    def standing(
        self,
        total: int,
        finished: int,
        failed: int,
        *,
        refused: int,
        spend: str,
        halt: Halt | None,
    ) -> Snapshot:
        """The state of the run for observers; the executor itself does not know the parameters."""
        calls = self.statistics
        return Snapshot(
            total,
            finished,
            failed,
            calls.asked,
            calls.stored,
            calls.shared,
            refused,
            spend,
            self.lines(),
            note=f"stopping: {halt}" if halt else "",
            in_flight=self.in_flight,
            at_risk=sum_usage(self.accounts().values()).at_risk,
            awaited=self.awaited,
        )


class RunSession(LocalExecutor):
    """One session of a run, from its start or resume to its end or its stop."""

    def __init__(self, assignment: Assignment) -> None:
        loaded = assignment.loaded
        loaded.models.prepare(loaded.sweep.roles, assignment.policy)
        paid = set[str]()
        self._assignment = assignment
        super().__init__(
            loaded.models,
            assignment.store,
            assignment.mode,
            assignment.run_id,
            paid,
            assignment.rounds,
        )
        ask_of = None if assignment.later is None else assignment.later.ask_of
        self._attempt = ComposedTwice(self.cache, ask_of, self.cache.shared_work)
        self._under_way = 0
        """Cells that are being attempted in this round."""
        self._capture = Capture(
            loaded.sweep,
            loaded.models.identity,
            loaded.models.priced(assignment.policy.prices),
            paid,
            live=loaded.models.origin,
            run=self.cache.token,
        )

    async def run(self) -> Halt | None:
        assignment, stop_token = self._assignment, self._assignment.loaded.stop_token
        folder = assignment.folder
        with gc_relaxed(YOUNG_IN_ROUNDS if self.rounds.deferred else YOUNG):
            async with self.cache:
                async with aclosing(self.rounds.of(assignment.missing)) as rounds:
                    async for cells in rounds:
                        await self._attempt_all(cells)
                        await assignment.flush()
                if stop_token.halt is None and (halt := assignment.halted()) is not None:
                    stop_token.stop(halt)
                if folder.complete:
                    await self.rounds.finish()
        return None if folder.complete else stop_token.halt

    @property
    def max_cells(self) -> int:
        """Cells that may be under way now."""
        assignment = self._assignment
        if assignment.loaded.file.top.max_cells is not None or assignment.mode == "replay":
            return assignment.lanes
        # Slots that a server has stated since the run began count too.
        return self.models.cells_at_once(assignment.loaded.sweep.models)

    def lines(self) -> tuple[str, ...]:
        lines = super().lines()
        if self._under_way >= self.max_cells and not self.models.busy:
            lines = (*lines, f"limited by max_cells {self.max_cells:,}: the models have free slots")
        return lines

    async def _attempt_all(self, cells: Iterable[Cell]) -> None:
        assignment, stop_token = self._assignment, self._assignment.loaded.stop_token
        self._under_way = 0
        if self.rounds.deferred or assignment.later or assignment.mode == "replay":
            await self._work(cells, self._keep)
            return
        free = not self.models.bills
        sweep, longest = assignment.loaded.sweep, dict[str, int]()
        if free and self.models.statistics():
            try:
                steps = await chains(sweep, self.models.simulated)
                longest = {row: len(each) for row, each in steps.items()}
            except Halt as halt:
                stop_token.stop(halt)
                return
        watch = RowWatch(
            cells,
            stop_token,
            assignment.pauses,
            total=len(sweep) - assignment.folder.finished,
            canaries=assignment.loaded.file.top.max_cells or CANARIES,
            patience=FREE_PATIENCE if free else math.inf,
            chains=longest,
        )

        def keep(cell: Cell, end: NotedOutcome) -> None:
            self._keep(cell, end)
            watch.completed(cell, end.outcome)

        await self._work(watch, keep, watch.more)

    async def _work(
        self,
        cells: Iterable[Cell],
        keep: Callable[[Cell, NotedOutcome], None],
        more: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        await run_lanes(
            cells,
            self._begin,
            keep,
            lanes=lambda: self.max_cells,
            stop_token=self._assignment.loaded.stop_token,
            waits=lambda: self.cache.waits,
            more=more,
        )

    def _begin(self, cell: Cell) -> Awaitable[NotedOutcome]:
        self._under_way += 1
        return self._attempt(cell)

    def _keep(self, cell: Cell, end: NotedOutcome) -> None:
        self._under_way -= 1
        self._assignment.keep((self._capture.cell(cell, end.outcome, end.notes),))


MakeExecutor: TypeAlias = Callable[[Assignment], RunSession]
