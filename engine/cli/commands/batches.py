"""`oversight batches`: list a run's open batches, or cancel them."""

import asyncio
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from ...accounting.budget import dollars
from ...accounting.ledger import sum_usage
from ...accounting.ledger_file import read_entries, read_ledger
from ...accounting.prices import listed
from ...batches.journal import BatchJournal
from ...batches.reconciliation import open_names, reconcile
from ...batches.rounds import batch_visit
from ...display.quantity import counted
from ...models.router import RunPolicy
from ...runs.executor import MakeExecutor
from ...runs.loaded_sweep import open_run
from ...runs.manifest import read_manifest
from ...runs.run import Run, RunOptions
from ...runs.stores import open_for_reading, store_name
from ...runs.trust import is_own
from ...stop import StopToken
from ...system.flags import flag
from ...system.settings import is_url
from ..exit_codes import ExitCode
from ..faults import halt_code
from ..group import NamedGroup
from ..options import JSON, RUN, RUN_STORE
from ..output import say, show, show_json
from ..terminal import under_signals


@click.group(cls=NamedGroup)
def command() -> None:
    """List the batches that a run has out, cancel them, or compare all books about them."""


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
        show(f"{id}  {batch.model}  {counted(batch.lines, 'call')}, out for {hours:.1f} h{most}")
    if not out:
        show("no batch is out")


@command.adds()
def cancel(run: Path = RUN, store: str | None = RUN_STORE) -> None:
    """Cancel the batches that the folder RUN has out.

    Vendors bill the calls that were done by then: their replies are stored and counted. Waits until
    every batch has ended, which can take minutes. The run can go on later, in batches or live.
    """
    show(_see_to_batches(run, store, batch_visit))
    owed = sum(batch.lines for batch in BatchJournal(run, reads_only=True).liabilities.values())
    if owed:
        say(
            f"{counted(owed, 'call')} of unknown fate: nothing proves which batch they are in, so "
            "none was cancelled for them; the next run looks for them"
        )


@command.adds("reconcile")
def reconcile_batches(
    run: Path = RUN,
    store: str | None = RUN_STORE,
    given_up: tuple[str, ...] = flag(
        "Collect what can be had of this batch; count the rest as spent, and free its calls.",
        name="--give-up",
        default=(),
        metavar="BATCH",
    ),
    as_json: bool = JSON,
) -> None:
    """Compare what the vendor, the journal, the ledger and the store say of RUN's batches.

    Names every difference, in calls and dollars. Nothing is changed without --give-up. Exit code 1
    if the books differ.
    """
    if given_up:
        names = open_names(BatchJournal(run, reads_only=True), given_up)
        say(_see_to_batches(run, store, lambda assignment: batch_visit(assignment, names)))
    loaded, stop_token = open_run(run), StopToken()
    loaded.models.prepare(loaded.sweep.roles, RunPolicy(listed()))
    journal = BatchJournal(run, reads_only=True)
    with closing(open_for_reading(_store_of(run, store))) as replies:
        found = asyncio.run(
            reconcile(journal, loaded.models, read_entries(run), replies, stop_token)
        )
    if as_json:
        show_json(asdict(found))
    else:
        for name, book in found.books.items():
            cost = "" if book.dollars is None else f", {dollars(book.dollars)} at most"
            batches = counted(book.batches, "batch", "batches")
            show(f"{name:8}  {batches}, {counted(book.calls, 'call')}{cost}")
        for each in found.differences:
            cost = f", {dollars(each.dollars)} at most" if each.dollars else ""
            calls = counted(each.calls, "call")
            show(f"differs   {each.batch or each.model}: {each.what} ({calls}{cost})")
        if not found.differences:
            show("all books agree")
    if found.differences:
        raise SystemExit(ExitCode.FAILED)


def _see_to_batches(run: Path, store: str | None, executor: MakeExecutor) -> str:
    """Execute what ends batches; how many ended."""
    manifest, loaded = read_manifest(run), open_run(run)
    known = _store_of(run, store)
    options = RunOptions(known, run, overrides=manifest.overrides, part=manifest.part)
    before = _batches_out(run)
    with Run.open(loaded, options) as opened:
        halt = under_signals(
            lambda: opened.execute(executor=executor), loaded.stop_token, opened.snapshot
        )
    left = _batches_out(run)
    paid = sum_usage(read_ledger(run).values())
    if halt is not None:
        say(f"{str(halt).rstrip('.')}. Still out: {counted(left, 'batch', 'batches')}")
        raise SystemExit(halt_code(halt))
    ended = counted(before - left, "batch", "batches")
    return f"{ended} ended; the run has cost {dollars(paid.dollars)} so far"


def _store_of(run: Path, given: str | None) -> str:
    known = read_manifest(run).store if is_own(run) else ""
    folder = known if is_url(known) or not known else Path(known).expanduser()
    return store_name(given or folder or None)


def _batches_out(run: Path) -> int:
    return len(BatchJournal(run, reads_only=True).out)
