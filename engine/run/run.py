"""A run: one sweep in its folder, over its store; started or resumed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Self

from ...cache.cache import CacheStatistics
from ...cache.store import Store
from ...protocols.transcript import Failure
from ..display.progress import Snapshot
from ..errors import Halt, RunFolderError, StoreFailed, UsageError
from ..models.accounting.ledger import Accounting, UsageTotals, sum_usage
from ..models.accounting.ledger_file import LedgerFile
from ..models.accounting.prices import PriceList
from ..models.directory import Directory
from ..sweep.rows import Row
from .cached_models import CachedModels
from .lanes import RETRIED_KINDS
from .loaded_sweep import LoadedSweep, run_folder
from .mixed import ask_again
from .run_folder import RunFolder
from .settings import FOLDER, RunSettings
from .stores import is_url, open_store, shown_name, store_name


@dataclass(eq=False)
class Run:
    """A sweep with its run folder locked and its store open, as long as the body of `open` runs.

    The terminal, Python and rehearsals observe it; sessions run its cells.
    """

    loaded: LoadedSweep
    settings: RunSettings
    prices: PriceList
    folder: RunFolder
    store: Store
    run_again: int
    """Number of failed cells whose outcome was deleted, so that they run again."""
    waits_for_people: bool = False
    """Whether people answer at their own pace; set before `execute`."""
    cancels: bool = False
    """As `BatchedWork` has it; set before `execute`."""
    session: CachedModels | None = None
    """What asks; set once the run is executed."""
    ledger: LedgerFile | None = None

    @classmethod
    @contextmanager
    def open(cls, loaded: LoadedSweep, settings: RunSettings) -> Iterator[Self]:
        """Open the store, and make or resume the run folder. Nothing is asked.

        RunFolderError for a folder of another sweep, or in use, and for a store that is not the
        run's or has lost replies; StoreError; UsageError for settings that do not fit the sweep.
        """
        named, prices = store_name(settings.store), settings.price_list
        if settings.ray and not is_url(named):
            raise UsageError(
                f"--ray {settings.ray}: {named} is a folder, which the machines of a "
                "cluster do not share: name a database with --store postgresql://…"
            )
        batched_models(loaded.models, loaded.sweep.models, settings.batch)
        with (
            closing(open_store(named)) as store,
            run_folder(loaded, settings, shown_name(named), store) as folder,
        ):
            asks, stored = not folder.complete or folder.failed, settings.cache in ("use", "replay")
            if stored and asks and not settings.accept_empty:
                folder.check_store(store.__len__, named, store.id)
            # Since the last session a crash may have been fixed, or a model's settings.
            if settings.cache != "replay":
                ask_again(folder, store if settings.cache != "off" else None)
            kinds = None if settings.retry_failed else RETRIED_KINDS
            dropped = folder.forget_failures(kinds)
            if not settings.prices:
                prices = PriceList({**prices.models, **folder.manifest.prices})
            known = prices.named(loaded.sweep.meanings)
            if not folder.manifest.prices and (billed := known.billed(loaded.sweep.models)):
                folder.keep_prices(billed)
            yield cls(loaded, settings, prices, folder, store, len(dropped))

    def snapshot(self) -> Snapshot:
        """The current state of the run."""
        cells = len(self.loaded.sweep), self.folder.finished, self.folder.failed
        if self.session is None:
            return Snapshot(*cells)
        paid = sum_usage(self.accounts().values())
        return self.session.standing(
            *cells,
            refused=dict(paid.outcomes).get("refused", 0),
            spend=self.settings.spent(paid),
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

    def accounting(self, before: Mapping[str, UsageTotals]) -> Accounting:
        """before: what earlier sessions paid; what they may have paid counts towards the cap."""
        return Accounting.capped(
            self.prices,
            self.settings.max_cost,
            self.settings.max_tokens,
            sum_usage(before.values()),
        )

    @property
    def batched(self) -> tuple[str, ...]:
        """Models to ask in batches."""
        loaded = self.loaded
        return batched_models(loaded.models, loaded.sweep.models, self.settings.batch)

    @property
    def has_batches(self) -> bool:
        """Whether a batch was ever submitted from the folder."""
        return (self.folder.path / FOLDER).exists()

    @property
    def batches_left(self) -> bool:
        """Whether some may still be out: then their calls are there."""
        return any((self.folder.path / FOLDER).glob("*.calls"))

    def earlier(self) -> Iterator[tuple[Row, Failure | None]]:
        """What earlier sessions have left, if some cells failed: the row of each cell, and its
        failure, or None."""
        sweep = self.loaded.sweep
        for each in self.folder.outcomes() if self.folder.failed else ():
            if not each.not_run:
                yield sweep.rows[sweep.row_at(each.place)], each.failure

    def settle(self) -> Halt | None:
        """Write what follows from all outcomes; why it cannot be written, or None."""
        try:
            self.folder.settle()
        except RunFolderError as fault:
            return StoreFailed(str(fault))
        return None


def batched_models(models: Directory, names: Sequence[str], every: bool) -> tuple[str, ...]:
    """The models that are asked in batches. every: also where the sweep file says nothing.
    UsageError for a model that cannot be asked so, and if `every` is set and none can."""
    batched = models.batched(names, every)
    if every and not batched:
        raise UsageError(f"no model of this sweep can be asked in batches: {', '.join(names)}")
    if not batched:
        return batched
    from .batching import batching

    if batching() is None:
        raise UsageError(f"{batched[0]}: batches are not installed; ask it live")
    return batched
