"""`oversight export`: the recorded replies of a run as one file, or the run as tables."""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import click

from ....cache.bundle import export_bundle
from ...accounting.prices import listed, load_prices
from ...display.quantity import counted
from ...reports.frame_files import FrameFormat, write_frames
from ...reports.frames import FrameSource
from ...runs.loaded_sweep import open_run
from ...runs.recorded import recorded
from ...runs.replay import keys_of
from ...runs.run_folder import outcomes
from ..naming import run_argument
from ..options import output_option, prices_option, recorded_option, score_option
from ..output import say

MIN_CELLS = 1_000
"""Minimum number of cells per reading process; fewer do not repay its start."""


@click.command()
@run_argument
@click.option(
    "--format",
    "format",
    type=click.Choice(["bundle", *get_args(FrameFormat)]),
    default="bundle",
    help="bundle: the replies in one file; the others: tables of rows, cells, turns and calls.",
)
@output_option("RUN/replies.bundle, or for tables RUN/frames")
@recorded_option
@click.option(
    "--no-replies", is_flag=True, help="Only the tables of rows and cells, which need no store."
)
@prices_option
@score_option
def command(
    run: Path,
    format: Literal["bundle"] | FrameFormat,
    output: Path | None,
    store: str | None,
    no_replies: bool,
    prices: Path | None,
    score: str,
) -> None:
    """Write every reply that RUN used into one file, or the run as tables.

    With the file anyone can replay the run: oversight replay RUN --store FILE. The same run gives
    the same bytes. A call that the store does not hold, as where the run was made with other words,
    ends the export with exit code 5 and no file.

    Tables are for pandas, polars, DuckDB and spreadsheets: one file each, with failed and missing
    worlds, and a column for each setting in which rows differ. Parquet needs the extra `frames`.
    """
    if format == "bundle":
        if no_replies:
            raise click.UsageError("--no-replies is for tables: --format parquet, csv or jsonl")
        _bundle(run, output or run / "replies.bundle", store)
        return
    opened = open_run(run)
    known = opened.models.priced(load_prices(prices) if prices else listed())
    replies = None if no_replies else partial(recorded, run, store)
    folder = output or run / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    source = FrameSource(run, opened, known, replies, score)
    lines = write_frames(source, folder, format, _processes(len(opened.sweep)))
    told = ", ".join(f"{count:,} {name}" for name, count in lines.items())
    say(f"{told} in {folder}, as {format}")


def _processes(cells: int) -> int:
    """Number of processes that read a run: at most one per usable core. One except on Linux, since
    elsewhere a fork is not safe."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    return min(cores, cells // MIN_CELLS)


def _bundle(run: Path, path: Path, store: str | None) -> None:
    opened = open_run(run)
    whole = {record.place: record.from_replies for record in outcomes(run)}
    cells = ((cell, whole[cell.place]) for cell in opened.sweep.cells() if cell.place in whole)
    with recorded(run, store) as replies:
        keys = asyncio.run(keys_of(cells, replies, opened.models.identity_in(replies)))
        export_bundle(replies, keys, path)
    say(f"{counted(len(keys), 'reply', 'replies')} in {path} ({path.stat().st_size:,} bytes)")
    say(f"replay it anywhere: oversight replay {run} --store {path}")
