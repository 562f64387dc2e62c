"""`oversight cache batches`: list the batches of a run that are in flight, or cancel them."""

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ...display.text import counted, dollars
from ...models.accounting.ledger import sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...run.execution import Execution
from ...run.folders import store_noted
from ...run.manifest import read_manifest
from ...run.opened import open_run
from ...run.run import Run
from ...run.settings import RunSettings
from ...run.stores import store_name
from ...system.settings import flag
from ...views.cli.faults import halt_code
from ...views.cli.flags import JSON, OWN_SWEEP, RUN_STORE, as_command
from ...views.cli.naming import RUN
from ...views.cli.output import say, show, show_json, show_line
from ...views.cli.terminal import under_signals
from .journal import BatchJournal


@as_command
def command(
    run: Path = RUN,
    cancel: bool = flag("Cancel them, and wait until every one has ended.", default=False),
    sweep: Path | None = OWN_SWEEP,
    store: str | None = RUN_STORE,
    as_json: bool = JSON,
) -> None:
    """List the batches of RUN that are in flight, or cancel them.

    Listing sends nothing. Vendors bill the calls of a cancelled batch that were done by then: their
    replies are stored and counted. Waiting for the end can take minutes. The run can be resumed
    later, in batches or live.
    """
    if not cancel:
        _list(BatchJournal(run, reads_only=True), as_json)
        return
    show(_cancelled(run, sweep, store))
    owed = sum(batch.lines for batch in BatchJournal(run, reads_only=True).owed.values())
    if owed:
        say(
            f"{counted(owed, 'call')} of unknown fate: nothing proves which batch they are in, so "
            "none was cancelled for them; the next run looks for them"
        )


def _list(journal: BatchJournal, as_json: bool) -> None:
    out = {**journal.out, **{f"({mark})": batch for mark, batch in journal.owed.items()}}
    if as_json:
        show_json([{"id": id, **asdict(batch)} for id, batch in out.items()])
        return
    for id, batch in out.items():
        hours = max(time.time() - batch.at, 0.0) / 3600
        most = f", {dollars(batch.worst)} at most" if batch.worst else ""
        show_line(
            f"{id}  {batch.model}  {counted(batch.lines, 'call')}, sent {hours:.1f} h ago{most}"
        )
    if not out:
        show("no batch is in flight")


def _cancelled(run: Path, own: Path | None, store: str | None) -> str:
    """Cancel the batches; how many ended."""
    manifest, loaded = read_manifest(run), open_run(run, own=own)
    loaded.models.require_allowed(loaded.sweep.models)
    known = store_noted(run)
    known = store_name(store or (Path(known).expanduser() if known else None))
    settings = RunSettings(store=known, folder=run, part=manifest.part)
    before = _batches_out(run)
    with Run.open(loaded, settings) as opened:
        ended = Execution(opened)
        end = partial(ended.execute, ends=True)
        halt = under_signals(end, loaded.stop_token, ended.snapshot)
    left = _batches_out(run)
    paid = sum_usage(read_ledger(run).values())
    if halt is not None:
        say(f"{str(halt).rstrip('.')}. Still in flight: {counted(left, 'batch', 'batches')}")
        raise SystemExit(halt_code(halt))
    many = counted(before - left, "batch", "batches")
    return f"{many} ended; the run has cost {dollars(paid.dollars)} so far"


def _batches_out(run: Path) -> int:
    return len(BatchJournal(run, reads_only=True).out)
