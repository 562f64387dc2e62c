"""`oversight status`: the progress of a run, even while another process runs it; or all runs."""

from dataclasses import replace
from pathlib import Path

from ....display.table import as_text
from ....display.text import counted, dollars
from ....models.accounting.ledger import sum_usage
from ....models.accounting.ledger_file import read_ledger
from ....run.events import mixed_lines
from ....run.folders import RUNS, is_run, read_manifest, run_folders
from ....run.listing import OWN_SERVER, SIMULATED, summaries, summarize
from ....run.observer import read_progress
from ....system.files import holder
from ....system.settings import argument
from ...pages.runs import runs_part
from ..exit_codes import ExitCode
from ..flags import JSON, as_command
from ..naming import run_named
from ..output import asked, say, show, show_json, show_line, width


@as_command
def command(word: str | None = argument("[RUN|FOLDER]"), as_json: bool = JSON) -> None:
    """Print the progress of RUN and the process that is running it; without RUN, list all runs.

    The list has the run folders in FOLDER (default: runs/), the newest first. A run is finished,
    running or stopped; the command that started it resumes it. Exit code 1 if one of them cannot be
    read."""
    place = RUNS if word is None else Path(word)
    if place == RUNS or (place.is_dir() and not is_run(place)):
        _list(place, as_json)
    else:
        _status(run_named(str(word)), as_json)


def _list(place: Path, as_json: bool) -> None:
    runs, faults = summaries(run_folders(place))
    part = runs_part(f"{counted(len(runs), 'run')} in {place}", runs, lambda run: str(run.folder))
    if as_json:
        show_json(part.plain())
    elif runs:
        show(as_text(replace(part.table(), fixed=1), width()))
    elif not faults:
        say(f"no runs in {place} yet; start one: oversight demo, or oversight run SWEEP")
    for fault in faults:
        say(fault)
    if faults:
        raise SystemExit(ExitCode.FAILED)


def _status(run: Path, as_json: bool) -> None:
    manifest, standing = read_manifest(run), summarize(run)
    finished, failed = standing.finished, standing.failed
    running = holder(run)
    ledger = read_ledger(run)
    paid = sum_usage(ledger.values())
    summary = {
        "name": manifest.name,
        "simulated": standing.simulated,
        "cells": manifest.cells,
        "finished": finished,
        "failed": failed,
        "running": running,
        "store": manifest.store,
        "requests": paid.sent,
        "input_tokens": paid.usage.input_tokens,
        "output_tokens": paid.usage.output_tokens,
        "dollars": paid.dollars,
        "latency": {
            model: account.latency.told()
            for model, account in ledger.items()
            if account.latency.replies
        },
        "pending_batches": read_progress(run).pending,
    }
    if as_json:
        show_json(summary)
        return
    share = finished / manifest.cells if manifest.cells else 1.0
    cells = f"{finished:,}/{manifest.cells:,} cells ({share:.0%}), {failed:,} failed"
    unconfirmed = f", and {dollars(paid.unconfirmed)} unconfirmed" if paid.unconfirmed else ""
    lines = (
        f"{manifest.name}: {cells}",
        {SIMULATED: "SIMULATED models", OWN_SERVER: OWN_SERVER}.get(standing.models, ""),
        *mixed_lines(run),
        f"{asked(paid)}, {dollars(paid.dollars)}{unconfirmed}" if paid.sent else "",
        *(f"{model}: {usage.latency}" for model, usage in ledger.items() if usage.latency.replies),
        f"in flight at the vendors: {summary['pending_batches']}"
        if summary["pending_batches"]
        else "",
        f"running: {running}" if running else "no process is running it",
    )
    for line in filter(None, lines):
        show_line(line)
