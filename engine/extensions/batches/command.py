"""`oversight cache batches`: list the batches of a run that are in flight, or cancel them."""

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

from ...display.text import counted, dollars
from ...models.accounting.ledger import sum_usage
from ...models.accounting.ledger_file import read_ledger
from ...run.execution import Execution
from ...run.folders import read_manifest, remembered_store
from ...run.replay import open_run
from ...run.run import Run
from ...run.settings import RunSettings, store_name
from ...system.settings import flag
from ...views.cli.flags import JSON, OWN_SWEEP, RUN_STORE, as_command
from ...views.cli.naming import RUN
from ...views.cli.output import halt_code, say, show, show_json, show_line
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
    later, in batches or live."""
    if cancel:
        show(_cancelled(run, sweep, store))
        unknown = BatchJournal(run, reads_only=True).uncollected.values()
        if unknown:
            calls = counted(sum(batch.lines for batch in unknown), "call")
            say(
                f"{calls} in submissions without an answer: it is not known which batch holds "
                "them, so none was cancelled for them; the next run looks for them"
            )
        return
    journal = BatchJournal(run, reads_only=True)
    batches = {**journal.out, **{f"({mark})": b for mark, b in journal.uncollected.items()}}
    if as_json:
        show_json([{"id": id, **asdict(batch)} for id, batch in batches.items()])
        return
    for id, batch in batches.items():
        hours = max(time.time() - batch.at, 0.0) / 3600
        most = f", {dollars(batch.worst)} at most" if batch.worst else ""
        calls = counted(batch.lines, "call")
        show_line(f"{id}  {batch.model}  {calls}, sent {hours:.1f} h ago{most}")
    if not batches:
        show("no batch is in flight")


def _cancelled(run: Path, sweep: Path | None, store: str | None) -> str:
    """Cancel the batches; the number that ended, as a text."""
    loaded = open_run(run, user_file=sweep)
    loaded.models.require_allowed(loaded.sweep.models)
    noted = remembered_store(run)
    name = store_name(store or (Path(noted).expanduser() if noted else None))
    settings = RunSettings(store=name, folder=run, part=read_manifest(run).part)
    before = _batches_out(run)
    with Run.open(loaded, settings) as opened:
        execution = Execution(opened)
        end = partial(execution.execute, ends=True)
        halt = under_signals(end, loaded.stop_token, execution.snapshot)
    remaining = _batches_out(run)
    if halt is not None:
        say(f"{str(halt).rstrip('.')}. Still in flight: {counted(remaining, 'batch', 'batches')}")
        raise SystemExit(halt_code(halt))
    paid = sum_usage(read_ledger(run).values())
    ended = counted(before - remaining, "batch", "batches")
    return f"{ended} ended; the run has cost {dollars(paid.dollars)} so far"


def _batches_out(run: Path) -> int:
    return len(BatchJournal(run, reads_only=True).out)
