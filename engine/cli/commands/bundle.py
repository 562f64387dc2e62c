"""`oversight bundle`: a run as pages that open from files."""

import asyncio
from pathlib import Path

import click

from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.options import recorded_option
from oversight.engine.cli.output import say, show

READINGS = 200
SAID_EVERY = 500
"""Readings between two lines of progress."""


@click.command()
@run_argument
@click.option(
    "-o",
    "--output",
    "to",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder to write; it is new, or a bundle that is replaced.",
)
@click.option(
    "--readings",
    type=click.IntRange(0),
    default=READINGS,
    show_default=True,
    help="How many transcripts: failed, in doubt, and largest ASD.",
)
@click.option("--whole", is_flag=True, help="With every transcript.")
@click.option("--no-calls", is_flag=True, help="Without requests and replies: half the size.")
@click.option("--zip", "zipped", is_flag=True, help="Pack the folder into one file beside it, too.")
@recorded_option
def command(
    named: str,
    to: Path,
    readings: int,
    whole: bool,
    no_calls: bool,
    zipped: bool,
    store: str | None,
) -> None:
    """Write the pages of RUN as files: open index.html, from a disk or a web server.

    They ask for nothing else and hold everything that they show, texts of models and of your
    problems included: look before you send them. Transcripts come from the store; nothing is sent.
    """
    from oversight.engine.pages.bundle import write_bundle, zip_bundle
    from oversight.engine.pictures.opened import OpenedRun

    def told(done: int, all: int) -> None:
        if done % SAID_EVERY == 0:
            say(f"{done:,} of {all:,} transcripts")

    with OpenedRun(run_named(named), store) as run:
        written = asyncio.run(
            write_bundle(run, to, most=None if whole else readings, calls=not no_calls, told=told)
        )
    size = f"{written.bytes / 1e6:.1f} MB"
    say(f"{written.readings:,} transcripts in {written.files:,} files, {size}")
    if zipped:
        file = zip_bundle(to)
        say(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    show(str(to / "index.html"))
