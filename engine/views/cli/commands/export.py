"""`oversight export`: a run as tables, figures, logs or one file."""

from functools import partial
from pathlib import Path

import click

from ....analysis.reports.frame_files import FrameFormat, write_frames
from ....analysis.reports.frames import FrameSource
from ....models.accounting.prices import listed, load_prices
from ....run.reader import RunReader, recorded
from ....system.settings import flag
from ..flags import PRICES, RECORDED_STORE, SCORE, output
from ..group import NamedGroup
from ..naming import RUN
from ..output import say


@click.group(cls=NamedGroup, path="export", modules=["plot"])
def command() -> None:
    """Write a run as a figure, tables, logs of Inspect, or one file for others."""


@command.adds()
def tables(
    run: Path = RUN,
    format: FrameFormat = flag("Format of the files.", default="parquet"),
    output: Path | None = output("RUN/frames"),
    store: str | None = RECORDED_STORE,
    no_replies: bool = flag(
        "Only the tables of rows and cells, which need no record.", default=False
    ),
    requests: bool = flag("Fill in the requests of each call, from the store.", default=False),
    prices: Path | None = PRICES,
    score: str = SCORE,
) -> None:
    """Write RUN as tables, for pandas, polars, DuckDB and spreadsheets.

    One file each for rows, cells, turns, judgements and calls, with failed and missing worlds, and
    a column for each setting in which rows differ. They are read from the record in RUN, which has
    replies and no requests. Parquet needs the extra `frames`.
    """
    read = RunReader(run)
    price_list = (load_prices(prices) if prices else listed()).named(read.sweep.meanings)
    folder = output or run / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    source = FrameSource(
        read, price_list, not no_replies, partial(recorded, run, store) if requests else None, score
    )
    lines = write_frames(source, folder, format)
    counts = ", ".join(f"{count:,} {name}" for name, count in lines.items())
    say(f"{counts} in {folder}, as {format}")
    if not (no_replies or requests):
        say("the column of requests is empty: --requests fills it from the store")
