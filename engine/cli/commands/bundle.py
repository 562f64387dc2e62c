"""`oversight bundle`: a run as pages that open from files."""

from pathlib import Path

import click

from ...display.quantity import counted
from ..naming import run_argument
from ..options import output_option, recorded_option
from ..output import say, show

READINGS = 200
SAID_EVERY = 500
"""Transcripts between two lines of progress."""


@click.command()
@run_argument
@output_option()
@click.option(
    "--readings",
    type=click.IntRange(0),
    default=READINGS,
    help="How many transcripts: failed, doubtful, and those of lowest and highest ASD.",
)
@click.option("--whole", is_flag=True, help="Include every transcript.")
@click.option("--no-calls", is_flag=True, help="Leave out requests and replies: half the size.")
@click.option(
    "--zip", "zipped", is_flag=True, help="Also pack the folder into a zip file beside it."
)
@recorded_option
def command(
    run: Path,
    output: Path,
    readings: int,
    whole: bool,
    no_calls: bool,
    zipped: bool,
    store: str | None,
) -> None:
    """Write RUN as a folder of pages: open its index.html from disk, or put it on a web server.

    The folder is a new one, or an earlier bundle, which is replaced. The pages load nothing from
    elsewhere. They hold the texts of models and of your problems: look before you hand them on.
    Transcripts come from the store; nothing is sent.
    """
    from ...pages.bundle import write_bundle, zip_bundle
    from ...pictures.opened import OpenedRun

    def told(done: int, all: int) -> None:
        if done % SAID_EVERY == 0:
            say(f"{done:,} of {all:,} transcripts")

    with OpenedRun(run, store) as opened:
        written = write_bundle(
            opened, output, most=None if whole else readings, calls=not no_calls, told=told
        )
    size = f"{written.bytes / 1e6:.1f} MB"
    say(f"{counted(written.readings, 'transcript')} in {counted(written.files, 'file')}, {size}")
    if zipped:
        file = zip_bundle(output)
        say(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    show(str(output / "index.html"))
