"""`oversight status`: the progress of a run, even while another process runs it; or all runs."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from ....display.quantity import counted, dollars
from ....display.table import Table, as_text
from ....models.accounting.ledger import sum_usage
from ....models.accounting.ledger_file import read_ledger
from ....run.folders import RUNS, holder, is_run
from ....run.listing import RunSummary, summaries, summarize
from ....run.manifest import read_manifest
from ....run.notes import read_progress
from ....system.flags import argument
from ..exit_codes import ExitCode
from ..flags import as_command
from ..naming import run_named
from ..options import JSON
from ..output import asked, say, show, show_json, show_line, width

SET = "--set"
"""The column of overrides, which distinguish runs of one sweep; shown if any run has some."""


@as_command
def command(
    named: str | None = argument("[RUN|FOLDER]"),
    as_json: bool = JSON,
) -> None:
    """Print how far RUN is, and which process is running it; without RUN, list all runs.

    The list has the run folders in FOLDER (default: runs/), the newest first. A run is finished,
    running or stopped; the command that started it resumes it. Exit code 1 if one of them cannot be
    read.
    """
    place = RUNS if named is None else Path(named)
    if place == RUNS or (place.is_dir() and not is_run(place)):
        _list(place, as_json)
    else:
        _status(run_named(str(named)), as_json)


def _list(place: Path, as_json: bool) -> None:
    runs, faults = summaries(place)
    if as_json:
        show_json([_plain(run) for run in runs])
    elif runs:
        show(as_text(_table(place, runs), width()))
    elif not faults:
        say(f"there is no run in {place} yet; start one: oversight demo, or oversight run SWEEP")
    for fault in faults:
        say(str(fault))
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
        "awaited": read_progress(run).get("awaited", ""),
    }
    if as_json:
        show_json(summary)
        return
    share = finished / manifest.cells if manifest.cells else 1.0
    cells = f"{finished:,}/{manifest.cells:,} cells ({share:.0%}), {failed:,} failed"
    doubtful = f", and {dollars(paid.doubtful)} in doubt" if paid.doubtful else ""
    lines = (
        f"{manifest.name}: {cells}",
        "SIMULATED models" * standing.simulated,
        f"{asked(paid)}, {dollars(paid.dollars)}{doubtful}" if paid.sent else "",
        *(f"{model}: {each.latency}" for model, each in ledger.items() if each.latency.replies),
        f"in flight at the vendors: {summary['awaited']}" if summary["awaited"] else "",
        f"running: {running}" if running else "no process is running it",
    )
    for line in filter(None, lines):
        show_line(line)


def _table(place: Path, runs: Sequence[RunSummary]) -> Table:
    with_overrides = any(run.overrides for run in runs)
    simulated = any(run.simulated for run in runs)
    rows = (
        (
            str(each.folder),
            each.sweep,
            f"{datetime.fromtimestamp(each.touched):%Y-%m-%d %H:%M}",
            each.state,
            *(["simulated" if each.simulated else "real"] if simulated else []),
            f"{each.finished:,}/{each.cells:,}",
            f"{each.failed:,}",
            *([" ".join(each.overrides)] if with_overrides else []),
        )
        for each in runs
    )
    count = f"{counted(len(runs), 'run')} in {place}"
    named = ("run folder", "sweep", "last outcome", "state", *["models"] * simulated)
    head = (*named, "cells", "failed", *[SET] * with_overrides)
    return Table(count, head, tuple(rows), left=len(named), whole=1)


def _plain(each: RunSummary) -> dict[str, object]:
    return {
        "folder": str(each.folder),
        "sweep": each.sweep,
        "last_outcome": datetime.fromtimestamp(each.touched).astimezone().isoformat("T", "seconds"),
        "state": each.state,
        "cells": each.cells,
        "finished": each.finished,
        "failed": each.failed,
        "simulated": each.simulated,
        "running": each.running,
        "overrides": list(each.overrides),
        "dollars": sum_usage(read_ledger(each.folder).values()).dollars,
    }
