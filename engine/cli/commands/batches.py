"""`oversight batches`: list a run's open batches, or cancel them."""

import time
from dataclasses import asdict
from pathlib import Path

import click

from ...accounting.budget import dollars
from ...accounting.ledger import sum_usage
from ...accounting.ledger_file import read_ledger
from ...batches.journal import BatchJournal
from ...batches.session import BatchCancellation
from ...display.quantity import counted
from ...runs.loaded_sweep import open_run
from ...runs.manifest import read_manifest
from ...runs.run import Run, RunOptions
from ..faults import halt_code
from ..group import NamedGroup
from ..naming import run_argument
from ..options import json_option, run_store_option
from ..output import say, show, show_json
from ..terminal import under_signals


@click.group(cls=NamedGroup)
def command() -> None:
    """List the batches that a run has out, or cancel them."""


@command.command("list")
@run_argument
@json_option
def list_batches(run: Path, as_json: bool) -> None:
    """Print the batches that the folder RUN has out, as it knows them. Nothing is sent."""
    journal = BatchJournal(run, reads_only=True)
    out = {**journal.out, **{f"({mark})": batch for mark, batch in journal.intended.items()}}
    if as_json:
        show_json([{"id": id, **asdict(batch)} for id, batch in out.items()])
        return
    for id, batch in out.items():
        hours = max(time.time() - batch.at, 0.0) / 3600
        most = f", {dollars(batch.worst)} at most" if batch.worst else ""
        show(f"{id}  {batch.model}  {counted(batch.lines, 'call')}, out for {hours:.1f} h{most}")
    if not out:
        show("no batch is out")


@command.command()
@run_argument
@run_store_option
def cancel(run: Path, store: str | None) -> None:
    """Cancel the batches that the folder RUN has out.

    Vendors bill the calls that were done by then: their replies are stored and counted. Waits until
    every batch has ended, which can take minutes. The run can go on later, in batches or live.
    """
    manifest, loaded = read_manifest(run), open_run(run)
    known = manifest.store if "://" in manifest.store else Path(manifest.store).expanduser()
    options = RunOptions(store or known, run, overrides=manifest.overrides, part=manifest.part)
    before = _batches_out(run)
    with Run.open(loaded, options) as opened:
        halt = under_signals(
            lambda: opened.execute(executor=BatchCancellation),
            loaded.stop_token,
            opened.snapshot,
        )
    left = _batches_out(run)
    paid = sum_usage(read_ledger(run).values())
    if halt is not None:
        say(f"{str(halt).rstrip('.')}. Still out: {counted(left, 'batch', 'batches')}")
        raise SystemExit(halt_code(halt))
    ended = counted(before - left, "batch", "batches")
    show(f"{ended} ended; the run has cost {dollars(paid.dollars)} so far")


def _batches_out(run: Path) -> int:
    journal = BatchJournal(run, reads_only=True)
    return len(journal.out) + len(journal.intended)
