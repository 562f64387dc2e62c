"""A run: one sweep in its folder, over its store; started or resumed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ...cache.cache import CacheStatistics, Mode
from ...cache.store import Store
from ...protocols.transcript import Failure
from ..display.progress import Snapshot
from ..display.quantity import short
from ..errors import Halt, RunFolderError, StoreFailed, UsageError
from ..models.accounting.budget import dollars
from ..models.accounting.ledger import UsageTotals, sum_usage
from ..models.accounting.ledger_file import LedgerFile
from ..models.accounting.prices import PriceList, listed
from ..models.router import RunPolicy
from ..sweep.rows import Row
from ..system.settings import is_url
from .batch_terms import FOLDER, LIVE, BatchTerms
from .batching import AnsweredLater, batched_models
from .executor import LocalExecutor
from .lanes import RETRIED_KINDS
from .listing import beside
from .loaded_sweep import ChangedCode, LoadedSweep, run_folder
from .outcome import OutcomeRecord
from .record.values import RecordedCell
from .run_folder import QUARANTINE, RunFolder
from .stores import open_store, shown_name, store_name

if TYPE_CHECKING:
    from .takeover import Taken


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
    terms: BatchTerms = LIVE
    """Which calls go in batches."""
    workers: int = 1
    """Processes that ask."""
    ray: str = ""
    """Address of the cluster that has them; empty for this machine."""


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
        taken: "Sequence[Taken]" = (),
    ) -> None:
        self.loaded = loaded
        self.options = options
        self.folder = folder
        self.store = store
        self.run_again = run_again
        """Number of failed cells whose outcome was deleted, so that they run again."""
        self.taken = taken
        """What was taken over from other runs."""
        self.later: AnsweredLater | None = None
        """People who answer at their own pace; set before `execute`."""
        self.session: LocalExecutor | None = None
        """What asks; set once the run is executed."""
        self.ledger: LedgerFile | None = None

    @classmethod
    @contextmanager
    def open(cls, loaded: LoadedSweep, options: RunOptions) -> Iterator[Self]:
        """Open the store, and make or resume the run folder. Nothing is asked.

        RunFolderError for a folder of another sweep, or in use, and for a store that is not the
        run's or has lost replies; StoreError; UsageError for options that do not fit the sweep.
        """
        if options.ray and not is_url(str(options.store)):
            raise UsageError(
                f"--ray {options.ray}: {options.store} is a folder, which the machines of a "
                "cluster do not share: name a database with --store postgresql://…"
            )
        batched_models(loaded.models, loaded.sweep.models, options.terms.every)
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

    def snapshot(self) -> Snapshot:
        """The current state of the run."""
        cells = len(self.loaded.sweep), self.folder.finished, self.folder.failed
        if self.session is None:
            return Snapshot(*cells)
        paid = sum_usage(self.accounts().values())
        return self.session.standing(
            *cells,
            refused=dict(paid.outcomes).get("refused", 0),
            spend=self._spend(paid),
            halt=self.loaded.stop_token.halt,
        )

    @property
    def calls(self) -> CacheStatistics:
        """How the calls of this session were answered; unlike a snapshot it needs no event loop."""
        return self.session.statistics if self.session else CacheStatistics(0, 0, 0, 0)

    @property
    def awaited(self) -> str:
        """Batches that are out; empty if there are none."""
        return self.session.awaited if self.session else ""

    def accounts(self) -> Mapping[str, UsageTotals]:
        """Usage since the run began, by model; earlier sessions included."""
        return self.ledger.by_model() if self.ledger else {}

    def outcomes(self) -> Iterator[OutcomeRecord]:
        """Every outcome so far, as in the run folder."""
        return self.folder.outcomes()

    def policy(self, before: Mapping[str, UsageTotals]) -> RunPolicy:
        """before: what earlier sessions paid; what they may have paid counts towards the cap."""
        options = self.options
        return RunPolicy.capped(
            options.prices or listed(),
            options.max_cost,
            options.max_tokens,
            sum_usage(before.values()),
            self.folder.path / QUARANTINE,
        )

    @property
    def batched(self) -> tuple[str, ...]:
        """Models to ask in batches."""
        loaded = self.loaded
        return batched_models(loaded.models, loaded.sweep.models, self.options.terms.every)

    @property
    def has_batches(self) -> bool:
        """Whether a batch was ever submitted from the folder."""
        return (self.folder.path / FOLDER).exists()

    def earlier(self) -> Iterator[tuple[Row, Failure | None]]:
        """What earlier sessions have left, if some cells failed: the row of each cell, and its
        failure, or None."""
        sweep = self.loaded.sweep
        for each in self.folder.outcomes() if self.folder.failed else ():
            if not each.not_run:
                yield sweep.rows[sweep.row_at(each.place)], each.failure

    def keeping(
        self, completed: Callable[[Sequence[RecordedCell]], None]
    ) -> AbstractContextManager[None]:
        """Accept cells through `keep` while the body runs; end the body with `flush`.

        completed: called with cells once they are in the folder.
        """
        return self.folder.keeping(completed, self.loaded.stop_token)

    def keep(self, cells: Sequence[RecordedCell]) -> None:
        """Take cells as they end; they are in the folder once `flush` has returned, or before.
        RunFolderError if the disk is full or fails."""
        self.folder.put(cells)

    async def flush(self) -> None:
        """Wait until everything that was kept is in the folder. RunFolderError."""
        await self.folder.flush()

    def settle(self) -> Halt | None:
        """Write what follows from all outcomes; why it cannot be written, or None."""
        try:
            self.folder.settle()
        except RunFolderError as fault:
            return StoreFailed(str(fault))
        return None

    def _spend(self, paid: UsageTotals) -> str:
        if (most := self.options.max_tokens) is not None:
            used = paid.usage.input_tokens + paid.usage.output_tokens
            return f"{short(used)} of {short(most)} tokens"
        if (cap := self.options.max_cost) is not None:
            return f"{dollars(paid.dollars)} of {dollars(cap)}"
        return dollars(paid.dollars) if paid.dollars else ""


def _take_over(
    loaded: LoadedSweep, options: RunOptions, folder: RunFolder, store: Store
) -> "Sequence[Taken]":
    """Take over cells of other runs; none in a refresh or without a store, which ask every call."""
    if options.mode not in ("use", "replay") or folder.complete:
        return ()
    if options.sources is None and not beside(folder.path):
        return ()
    from .takeover import Takeover

    identity = loaded.models.identity
    takeover = Takeover(loaded.sweep, folder, store, identity, loaded.models.tags, options.verify)
    if options.sources is None:
        return takeover.from_beside()
    return takeover.from_runs(options.sources)
