"""Running what is missing of a sweep, with its progress shown: for the command line and Python."""

import time
from datetime import date

from rich.console import Console

from cache.cached import Cache, Mode
from cache.store import Store
from engine.books.accounts import Accounts
from engine.books.budget import dollars
from engine.errors import Halt
from engine.opening import Opened
from engine.plans.walk import require_abilities, require_service
from engine.runs.noted import noted
from engine.runs.progress import Snapshot, progress
from engine.runs.replaying import LANES
from engine.runs.runfolder import RunFolder
from engine.runs.sitting import Sitting


async def run_missing(
    opened: Opened,
    folder: RunFolder,
    store: Store,
    accounts: Accounts,
    mode: Mode,
    max_cost: float | None,
    console: Console,
    speed: float = 1.0,
) -> Halt | None:
    """Run what is missing, until it is done or a Halt stops it; why it stopped, if it did.

    The models must be prepared; they are closed at the end. max_cost: dollars, as it is shown
    beside what was spent. speed: how many seconds of the loop's clock pass in a real one.
    SweepError where a model lacks an ability that the sweep needs.
    """
    models, latch = opened.models, opened.latch
    await require_abilities(opened.sweep, models.simulated)
    if mode != "replay":
        require_service(models.retirements(opened.sweep.models), date.today())
    since = folder.refreshing(int(time.time())) if mode == "refresh" else None
    cache = Cache(
        store, models, identity=models.identity_in(store), mode=mode, refreshed_since=since
    )
    sitting = Sitting(opened.sweep, folder, cache, latch)
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
            f"stopping: {latch.halt}" if latch.halt else "",
        )

    lanes = LANES if mode == "replay" else opened.file.top.lanes
    try:
        notes = noted(folder, standing, store, latch)
        async with notes, accounts.kept(latch, models.ledger), progress(snapshot, console, speed):
            return await sitting.run(lanes)
    finally:
        await models.close()


def _spend(spent: float, cap: float | None) -> str:
    if cap is not None:
        return f"{dollars(spent)} of {dollars(cap)}"
    return dollars(spent) if spent else ""
