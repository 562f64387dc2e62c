"""More calls about a finished run, in a separate folder with a separate ledger."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from ....cache.call import Ask
from ....cache.store import Store
from ...display.progress import Snapshot
from ...display.text import dollars
from ...errors import Halt, UsageError
from ...models.accounting.ledger import Accounting, Ledger, UsageTotals
from ...models.accounting.ledger_file import LedgerFile
from ...models.router import Router
from ...run.cached_models import CachedModels
from ...run.folders import remembered_store
from ...run.later import Addition, ExecutionWork, added_to
from ...run.loaded_sweep import LoadedSweep
from ...run.observer import ProgressDisplay
from ...run.run_folder import QUARANTINE
from ...run.settings import AskSettings, open_store, store_name
from .exit_codes import ExitCode
from .output import halt_code, say
from .terminal import under_signals


def store_of(run: Path, chosen: str | None) -> Store:
    """Open the given store, else the store of the run. UsageError if it is missing."""
    place = store_name(chosen or remembered_store(run) or None)
    if not Path(place).is_dir():
        raise UsageError(f"store not found: {place}; name it with --store")
    return open_store(place)


def ask_beside(
    opened: LoadedSweep,
    folder: Path,
    replies: Store,
    work: Callable[[Ask, Addition | None], Awaitable[None]],
    asks: AskSettings = AskSettings(),
    roles: Iterable[tuple[str, str]] | None = None,
    cells: Callable[[], tuple[int, int, int]] | None = None,
) -> tuple[Halt | None, UsageTotals]:
    """Do work that asks the models of a run; returns why it stopped early, and all that was paid.
    folder: where its ledger is; this process holds its lock. roles: (model, role) of whom it asks;
    None for all of the run. cells: their number, those done and those failed, for the display; None
    for no display."""
    ledger = Ledger()
    accounts = LedgerFile(folder, ledger.accounts)
    asked_roles = opened.sweep.roles if roles is None else tuple(roles)
    caps = asks.price_list, asks.max_cost, asks.max_tokens
    accounting = replace(Accounting.capped(*caps, accounts.total()), ledger=ledger)
    models = Router(
        *(opened.models, asked_roles, accounting, opened.stop_token),
        quarantine=folder / QUARANTINE,
        answering=opened.answering,
    )
    names = tuple(dict.fromkeys(model for model, _ in asked_roles))
    asking: CachedModels | None = None

    def standing() -> Snapshot:
        paid = accounts.total()
        counts = cells() if cells else (0, 0, 0)
        if asking is None:
            return Snapshot(*counts)
        refused, halt = dict(paid.outcomes).get("refused", 0), opened.stop_token.halt
        return asking.snapshot(*counts, refused=refused, spend=asks.spent(paid), halt=halt)

    async def ask() -> Halt | None:
        nonlocal asking
        asking = CachedModels(models, replies)
        entered = accounts.by_model()
        asking.added = added_to(
            ExecutionWork(folder, models, names, asking.cache, asks, entered=entered)
        )
        display = ProgressDisplay().watching(standing) if cells else nullcontext()
        try:
            async with accounts.kept(opened.stop_token, ledger), display:
                await work(asking.cache, asking.added)
        finally:
            await asking.cache.close()
            await asking.close()
        return opened.stop_token.halt

    return under_signals(ask, opened.stop_token, standing), accounts.total()


def say_ended(halt: Halt | None, summary: str, paid: UsageTotals, see: str) -> int:
    """Say how work about a finished run ended, and how to see it; the exit code."""
    say(f"{summary}, {dollars(paid.dollars)}" if paid.dollars else summary)
    if halt is None:
        say(f"see them: {see}")
        return ExitCode.DONE
    say(f"{str(halt).rstrip('.')}. The same command goes on.")
    return halt_code(halt)
