"""`oversight batches`: list a run's open batches, or cancel them."""

import time
from dataclasses import asdict
from pathlib import Path

import click

from ....display.quantity import counted
from ....extensions.batches.journal import BatchJournal
from ....models.accounting.budget import dollars
from ....models.accounting.ledger import sum_usage
from ....models.accounting.ledger_file import read_ledger
from ....run.as_left import store_noted
from ....run.batch_terms import BatchTerms
from ....run.execution import execute
from ....run.loaded_sweep import open_run
from ....run.manifest import read_manifest
from ....run.run import Run, RunOptions
from ....run.stores import store_name
from ....system.flags import flag
from ....views.cli.faults import halt_code
from ....views.cli.group import NamedGroup
from ....views.cli.options import JSON, OWN_SWEEP, RUN, RUN_STORE
from ....views.cli.output import say, show, show_json, show_line
from ....views.cli.terminal import under_signals


@click.group(cls=NamedGroup)
def command() -> None:
    """List the batches of a run that are in flight, or cancel them."""


@command.adds("list")
def list_batches(run: Path = RUN, as_json: bool = JSON) -> None:
    """Print the batches that the folder RUN has out, as it knows them. Nothing is sent."""
    journal = BatchJournal(run, reads_only=True)
    out = {**journal.out, **{f"({mark})": batch for mark, batch in journal.intended.items()}}
    if as_json:
        show_json([{"id": id, **asdict(batch)} for id, batch in out.items()])
        return
    for id, batch in out.items():
        hours = max(time.time() - batch.at, 0.0) / 3600
        most = f", {dollars(batch.worst)} at most" if batch.worst else ""
        show_line(
            f"{id}  {batch.model}  {counted(batch.lines, 'call')}, out for {hours:.1f} h{most}"
        )
    if not out:
        show("no batch is out")


@command.adds()
def cancel(
    run: Path = RUN,
    sweep: Path | None = OWN_SWEEP,
    store: str | None = RUN_STORE,
    given_up: tuple[str, ...] = flag(
        "Collect what can be had of this batch; count the rest as spent, and free its calls.",
        name="--give-up",
        default=(),
        metavar="BATCH",
    ),
) -> None:
    """Cancel the batches that the folder RUN has out.

    Vendors bill the calls that were done by then: their replies are stored and counted. Waits until
    every batch has ended, which can take minutes. The run can go on later, in batches or live.
    """
    show(_see_to_batches(run, sweep, store, given_up))
    owed = sum(batch.lines for batch in BatchJournal(run, reads_only=True).liabilities.values())
    if owed:
        say(
            f"{counted(owed, 'call')} of unknown fate: nothing proves which batch they are in, so "
            "none was cancelled for them; the next run looks for them"
        )


def _see_to_batches(
    run: Path, own: Path | None, store: str | None, given_up: tuple[str, ...]
) -> str:
    """Cancel batches, or give up some; how many ended."""
    manifest, loaded = read_manifest(run), open_run(run, own=own)
    known = store_noted(run)
    known = store_name(store or (Path(known).expanduser() if known else None))
    terms = BatchTerms(cancels=given_up)
    options = RunOptions(known, run, overrides=manifest.overrides, part=manifest.part, terms=terms)
    before = _batches_out(run)
    with Run.open(loaded, options) as opened:
        halt = under_signals(lambda: execute(opened), loaded.stop_token, opened.snapshot)
    left = _batches_out(run)
    paid = sum_usage(read_ledger(run).values())
    if halt is not None:
        say(f"{str(halt).rstrip('.')}. Still out: {counted(left, 'batch', 'batches')}")
        raise SystemExit(halt_code(halt))
    ended = counted(before - left, "batch", "batches")
    return f"{ended} ended; the run has cost {dollars(paid.dollars)} so far"


def _batches_out(run: Path) -> int:
    return len(BatchJournal(run, reads_only=True).out)
