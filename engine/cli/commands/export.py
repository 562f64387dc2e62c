"""`oversight export`: a run as tables, training data or logs of Inspect; its replies as a file."""

from functools import partial
from pathlib import Path
from typing import get_args

import click

from ....cache.bundle import export_bundle
from ...accounting.prices import listed, load_prices
from ...display.quantity import counted
from ...reports.frame_files import FrameFormat, write_frames
from ...reports.frames import FrameSource
from ...runs.lookup import Parts
from ...runs.reader import RunReader
from ...runs.recorded import recorded
from ..group import NamedGroup
from ..naming import run_argument
from ..options import output_option, prices_option, recorded_option, row_options, score_option
from ..output import say


class ExportGroup(NamedGroup):
    """`export RUN` answers until version 0.3, and writes what it wrote in 0.1: tables where
    --format names their form, and else replies."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and args[0] not in self.list_commands(ctx):
            option = click.Option(["--format"], default="replies")
            settings = {"ignore_unknown_options": True, "allow_extra_args": True}
            old = click.Command("export", params=[option], context_settings=settings)
            told = old.make_context("export RUN", list(args))
            format = told.params["format"]
            replies = format in ("replies", "bundle")
            args = (
                ["replies", *told.args] if replies else ["tables", *told.args, "--format", format]
            )
            say(f"export RUN is called export {args[0]} now; the old name goes in version 0.3")
        return super().resolve_command(ctx, args)


@click.group(cls=ExportGroup, modules={"training": "training"})
def command() -> None:
    """Write a run as tables, training data or logs of Inspect, or its replies into one file."""


@command.command()
@run_argument
@click.option(
    "--format",
    "format",
    type=click.Choice(get_args(FrameFormat)),
    default="parquet",
    help="Of the files.",
)
@output_option("RUN/frames")
@recorded_option
@click.option(
    "--no-replies", is_flag=True, help="Only the tables of rows and cells, which need no record."
)
@click.option("--requests", is_flag=True, help="Fill in the requests of each call, from the store.")
@prices_option
@score_option
def tables(
    run: Path,
    format: FrameFormat,
    output: Path | None,
    store: str | None,
    no_replies: bool,
    requests: bool,
    prices: Path | None,
    score: str,
) -> None:
    """Write RUN as tables, for pandas, polars, DuckDB and spreadsheets.

    One file each for rows, cells, turns, judgements and calls, with failed and missing worlds, and
    a column for each setting in which rows differ. They are read from the record in RUN, which has
    replies and no requests. Parquet needs the extra `frames`.
    """
    read = RunReader(run)
    known = (load_prices(prices) if prices else listed()).named(read.sweep.meanings)
    folder = output or run / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    source = FrameSource(
        read, known, not no_replies, partial(recorded, run, store) if requests else None, score
    )
    lines = write_frames(source, folder, format)
    told = ", ".join(f"{count:,} {name}" for name, count in lines.items())
    say(f"{told} in {folder}, as {format}")
    if not (no_replies or requests):
        say("the column of requests is empty: --requests fills it from the store")


@command.command()
@run_argument
@output_option("RUN/replies.bundle")
@recorded_option
def replies(run: Path, output: Path | None, store: str | None) -> None:
    """Write every reply that RUN used into one file, by which anyone can replay it.

    oversight replay RUN --store FILE reads it. The same run gives the same bytes. A reply that the
    store does not hold ends the export with exit code 5 and no file.
    """
    keys = RunReader(run).keys()
    path = output or run / "replies.bundle"
    with recorded(run, store) as held:
        export_bundle(held, keys, path)
    say(f"{counted(len(keys), 'reply', 'replies')} in {path} ({path.stat().st_size:,} bytes)")
    say(f"replay it anywhere: oversight replay {run} --store {path}")


@command.command()
@run_argument
@output_option("RUN/inspect")
@row_options
@recorded_option
@click.option("--requests", is_flag=True, help="Fill in the requests of each call, from the store.")
@score_option
def inspect(
    run: Path, output: Path | None, parts: Parts, store: str | None, requests: bool, score: str
) -> None:
    """Write RUN as logs of Inspect: one log a row, one sample a world.

    `inspect view`, `samples_df` and Scout read them. A world without a verdict is a sample with an
    error. The same run gives the same bytes. Needs the extra `inspect`.
    """
    from ...inspect.logs import LogSource, write_logs

    opened = partial(recorded, run, store) if requests else None
    folder = output or run / "inspect"
    files = write_logs(LogSource(RunReader(run), parts, score, opened), folder)
    say(f"{counted(len(files), 'log')} in {folder}")
    say(f"read them: inspect view --log-dir {folder}")
