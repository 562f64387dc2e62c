"""A run: one sweep in its folder, over its store; started or resumed."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Self

from ...cache.store import Store
from ...protocols.transcript import Failure
from ..errors import Halt, RunFolderError, StoreFailed, UsageError
from ..models.accounting.ledger import Accounting, UsageTotals, sum_usage
from ..models.accounting.prices import PriceList
from ..sweep.sweep import Row
from .events import ask_again
from .failures import RETRIED_KINDS
from .later import require_extensions
from .loaded_sweep import LoadedSweep, run_folder
from .run_folder import RunFolder
from .settings import RunSettings, is_url, open_store, shown_name, store_name


@dataclass(frozen=True, eq=False)
class Run:
    """A sweep with its run folder locked and its store open, as long as the body of `open` runs.

    An `Execution` runs its cells."""

    loaded: LoadedSweep
    settings: RunSettings
    prices: PriceList
    folder: RunFolder
    store: Store
    run_again: int
    """Number of failed cells whose outcome was deleted, so that they run again."""

    @classmethod
    @contextmanager
    def open(cls, loaded: LoadedSweep, settings: RunSettings) -> Iterator[Self]:
        """Open the store, and make or resume the run folder. Nothing is asked. RunFolderError for a
        folder of another sweep, or in use, and for a store that is not the run's or has lost
        replies; StoreError; UsageError for settings that do not fit the sweep."""
        name, prices = store_name(settings.store), settings.price_list
        if settings.ray and not is_url(name):
            raise UsageError(
                f"--ray {settings.ray}: {name} is a folder, which the machines of a "
                "cluster do not share: name a database with --store postgresql://…"
            )
        require_extensions(loaded.models, loaded.sweep.models, settings)
        with (
            closing(open_store(name)) as store,
            run_folder(loaded, settings, shown_name(name), store) as folder,
        ):
            asks, stored = not folder.complete or folder.failed, settings.cache in ("use", "replay")
            if stored and asks and not settings.allow_missing_replies:
                folder.check_store(store.__len__, name, store.id)
            # Since the last session a crash may have been fixed, or a model's settings.
            if settings.cache != "replay":
                ask_again(
                    folder.path, store if settings.cache != "off" else None, folder.forget_calls
                )
            kinds = None if settings.retry_failed else RETRIED_KINDS
            dropped = folder.forget_failures(kinds)
            if not settings.prices:
                prices = PriceList({**prices.models, **folder.manifest.prices})
            priced = prices.named(loaded.sweep.meanings)
            if not folder.manifest.prices and (billed := priced.billed(loaded.sweep.models)):
                folder.change(prices=billed)
            yield cls(loaded, settings, prices, folder, store, len(dropped))

    def accounting(self, before: Mapping[str, UsageTotals]) -> Accounting:
        """before: accounts of earlier sessions; their unconfirmed dollars count towards the cap."""
        return Accounting.capped(
            self.prices,
            self.settings.max_cost,
            self.settings.max_tokens,
            sum_usage(before.values()),
        )

    def earlier(self) -> Iterator[tuple[Row, Failure | None]]:
        """The outcomes of earlier sessions, if some cells failed: the row of each cell, and its
        failure, or None."""
        sweep = self.loaded.sweep
        for outcome in self.folder.outcomes() if self.folder.failed else ():
            if not outcome.not_run:
                yield sweep.rows[sweep.row_at(outcome.place)], outcome.failure

    def finalize(self) -> Halt | None:
        """Write what follows from all outcomes; why it cannot be written, or None."""
        try:
            self.folder.finalize()
        except RunFolderError as fault:
            return StoreFailed(str(fault))
        return None
