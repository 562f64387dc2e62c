"""Which run a RUN on the command line means: a folder, the beginning of its name, a sweep file.

More calls about a finished run, in a separate folder with a separate ledger.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from ....cache.call import Ask
from ....cache.store import Store
from ...display.progress import Snapshot
from ...display.text import dollars
from ...errors import Halt, RunFolderError, UsageError
from ...models.accounting.ledger import Accounting, Ledger, UsageTotals
from ...models.accounting.ledger_file import LedgerFile
from ...models.router import Router
from ...run.cached_models import CachedModels
from ...run.folders import RUNS, is_run, runs_of, store_noted
from ...run.later import Addition, ExecutionWork, added_to
from ...run.listing import folder_named
from ...run.loaded_sweep import LoadedSweep
from ...run.observer import ProgressDisplay
from ...run.run_folder import QUARANTINE
from ...run.settings import AskSettings
from ...run.stores import open_store, store_name
from ...system.process import OPENERS_GROUP, load_function, registered
from ...system.settings import argument
from .exit_codes import ExitCode
from .faults import halt_code
from .output import say
from .terminal import under_signals


class RunFolder(click.ParamType[Path]):
    """The run folder that a word means: see `run_named`."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        # While the shell completes a line, nothing is looked up or said.
        return value if ctx is not None and ctx.resilient_parsing else run_named(value)


class RunOrPack(RunFolder):
    """A run folder, or the one that a pack holds: it lies in a folder of its own for as long as
    the command runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        file = Path(value)
        pack = file.is_file() and file.suffix in registered(OPENERS_GROUP)
        if ctx is None or ctx.resilient_parsing or not pack:
            return super().convert(value, param, ctx)
        at = Path(ctx.with_resource(TemporaryDirectory(prefix="oversight-pack")))
        load_function(OPENERS_GROUP, file.suffix)(file, at / file.stem)
        return at / file.stem


RUN = argument("RUN", type=RunFolder())
"""The run folder that the word means."""


def run_named(word: str, overrides: Sequence[str] = ()) -> Path:
    """The run folder that a word means.

    It is a folder, the beginning of the name of just one in runs/, or a sweep file: then the
    folder that `oversight run` makes of it, or else the newest run of that sweep, which is told.
    overrides: the `--set` flags that go with a sweep file. RunFolderError, with the candidates,
    if it means none or several; UsageError for a sweep file that is wrong.
    """
    path = Path(word)
    if path.is_file() and is_run(path.parent):
        # A file of a run folder means the run: the code that it names is not the user's.
        return path.parent
    if path.is_file() or (path.suffix in (".yaml", ".yml") and not is_run(path)):
        return _run_of(path, overrides)
    return folder_named(word)


def _run_of(file: Path, overrides: Sequence[str]) -> Path:
    from ...run.loaded_sweep import folder_of, open_sweep

    sweep = open_sweep(file, overrides).sweep
    if is_run(folder := folder_of(sweep)):
        return folder
    if overrides:
        # Then they change a run of the file as it stands.
        return _run_of(file, ())
    runs = runs_of(sweep.name)
    if not runs:
        raise RunFolderError(
            f"{file}: there is no run of {sweep.name!r} in {RUNS}; start it: oversight run {file}"
        )
    newest = runs[0]
    which = "the only run" if len(runs) == 1 else f"the newest of {len(runs)} runs"
    say(
        f"{newest}: {which} of {sweep.name!r}; its settings, or its --limit, differ from those "
        f"that {file} has now"
    )
    return newest


def store_of(run: Path, given: str | None) -> Store:
    """Open the given store, else the store of the run. UsageError if it is missing."""
    place = store_name(given or store_noted(run) or None)
    if not Path(place).is_dir():
        raise UsageError(f"{place}: there is no store there; name it with --store")
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
    None for all of the run. cells: their number, those done and those failed, for the display;
    None for no display.
    """
    ledger = Ledger()
    accounts = LedgerFile(folder, ledger.accounts)
    asked = opened.sweep.roles if roles is None else tuple(roles)
    caps = asks.price_list, asks.max_cost, asks.max_tokens
    accounting = replace(Accounting.capped(*caps, accounts.total()), ledger=ledger)
    models = Router(
        *(opened.models, asked, accounting, opened.stop_token),
        quarantine=folder / QUARANTINE,
        answering=opened.answering,
    )
    names = tuple(dict.fromkeys(model for model, _ in asked))
    asking: CachedModels | None = None

    def standing() -> Snapshot:
        paid = accounts.total()
        counts = cells() if cells else (0, 0, 0)
        if asking is None:
            return Snapshot(*counts)
        refused, halt = dict(paid.outcomes).get("refused", 0), opened.stop_token.halt
        return asking.standing(*counts, refused=refused, spend=asks.spent(paid), halt=halt)

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


def say_ended(halt: Halt | None, done: str, paid: UsageTotals, see: str) -> int:
    """Say how work about a finished run ended, and how to see it; the exit code."""
    say(f"{done}, {dollars(paid.dollars)}" if paid.dollars else done)
    if halt is None:
        say(f"see them: {see}")
        return ExitCode.DONE
    say(f"{str(halt).rstrip('.')}. The same command goes on.")
    return halt_code(halt)
