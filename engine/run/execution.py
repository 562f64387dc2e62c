"""Executes a run: attempts its cells, in this process or on several.

An extension starts other processes; it registers a `MakeSession` under `oversight.workers`."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from ..display.progress import Snapshot
from ..display.text import counted
from ..errors import BudgetReached, Halt, StoreFailed, UsageError
from ..models.accounting.ledger import UsageTotals, sum_usage
from ..models.accounting.ledger_file import LedgerFile
from ..models.router import Router
from ..providers.simulated import PREFIX
from ..sweep.code import user_classes
from ..sweep.sweep import Cell, Row, Sweep
from ..system.process import WORKERS_GROUP, YOUNG, gc_relaxed, load_function, registered
from .cached_models import CachedModels
from .dry_run import chains, require_abilities, require_service
from .events import MIXED, MixedReplies, add_event, ask_again
from .folders import sibling_runs
from .lanes import REPLAY_LANES, attempt_noted, run_lanes
from .later import ExecutionWork, added_to, entries
from .observer import Observer, ProgressNotes, store_watermark
from .record.capture import Capture
from .record.values import RecordedCell
from .run import Run
from .run_folder import QUARANTINE
from .schedule import InOrder, Schedule, StagedStart

if TYPE_CHECKING:
    from .first_cells import FirstCells

YOUNG_IN_PASSES = 5_000
"""Few: most attempts of a pass leave garbage, and no calls in flight make a collection slow."""

WALKED_ROWS = 20
"""Rows of which a cell is walked at the start, to forecast the calls of all."""
PLANNED_CELLS = 20
"""Cells whose weight the plan has among those that have ended, when calls are forecast."""

log = logging.getLogger(__name__)


class RunSession(CachedModels):
    """One session of a run, from its start or resume to its end or its stop."""

    holds_back: ClassVar[bool] = True
    """Whether the first cells of a row go before its others."""

    def __init__(self, run: Run, before: Mapping[str, UsageTotals]) -> None:
        """before: the accounts of earlier sessions of the run, by model. UsageError."""
        loaded, settings = run.loaded, run.settings
        roles = () if settings.cache == "replay" else loaded.sweep.roles  # it asks no model
        router = Router(
            *(loaded.models, roles, run.accounting(before), loaded.stop_token),
            quarantine=run.folder.path / QUARANTINE,
            answering=loaded.answering,
            give_up=settings.give_up,
        )
        paid = set[str]()
        super().__init__(router, run.store, settings.cache, run.folder.manifest.id, paid)
        self._run = run
        self._stop_token = loaded.stop_token
        if settings.cache != "replay":
            self.added = added_to(
                ExecutionWork(
                    *(run.folder.path, router, loaded.sweep.models, self.cache, settings),
                    *(settings.cache, before, bool(run.run_again)),
                )
            )
        if self.added is not None and not self.holds_back:
            raise UsageError(
                "replies that come later are waited for by one process: leave --workers and --ray "
                "out"
            )
        self._mixed, self.dropped = False, 0
        """Whether replies that may be mixed up are to be asked for again; how many were deleted."""
        router.on_mixed = self.mix_up
        self._begun = self._kept = self._missing = 0
        """Number of cells that were begun, that have ended with an outcome, and that had none."""
        self._planned, self._asked = 0.0, 0
        """Calls of a cell as planned, and of all cells that have ended."""
        self._ended = run.folder.ended()
        """By place, 0 for a cell without an outcome. The run folder may get an outcome later."""
        prices, token = router.accounting.prices, self.cache.token
        self._capture = Capture(loaded.sweep, loaded.models, prices, paid, token)
        self._first_cells = first_cells(loaded.sweep.rows)

    async def end(self) -> Halt | None:
        """End the work of earlier sessions that outlives them, such as calls at a vendor. Returns
        the reason if that stopped early."""
        if self.added is not None:
            async with self.cache:
                await self.added.end()
        return self._stop_token.halt if self.pending or not self._run.folder.complete else None

    async def run(self) -> Halt | None:
        """Attempt what is missing; why it stopped early, or None once every cell has an outcome."""
        run, stop_token = self._run, self._stop_token
        try:
            schedule = await self.cells()
        except Halt as early:
            return early
        with gc_relaxed(YOUNG if self.added is None else YOUNG_IN_PASSES):
            async with self.cache:
                await self.work(schedule)
                await self.models.quiet_down()
                await run.folder.group.flush()
                while self._mixed and stop_token.halt is None:
                    schedule = await self._again()
                    await self.work(schedule)
                    await run.folder.group.flush()
                if isinstance(schedule, StagedStart) and (halt := schedule.halt(self.missing())):
                    stop_token.stop(halt)
                if self.added is not None and run.folder.complete:
                    await self.added.end()
        return stop_token.halt if self.pending or not run.folder.complete else None

    def mix_up(self, provider: str, calls: tuple[str, ...]) -> None:
        """Note that a provider may have mixed up its replies to calls."""
        self._mixed = True
        add_event(self._run.folder.path, MIXED, MixedReplies(provider, calls))

    async def _again(self) -> Schedule[Cell, RecordedCell]:
        """The cells that rest on replies that may have been mixed up, once these are dropped."""
        run, self._mixed = self._run, False
        stored = run.settings.cache in ("use", "refresh")
        before = run.folder.finished
        keys = ask_again(run.folder.path, run.store if stored else None, run.folder.forget_calls)
        self.dropped += len(keys)
        self.cache.forget(keys)
        self._ended[:] = run.folder.ended()
        cells = counted(before - run.folder.finished, "cell")
        log.warning("%s run again, since replies may have been mixed up", cells)
        return await self.cells()

    def missing(self) -> Iterator[Cell]:
        """The cells without an outcome, as of now."""
        return self._run.loaded.sweep.cells(self._ended)

    async def cells(self) -> Schedule[Cell, RecordedCell]:
        run, sweep = self._run, self._run.loaded.sweep
        missing_count = len(run.folder) - run.folder.finished
        self._missing = self._kept + missing_count
        schedule: Schedule[Cell, RecordedCell] = InOrder(self.missing())
        if self.added is not None:
            schedule = self.added.schedule(self.missing)
        if run.settings.cache == "replay":
            return schedule
        ordered = self.holds_back and self.added is None
        by_length = ordered and not self.models.bills and bool(self.models.statistics())
        sampled = sweep.rows[:: -(-len(sweep.rows) // WALKED_ROWS)]
        # Code of users runs in its cells alone: elsewhere a fault in it would stop the run.
        rows = sweep.rows if by_length else [row for row in sampled if not user_classes(row)]
        sample = Sweep(sweep.name, sweep.problems, tuple(rows))
        walked = await chains(sample, run.loaded.models.simulated)
        self._planned = sum(sum(map(len, chain)) for chain in walked.values()) / max(len(walked), 1)
        earlier = None if run.settings.keep_going else run.earlier()
        if not ordered:
            return StagedStart(schedule, sweep.rows, earlier, first_cells=None)
        if self.models.bills:
            return StagedStart(schedule, sweep.rows, earlier, total=missing_count)
        # Where nothing is billed, idle slots are the greater waste. Simulated models have none.
        steps = {row: len(chain) for row, chain in walked.items()} if by_length else {}
        return StagedStart(
            schedule, sweep.rows, earlier, first_cells=None, total=missing_count, steps=steps
        )

    @property
    def expected(self) -> int:
        """About how many calls this session asks in all: as planned, then as cells that ended."""
        planned = PLANNED_CELLS * (self._planned > 0)
        weight = planned + self._kept
        mean = (planned * self._planned + self._asked) / weight if weight else 0.0
        return self._asked + round(mean * max(self._missing - self._kept, 0))

    async def work(self, schedule: Schedule[Cell, RecordedCell]) -> None:
        await run_lanes(
            schedule,
            self._attempt,
            self.keep,
            lanes=lambda: self.max_cells,
            stop_token=self._stop_token,
            waits=lambda: self.cache.waits,
        )

    def keep(self, cell: Cell, ended: RecordedCell) -> None:
        """Pass a recorded cell to the writer of the run folder. RunFolderError."""
        self._run.folder.group.put(ended)
        self._ended[cell.place] = 1
        self._kept += 1
        self._asked += len(ended.calls)

    @property
    def max_cells(self) -> int:
        """Cells that may be under way now, also in slots that servers state while it runs."""
        loaded, mode = self._run.loaded, self._run.settings.cache
        if mode == "replay":
            return REPLAY_LANES
        return loaded.file.top.max_cells or self.models.cells_at_once(loaded.sweep.models)

    def lines(self) -> tuple[str, ...]:
        lines = super().lines()
        full = self._begun - self._kept >= self.max_cells
        if full and self.added is None and (statistics := self.models.statistics()):
            from ..display.throughput import busy

            if not busy(statistics):
                free = f"limited by max_cells {self.max_cells:,}: the models have free slots"
                lines = (*lines, free)
        return lines

    async def _attempt(self, cell: Cell) -> RecordedCell:
        run, cache = self._run, self.cache
        if run.folder.group.full:
            # The disk is slower: it holds the run up, and not its cells in memory.
            await run.folder.group.room()
        self._begun += 1
        noted = await attempt_noted(cell, cache, cache.shared_results)
        if self._first_cells is not None:
            noted = await self._first_cells.checked(cell, noted)
        return self._capture.cell(cell, *noted)


def first_cells(rows: Sequence[Row]) -> "FirstCells | None":
    """The check of the first cell of each row with the user's own code; None if no row has any."""
    user_rows = [row for row in rows if user_classes(row)]
    if not user_rows:
        return None
    from .first_cells import FirstCells

    return FirstCells(user_rows)


MakeSession: TypeAlias = Callable[[Run, Mapping[str, UsageTotals], int], RunSession]
"""(run, what earlier sessions paid by model, number of workers) -> a session."""


class Execution:
    """One session of a run as it goes on: observers and signals ask it for the state."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.session: RunSession | None = None
        """Asks the models; None before it begins, and for a run that is complete."""

    async def execute(self, *observers: Observer, ends: bool = False) -> Halt | None:
        """Run the missing cells; why it stopped early, or None when every cell has an outcome.
        ends: whether to run no cell, and only end the work that outlives earlier sessions.
        UsageError where a key is missing, or a model lacks an ability that the sweep needs. Replies
        in flight at a stop land and are saved; when cancelled they are abandoned."""
        run = self.run
        if run.folder.complete and not any(entry.outlives(run.folder.path) for entry in entries()):
            # A process may have been killed between its last outcome and `finalize`.
            return run.finalize()
        loaded, mode, stop_token = run.loaded, run.settings.cache, run.loaded.stop_token
        await require_abilities(loaded.sweep, loaded.models.simulated, loaded.models.reach)
        if mode != "replay" and not all(model.startswith(PREFIX) for model in loaded.sweep.models):
            from ..providers.capabilities import today

            require_service(loaded.models.retirements(loaded.sweep.models), today())
        if mode in ("use", "replay") and sibling_runs(run.folder.path):
            from .first_cells import name_other_stores

            await name_other_stores(run)
        session = self.session = _session(run, self._ledger.by_model())
        watching = (ProgressNotes(run.folder.database), *observers)

        def completed(cells: Sequence[RecordedCell]) -> None:
            for observer in watching:
                observer.completed(cells)

        def added() -> int:
            # A refreshed reply replaces one that was there.
            return (session.statistics.new if mode == "use" else 0) - session.dropped

        try:
            async with AsyncExitStack() as stack:
                stack.enter_context(run.folder.keeping(completed, stop_token))
                exact = run.settings.workers == 1 and not run.settings.ray
                marked = store_watermark(run.folder, added, run.store, stop_token, exact=exact)
                await stack.enter_async_context(marked)
                ledger = session.models.accounting.ledger
                await stack.enter_async_context(self._ledger.kept(stop_token, ledger))
                for observer in watching:
                    await stack.enter_async_context(observer.watching(self.snapshot))
                try:
                    halt = await (session.end() if ends else session.run())
                except BaseException:
                    # The first fault is the one to raise.
                    with suppress(Exception):
                        await run.folder.group.flush()
                    raise
                if run.folder.complete:
                    halt = run.finalize() or halt
                elif isinstance(halt, BudgetReached) and not (
                    self.pending or sum_usage(self.accounts().values()).sent
                ):
                    run.folder.refuse()
        finally:
            await session.close()
            if stop_token.halt is not None:
                stop_token.halt.unsaved = session.statistics.unsaved
        if halt is None and isinstance(stop_token.halt, StoreFailed):
            # The last note in the folder failed, after the last outcome.
            return stop_token.halt
        return halt

    def snapshot(self) -> Snapshot:
        folder = self.run.folder
        cells = len(self.run.loaded.sweep), folder.finished, folder.failed
        if self.session is None:
            return Snapshot(*cells)
        paid = sum_usage(self.accounts().values())
        return self.session.snapshot(
            *cells,
            refused=dict(paid.outcomes).get("refused", 0),
            spend=self.run.settings.spent(paid),
            halt=self.run.loaded.stop_token.halt,
            expected=self.session.expected,
        )

    @property
    def pending(self) -> str:
        """Names the work that outlives this process; empty if none does."""
        return self.session.pending if self.session else ""

    def accounts(self) -> Mapping[str, UsageTotals]:
        """Usage since the run began, by model; earlier sessions included."""
        return self._ledger.by_model()

    @cached_property
    def _ledger(self) -> LedgerFile:
        """RunFolderError if the accounts of earlier sessions cannot be read."""
        session_accounts = lambda: self.session.accounts() if self.session else {}  # noqa: E731
        return LedgerFile(self.run.folder.path, session_accounts)


async def execute(run: Run, *observers: Observer) -> Halt | None:
    return await Execution(run).execute(*observers)


def _session(run: Run, before: Mapping[str, UsageTotals]) -> RunSession:
    """A session in this process, or on as many as its user wants, each with an equal part of every
    limit. before: the accounts of earlier sessions, by model. UsageError for work that only one
    process can do."""
    settings = run.settings
    if settings.workers == 1 and not settings.ray:
        return RunSession(run, before)
    # Each has at least one cell, and takes a place at every model.
    loaded = run.loaded
    models = [name for name in loaded.sweep.models if not name.startswith(PREFIX)]
    widths = filter(None, (loaded.models.limits_of(name).concurrency for name in models))
    workers = min((settings.workers, len(loaded.sweep), *widths))
    if workers == 1 and not settings.ray:
        return RunSession(run, before)
    for name in registered(WORKERS_GROUP):
        make: MakeSession = load_function(WORKERS_GROUP, name)
        return make(run, before, workers)
    raise UsageError("--workers: no extension for several processes is installed")
