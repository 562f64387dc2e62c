"""`oversight status`: the progress of a run, even while another process runs it."""

from pathlib import Path

import click

from ...accounting.budget import dollars
from ...accounting.ledger import sum_usage
from ...accounting.ledger_file import read_ledger
from ...runs.lock import holder
from ...runs.manifest import read_manifest
from ...runs.progress_file import read_progress
from ...runs.run_folder import outcomes
from ..naming import run_argument
from ..options import json_option
from ..output import asked, show, show_json


@click.command()
@run_argument
@json_option
def command(run: Path, as_json: bool) -> None:
    """Print how far the folder RUN is, and which process is running it, if any."""
    manifest = read_manifest(run)
    finished = failed = 0
    for record in outcomes(run):
        finished += 1
        failed += record.failure is not None
    running = holder(run)
    ledger = read_ledger(run)
    paid = sum_usage(ledger.values())
    summary = {
        "name": manifest.name,
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
        "awaited": read_progress(run).get("awaited", ""),
    }
    if as_json:
        show_json(summary)
        return
    share = finished / manifest.cells if manifest.cells else 1.0
    show(f"{manifest.name}: {finished:,}/{manifest.cells:,} cells ({share:.0%}), {failed:,} failed")
    if paid.sent:
        doubtful = f", and {dollars(paid.doubtful)} in doubt" if paid.doubtful else ""
        show(f"{asked(paid)}, {dollars(paid.dollars)}{doubtful}")
    for model, account in ledger.items():
        if account.latency.replies:
            show(f"{model}: {account.latency}")
    if summary["awaited"]:
        show(f"out at the vendors: {summary['awaited']}")
    show(f"running: {running}" if running else "no process is running it")
