"""Writing the pages of a run as a folder: what `view --write` does, and `bundle` did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..display.quantity import counted
from .output import say, show

READINGS = 200
SAID_EVERY = 500
"""Transcripts between two lines of progress."""


def site_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a site, handed on as `readings`, `whole`, `no_calls` and `zipped`."""
    for option in (
        click.option(
            "--zip", "zipped", is_flag=True, help="Also pack the folder into a zip file beside it."
        ),
        click.option(
            "--no-calls", is_flag=True, help="Leave out requests and replies: half the size."
        ),
        click.option("--whole", is_flag=True, help="Include every transcript."),
        click.option(
            "--readings",
            type=click.IntRange(0),
            default=READINGS,
            help="How many transcripts: failed, doubtful, and those of lowest and highest ASD.",
        ),
    ):
        command = option(command)
    return command


def write_site(
    run: Path,
    to: Path,
    store: str | None,
    *,
    readings: int,
    whole: bool,
    no_calls: bool,
    zipped: bool,
) -> None:
    """Write a run as a folder of pages: a new one, or an earlier site, which is replaced."""
    from ..pages.site import write_bundle, zip_bundle
    from ..runs.reader import RunReader

    def told(done: int, all: int) -> None:
        if done % SAID_EVERY == 0:
            say(f"{done:,} of {all:,} transcripts")

    with RunReader(run, store) as opened:
        most = None if whole else readings
        written = write_bundle(opened, to, most=most, calls=not no_calls, told=told)
    size = f"{written.size / 1e6:.1f} MB"
    say(f"{counted(written.readings, 'transcript')} in {counted(written.files, 'file')}, {size}")
    if zipped:
        file = zip_bundle(to)
        say(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    show(str(to / "index.html"))
