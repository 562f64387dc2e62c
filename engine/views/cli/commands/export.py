"""`oversight export`: a run as tables, figures, logs or one file."""

from functools import partial
from pathlib import Path

import click

from ....analysis.reports.formats import INTERVAL
from ....analysis.reports.frame_files import FrameFormat, write_frames
from ....analysis.reports.frames import FrameSource
from ....analysis.scoring.estimate import Interval
from ....errors import UsageError
from ....models.accounting.prices import listed, load_prices
from ....run.listing import Parts
from ....run.reader import recorded
from ....system.settings import argument, flag
from ..completing import run_names
from ..flags import PRICES, RECORDED_STORE, SCORE, grouped, output
from ..group import NamedGroup
from ..naming import RUN, reader_of, run_named
from ..output import say, show

KINDS = (
    "asd", "lift", "worlds", "jse", "calibration", "trend", "frontier", "compare",
    "monitoring", "coverage", "proposals",
)  # fmt: skip


@click.group(cls=NamedGroup, path="export")
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
    replies and no requests. Parquet needs the extra `frames`."""
    read = reader_of(run)
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


@grouped(
    {
        "Figure": "kind score interval by",
        "Rows": "protocol agent judge",
        "Look": "style caption",
        "Output": "output data store",
    }
)
@command.adds()
def plot(
    *,
    words: tuple[str, ...] = argument("RUN [RUN2]", required=True, complete=run_names),
    kind: str = flag(
        "Kind of figure; docs/pages.md describes each.", default="asd", type=click.Choice(KINDS)
    ),
    output: Path | None = output("RUN-KIND.pdf"),
    data: Path | None = flag(
        "Write the numbers behind the picture as CSV; - for standard output.",
        type=click.Path(path_type=Path, dir_okay=False),
    ),
    parts: Parts,
    score: str = SCORE,
    interval: Interval | None = INTERVAL,
    style: str = flag(
        "Size: one column of an article, two columns, or a slide.",
        default="column",
        type=click.Choice(["column", "paper", "slides"]),
    ),
    by: tuple[str, ...] = flag(
        "With asd, lift and jse: average over all rows of one protocol, agent, judge or setting; "
        "repeatable.",
        default=(),
        metavar="DIMENSION",
    ),
    caption: bool = flag("Also put the caption below the picture.", default=False),
    store: str | None = RECORDED_STORE,
) -> None:
    """Draw a figure of RUN; with --kind compare, of two runs: the first minus the second.

    The file is a .pdf, .svg or .png, as the name given to -o ends, with its caption in a .txt of
    the same name. The same run gives the same bytes. With --data and without -o only the numbers
    are written; that needs no matplotlib."""
    from ....analysis.pictures.kinds import caption as caption_of
    from ....analysis.pictures.kinds import data_of, pictured
    from ....analysis.pictures.painting import draw, save, write
    from ....run.reader import origins

    if len(words) != (2 if kind == "compare" else 1):
        raise UsageError(f"--kind {kind} takes {'two runs' if kind == 'compare' else 'one run'}")
    runs = [reader_of(run_named(word), store) for word in words]
    try:
        picture = pictured(runs[0], kind, score, runs[1] if runs[1:] else None, parts, by, interval)
        text = caption_of(runs[0], picture)
        sources = dict.fromkeys(
            line for run in runs for line in origins(run.sweep, run.folder, addresses=False)
        )
    finally:
        for run in runs:
            run.__exit__()
    if data is not None:
        numbers = data_of(picture, tuple(sources))
        if str(data) == "-":
            show(numbers)
        else:
            write(data, f"{numbers}\n".encode())
            say(str(data))
        if output is None:
            return
    to = output or Path(f"{runs[0].name}-{kind}.pdf")
    about = "; ".join([runs[0].manifest.identity[:12], *sources])
    save(draw(picture, style, text if caption else ""), to, about, style)
    write(to.with_suffix(".txt"), f"{text}\n".encode())
    show(str(to))
