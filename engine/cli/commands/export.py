"""`oversight export`: the recorded replies of a run, as one file."""

import asyncio
from pathlib import Path

import click

from oversight.cache.bundle import export_bundle
from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.options import output_option, recorded_option
from oversight.engine.cli.output import say
from oversight.engine.cli.recorded import recorded
from oversight.engine.runs.loaded_sweep import open_run
from oversight.engine.runs.replay import keys_of
from oversight.engine.runs.run_folder import outcomes


@click.command()
@run_argument
@output_option("RUN/replies.bundle")
@recorded_option
def command(named: str, output: Path | None, store: Path | None) -> None:
    """Write every reply that the folder RUN rests on into one file.

    With that file anyone can replay the run: oversight replay RUN --store FILE. The same run gives
    the same bytes.
    """
    run = run_named(named)
    opened = open_run(run)
    done = {record.place for record in outcomes(run)}
    cells = (cell for cell in opened.sweep.cells() if cell.place in done)
    path = output or run / "replies.bundle"
    with recorded(run, store) as replies:
        keys = asyncio.run(keys_of(cells, replies, opened.models.identity_in(replies)))
        export_bundle(replies, keys, path)
    say(f"{len(keys):,} replies in {path} ({path.stat().st_size:,} bytes)")
    say(f"replay it anywhere: oversight replay {run} --store {path}")
