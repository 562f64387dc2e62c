"""A run: one sweep in its folder, over its store; started or resumed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    closing,
    contextmanager,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ...cache.cache import CacheStatistics, Mode
from ...cache.store import Store
from ..display.progress import Snapshot
from ..display.quantity import short
from ..errors import Halt, RunFolderError, StoreFailed
from ..models.accounting.budget import dollars
from ..models.accounting.ledger import UsageTotals, sum_usage
from ..models.accounting.ledger_file import LedgerFile
from ..models.accounting.prices import PriceList, listed
from ..models.router import RunPolicy
from ..providers.retirements import today
from .dry_run import require_abilities, require_service
from .executor import Assignment
from .lanes import RETRIED_KINDS
from .loaded_sweep import ChangedCode, LoadedSweep, run_folder
from .observer import Observer
from .outcome import OutcomeRecord
from .progress_file import ProgressNotes
from .record.values import RecordedCell
from .replay import REPLAY_LANES
from .row_pauses import FAILED_ALIKE, RowPauses
from .run_folder import QUARANTINE, RunFolder
from .session import MakeExecutor, RunSession
from .stores import open_store, shown_name, store_name
from .takeover import Taken, Takeover
from .watermark import store_watermark


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a sweep is to be run, beside what its file says."""

    store: Path | str
    """Where replies are kept: a folder, or the URL of a database; see `store_name`."""
    folder: Path | None = None
    """The run folder; None: the one that belongs to the sweep, under `runs/`."""
    mode: Mode = "use"
    overrides: tuple[str, ...] = ()
    """The `--set` flags that the sweep was read with."""
    retry_failed: bool = False
    """Whether to run failed cells again; those that crashed or were never answered always are."""
    max_cost: float | None = None
    """Dollars for the whole run; None for no cap."""
    max_tokens: float | None = None
    """Tokens for the whole run, in and out, in place of `max_cost`; None for no cap."""
    prices: PriceList | None = None
    """None for the built-in prices."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Added to the tags that the run has; a tag of the same key is replaced."""
    part: str = ""
    """Which part of a larger sweep this is, as `3/16`."""
    accept_empty: bool = False
    """Whether to go on, and pay again, where the store has lost replies that the run knew."""
    keeps_going: bool = False
    """Whether to go on with rows whose first cells all failed for one cause."""
    changed_code: ChangedCode = "refuse"
    """What becomes of a run that was made with other code."""
    sources: tuple[Path, ...] | None = None
    """The runs that cells are taken over from; None for the others in `runs/`."""
    verify: int = 0
    """How many of the cells that are taken over from a run are replayed first."""


class Run:
    """A sweep with its run folder locked and its store open, as long as the body of `open` runs.

    The terminal, Python and rehearsals observe it; executors run its cells.
    """

    def __init__(
        self,
        loaded: LoadedSweep,
        options: RunOptions,
        folder: RunFolder,
        store: Store,
        run_again: int,
        taken: Sequence[Taken] = (),
    ) -> None:
        self.loaded = loaded
        self.options = options
        self.folder = folder
        self.store = store
        self.run_again = run_again
        """Number of failed cells whose outcome was deleted, so that they run again."""
        self.taken = taken
        """What was taken over from other runs."""
        active = options.mode != "replay" and not options.keeps_going
        self._pauses = RowPauses(loaded.sweep.rows, active=active)
        if active and folder.failed >= FAILED_ALIKE:
            sweep, before = loaded.sweep, folder.outcomes()
            self._pauses.resume(
                (sweep.rows[sweep.row_at(each.place)], each.failure)
                for each in before
                if not each.not_run
            )
        self._executor: RunSession | None = None
        self._ledger: LedgerFile | None = None
        self._observers: Sequence[Observer] = ()

    @classmethod
    @contextmanager
    def open(cls, loaded: LoadedSweep, options: RunOptions) -> Iterator[Self]:
        """Open the store, and make or resume the run folder. Nothing is asked.

        RunFolderError for a folder of another sweep, or in use, and for a store that is not the
        run's or has lost replies; StoreError.
        """
        named = store_name(options.store)
        with (
            closing(open_store(named)) as store,
            run_folder(
                loaded,
                options.folder,
                options.overrides,
                shown_name(named),
                options.part,
                options.changed_code,
                kept_in=store,
                tags=options.tags,
            ) as folder,
        ):
            asks = not folder.complete or folder.failed
            if options.mode in ("use", "replay") and asks and not options.accept_empty:
                folder.check_store(len(store), named, store.id)
            taken = _take_over(loaded, options, folder, store)
            # Since the last session a crash may have been fixed, or a model's settings.
            kinds = None if options.retry_failed else RETRIED_KINDS
            dropped = folder.forget_failures(kinds)
            yield cls(loaded, options, folder, store, len(dropped), taken)

    async def execute(
        self, *observers: Observer, executor: MakeExecutor = RunSession
    ) -> Halt | None:
        """Run the missing cells; why it stopped early, or None when every cell has an outcome.

        UsageError where a key is missing, or a model lacks an ability that the sweep needs.
        Replies in flight at a stop land and are saved; when cancelled they are abandoned.
        """
        if self.folder.complete:
            # A process may have been killed between its last outcome and `_settled`.
            return self._settled()
        loaded, mode = self.loaded, self.options.mode
        await require_abilities(loaded.sweep, loaded.models.simulated, loaded.models.reach)
        if mode != "replay":
            require_service(loaded.models.retirements(loaded.sweep.models), today())
        ledger = self._ledger = LedgerFile(self.folder.path, self._accounts_now)
        working = self._executor = executor(self._assignment(ledger.by_model()))
        observers = self._observers = (ProgressNotes(self.folder.database), *observers)
        try:
            async with AsyncExitStack() as stack:
                stack.enter_context(self.folder.keeping(self._completed, loaded.stop_token))
                await stack.enter_async_context(self._watermark(working))
                await stack.enter_async_context(ledger.kept(loaded.stop_token, working.ledger))
                for observer in observers:
                    await stack.enter_async_context(observer.watching(self.snapshot))
                try:
                    halt = await working.run()
                finally:
                    await self.folder.flush()
                if halt is None:
                    halt = self._settled()
        finally:
            await working.close()
            if loaded.stop_token.halt is not None:
                loaded.stop_token.halt.unsaved = working.statistics.unsaved
        if halt is None and isinstance(loaded.stop_token.halt, StoreFailed):
            # The last note in the folder failed, after the last outcome.
            return loaded.stop_token.halt
        return halt

    def snapshot(self) -> Snapshot:
        """The current state of the run."""
        cells = len(self.loaded.sweep), self.folder.finished, self.folder.failed
        if self._executor is None:
            return Snapshot(*cells)
        paid = sum_usage(self.accounts().values())
        return self._executor.standing(
            *cells,
            refused=dict(paid.outcomes).get("refused", 0),
            spend=self._spend(paid),
            halt=self.loaded.stop_token.halt,
        )

    @property
    def calls(self) -> CacheStatistics:
        """How the calls of this session were answered; unlike a snapshot it needs no event loop."""
        return self._executor.statistics if self._executor else CacheStatistics(0, 0, 0, 0)

    @property
    def awaited(self) -> str:
        """Batches that are out; empty if there are none."""
        return self._executor.awaited if self._executor else ""

    def accounts(self) -> Mapping[str, UsageTotals]:
        """Usage since the run began, by model; earlier sessions included."""
        return self._ledger.by_model() if self._ledger else {}

    def outcomes(self) -> Iterator[OutcomeRecord]:
        """Every outcome so far, as in the run folder."""
        return self.folder.outcomes()

    def _assignment(self, before: Mapping[str, UsageTotals]) -> Assignment:
        """before: what earlier sessions paid; what they may have paid counts towards the cap."""
        options, folder = self.options, self.folder
        paid = sum_usage(before.values())
        return Assignment(
            self.loaded,
            folder,
            self.store,
            options.mode,
            RunPolicy.capped(
                options.prices or listed(),
                options.max_cost,
                options.max_tokens,
                paid,
                folder.path / QUARANTINE,
            ),
            lanes=self._max_cells(),
            run_id=folder.id,
            keep=self._put,
            flush=folder.flush,
            before=before,
            run_again=self.run_again,
            pauses=self._pauses,
        )

    def _put(self, cells: Sequence[RecordedCell]) -> None:
        self._pauses.completed(cells)
        self.folder.put(cells)

    def _max_cells(self) -> int:
        if self.options.mode == "replay":
            return REPLAY_LANES
        loaded = self.loaded
        return loaded.file.top.max_cells or loaded.models.cells_at_once(loaded.sweep.models)

    def _watermark(self, working: RunSession) -> AbstractAsyncContextManager[None]:
        def added() -> int:
            # A refreshed reply replaces one that was there.
            return working.statistics.new if self.options.mode == "use" else 0

        return store_watermark(self.folder, added, self.store, self.loaded.stop_token)

    def _completed(self, cells: Sequence[RecordedCell]) -> None:
        for observer in self._observers:
            observer.completed(cells)

    def _settled(self) -> Halt | None:
        try:
            self.folder.settle()
        except RunFolderError as fault:
            return StoreFailed(str(fault))
        return None

    def _accounts_now(self) -> Mapping[str, UsageTotals]:
        return self._executor.accounts() if self._executor else {}

    def _spend(self, paid: UsageTotals) -> str:
        if (most := self.options.max_tokens) is not None:
            used = paid.usage.input_tokens + paid.usage.output_tokens
            return f"{short(used)} of {short(most)} tokens"
        if (cap := self.options.max_cost) is not None:
            return f"{dollars(paid.dollars)} of {dollars(cap)}"
        return dollars(paid.dollars) if paid.dollars else ""


def _take_over(
    loaded: LoadedSweep, options: RunOptions, folder: RunFolder, store: Store
) -> Sequence[Taken]:
    """Take over cells of other runs; none in a refresh or without a store, which ask every call."""
    if options.mode not in ("use", "replay") or folder.complete:
        return ()
    identity = loaded.models.identity
    takeover = Takeover(loaded.sweep, folder, store, identity, loaded.models.tags, options.verify)
    if options.sources is None:
        return takeover.from_beside()
    return takeover.from_runs(options.sources)
