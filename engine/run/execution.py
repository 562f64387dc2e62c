"""Executing a run: in this process, or on several, which an extension starts.

It registers a `MakeSession` under `oversight.workers`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TypeAlias

from ..errors import Halt, StoreFailed, UsageError
from ..models.accounting.ledger import UsageTotals
from ..models.accounting.ledger_file import LedgerFile
from ..providers.simulated import PREFIX
from ..system.entry_points import WORKERS_GROUP, load_function, registered
from .dry_run import require_abilities, require_service
from .loaded_sweep import LoadedSweep
from .notes import ProgressNotes, store_watermark
from .observer import Observer
from .record.values import RecordedCell
from .run import Run
from .session import RunSession

MakeSession: TypeAlias = Callable[[Run, Mapping[str, UsageTotals], int], RunSession]
"""(run, what earlier sessions paid by model, number of workers) -> a session."""


async def execute(run: Run, *observers: Observer) -> Halt | None:
    """Run the missing cells; why it stopped early, or None when every cell has an outcome.

    UsageError where a key is missing, or a model lacks an ability that the sweep needs.
    Replies in flight at a stop land and are saved; when cancelled they are abandoned.
    """
    if run.folder.complete:
        # A process may have been killed between its last outcome and `settle`.
        return run.settle()
    loaded, mode, stop_token = run.loaded, run.settings.cache, run.loaded.stop_token
    await require_abilities(loaded.sweep, loaded.models.simulated, loaded.models.reach)
    if mode != "replay" and not all(model.startswith(PREFIX) for model in loaded.sweep.models):
        from ..providers.retirements import today

        require_service(loaded.models.retirements(loaded.sweep.models), today())
    ledger = LedgerFile(run.folder.path, lambda: run.session.accounts() if run.session else {})
    run.ledger = ledger
    working = run.session = _session(run, ledger.by_model())
    watching = (ProgressNotes(run.folder.database), *observers)

    def completed(cells: Sequence[RecordedCell]) -> None:
        for observer in watching:
            observer.completed(cells)

    def added() -> int:
        # A refreshed reply replaces one that was there.
        return working.statistics.new if mode == "use" else 0

    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(run.folder.keeping(completed, stop_token))
            marked = store_watermark(run.folder, added, run.store, stop_token)
            await stack.enter_async_context(marked)
            await stack.enter_async_context(ledger.kept(stop_token, working.ledger))
            for observer in watching:
                await stack.enter_async_context(observer.watching(run.snapshot))
            try:
                halt = await working.run()
            finally:
                await run.folder.group.flush()
            if halt is None:
                halt = run.settle()
    finally:
        await working.close()
        if stop_token.halt is not None:
            stop_token.halt.unsaved = working.statistics.unsaved
    if halt is None and isinstance(stop_token.halt, StoreFailed):
        # The last note in the folder failed, after the last outcome.
        return stop_token.halt
    return halt


def _session(run: Run, before: Mapping[str, UsageTotals]) -> RunSession:
    """A session in this process, or on as many as its user wants, each with an equal part of every
    limit. before: what earlier sessions paid, by model. UsageError for what one process alone can
    do."""
    settings = run.settings
    if settings.workers == 1 and not settings.ray:
        return RunSession(run, before)
    if run.later is not None or run.has_batches or run.batched:
        raise UsageError(
            "batches and people are waited for by one process: leave --workers and --ray out"
        )
    workers = min(settings.workers, _most_workers(run.loaded))
    if workers == 1 and not settings.ray:
        return RunSession(run, before)
    for name in registered(WORKERS_GROUP):
        make: MakeSession = load_function(WORKERS_GROUP, name)
        return make(run, before, workers)
    raise UsageError("--workers: no extension for several processes is installed")


def _most_workers(loaded: LoadedSweep) -> int:
    """One worker runs all cells of a problem, and takes a place at every model."""
    models = [name for name in loaded.sweep.models if not name.startswith(PREFIX)]
    widths = (loaded.models.limits_of(name).concurrency for name in models)
    return min((len(loaded.sweep.problems), *(width for width in widths if width)))
