"""Running what is missing of a sweep, with its progress shown: for the command line and Python."""

import time

from rich.console import Console

from oversight.cache.cache import Cache, Mode
from oversight.cache.store import Store
from oversight.engine.accounting.budget import dollars
from oversight.engine.accounting.ledger_file import LedgerFile
from oversight.engine.display.progress import Snapshot, progress
from oversight.engine.errors import Halt
from oversight.engine.providers.retirements import today
from oversight.engine.runs.loaded_sweep import LoadedSweep
from oversight.engine.runs.progress_file import progress_kept, told_of
from oversight.engine.runs.replay import LANES
from oversight.engine.runs.run_folder import RunFolder
from oversight.engine.runs.session import RunSession
from oversight.engine.runs.walk import require_abilities, require_service
from oversight.engine.runs.watermark import store_watermark


async def run_missing(
    opened: LoadedSweep,
    folder: RunFolder,
    store: Store,
    accounts: LedgerFile,
    mode: Mode,
    max_cost: float | None,
    console: Console,
    speed: float = 1.0,
) -> Halt | None:
    """Run what is missing, until it is done or a Halt stops it; why it stopped, if it did.

    The models must be prepared; they are closed at the end. max_cost: dollars, as it is shown
    beside what was spent. speed: how many seconds of the loop's clock pass in a real one.
    UsageError where a model lacks an ability that the sweep needs.
    """
    models, stop_token = opened.models, opened.stop_token
    await require_abilities(opened.sweep, models.simulated)
    if mode != "replay":
        require_service(models.retirements(opened.sweep.models), today())
    since = folder.refreshing(int(time.time())) if mode == "refresh" else None
    cache = Cache(
        store, models, identity=models.identity_in(store), mode=mode, refreshed_since=since
    )
    sitting = RunSession(opened.sweep, folder, cache, stop_token)
    held = len(store)

    def standing() -> int:
        # A refreshed reply replaces one that was there.
        return held + (cache.statistics.new if mode == "use" else 0)

    def snapshot() -> Snapshot:
        calls, paid = cache.statistics, accounts.total()
        return Snapshot(
            len(opened.sweep),
            folder.finished,
            folder.failed,
            calls.asked,
            calls.stored,
            calls.shared,
            dict(paid.outcomes).get("refused", 0),
            _spend(paid.dollars, max_cost),
            models.lines(),
            f"stopping: {stop_token.halt}" if stop_token.halt else "",
        )

    def noted() -> dict[str, object]:
        now = snapshot()
        return {
            "calls": now.calls,
            "stored": now.stored,
            "shared": now.shared,
            "spend": now.spend,
            "note": now.note,
            "in_flight": models.in_flight,
            "models": {model: told_of(each) for model, each in models.statistics().items()},
        }

    lanes = LANES if mode == "replay" else opened.file.top.lanes
    try:
        notes = store_watermark(folder, standing, store, stop_token)
        async with (
            notes,
            accounts.kept(stop_token, models.ledger),
            progress_kept(folder.path, noted, speed),
            progress(snapshot, console, speed),
        ):
            return await sitting.run(lanes)
    finally:
        await models.close()


def _spend(spent: float, cap: float | None) -> str:
    if cap is not None:
        return f"{dollars(spent)} of {dollars(cap)}"
    return dollars(spent) if spent else ""
