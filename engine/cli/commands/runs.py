"""`oversight runs`: a list of runs, the newest first."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from ...display.quantity import counted
from ...display.table import Table, as_text
from ...errors import RunFolderError
from ...runs.listing import RUNS, RunSummary, summaries
from ..exit_codes import ExitCode
from ..options import json_option
from ..output import say, show, show_json, width

SET = "--set"
"""The column of overrides, which distinguish runs of one sweep; shown if any run has some."""
RUNS_HEAD = ("run folder", "sweep", "last outcome", "state", "cells", "failed")


@click.command()
@click.argument(
    "place", metavar="[FOLDER]", type=click.Path(path_type=Path, file_okay=False), default=RUNS
)
@json_option
def command(place: Path, as_json: bool) -> None:
    """List the run folders in FOLDER, which is runs/ unless given, the newest first.

    A run is finished, stopped (go on with the command that started it) or running. Exit code 1 if
    one of them cannot be read.
    """
    if place != RUNS and not place.is_dir():
        raise RunFolderError(f"{place}: no such folder")
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


def _table(place: Path, runs: Sequence[RunSummary]) -> Table:
    with_overrides = any(run.overrides for run in runs)
    rows = (
        (
            str(each.folder),
            each.sweep,
            f"{datetime.fromtimestamp(each.touched):%Y-%m-%d %H:%M}",
            each.state,
            f"{each.finished:,}/{each.cells:,}",
            f"{each.failed:,}",
            *([" ".join(each.overrides)] if with_overrides else []),
        )
        for each in runs
    )
    count = f"{counted(len(runs), 'run')} in {place}"
    head = (*RUNS_HEAD, *([SET] if with_overrides else []))
    return Table(count, head, tuple(rows), left=4)


def _plain(each: RunSummary) -> dict[str, object]:
    return {
        "folder": str(each.folder),
        "sweep": each.sweep,
        "last_outcome": datetime.fromtimestamp(each.touched).astimezone().isoformat("T", "seconds"),
        "state": each.state,
        "cells": each.cells,
        "finished": each.finished,
        "failed": each.failed,
        "running": each.running,
        "overrides": list(each.overrides),
    }
