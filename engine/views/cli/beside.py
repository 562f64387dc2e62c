"""Asking more calls about a finished run, in a folder of its own with a ledger of its own."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from ....cache.cache import Cache
from ....cache.call import Ask
from ....cache.store import Store
from ...display.progress import Snapshot
from ...errors import Halt, UsageError
from ...models.accounting.ledger import Accounting, UsageTotals
from ...models.accounting.ledger_file import LedgerFile
from ...run.batching import BatchedWork, Deferred, batching
from ...run.folders import store_noted
from ...run.loaded_sweep import LoadedSweep
from ...run.run import batched_models
from ...run.run_folder import QUARANTINE
from ...run.settings import AskSettings
from ...run.stores import open_store, store_name
from .terminal import under_signals


def store_of(run: Path, given: str | None) -> Store:
    """Open the store given, else that of the run, for more replies. UsageError if there is none."""
    place = store_name(given or store_noted(run) or None)
    if not Path(place).is_dir():
        raise UsageError(f"{place}: there is no store there; name it with --store")
    return open_store(place)


def ask_beside(
    opened: LoadedSweep,
    folder: Path,
    replies: Store,
    work: Callable[[Ask, Deferred | None], Awaitable[None]],
    asks: AskSettings = AskSettings(),
    roles: Iterable[tuple[str, str]] | None = None,
) -> tuple[Halt | None, UsageTotals]:
    """Do work that asks the models of a run; returns why it stopped early, and all that was paid.

    folder: where its ledger is; this process holds its lock. roles: (model, role) of whom it asks;
    None for all of the run.
    """
    models, ledger = opened.models, opened.models.accounting.ledger
    accounts = LedgerFile(folder, ledger.accounts)
    asked = opened.sweep.roles if roles is None else tuple(roles)
    caps = asks.price_list, asks.max_cost, asks.max_tokens
    accounting = Accounting.capped(*caps, accounts.total())
    models.prepare(asked, accounting, folder / QUARANTINE)
    names = tuple(dict.fromkeys(model for model, _ in asked))
    batched = batched_models(models, names, asks.batch)
    make = batching()

    def standing() -> Snapshot:
        # A signal asks for what is in flight alone.
        at_risk = ledger.total().at_risk
        return Snapshot(0, 0, 0, in_flight=models.in_flight, at_risk=at_risk)

    async def ask() -> Halt | None:
        cache = Cache(
            replies, models, identity=models.identity, origin=models.origin, tags=models.tags
        )
        beside = BatchedWork(folder, models, cache, asks, batched, accounts.by_model())
        deferred = None if make is None else make(beside)
        try:
            async with accounts.kept(opened.stop_token, ledger):
                await work(cache, deferred)
        finally:
            await cache.close()
            if deferred is not None:
                await deferred.close()
            await models.close()
        return opened.stop_token.halt

    return under_signals(ask, opened.stop_token, standing), accounts.total()
