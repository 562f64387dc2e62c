"""`oversight frontier`: what each row costs, and which rows are worth it."""

import asyncio
from pathlib import Path
from typing import get_args

import click
import orjson

from oversight.engine.accounting.ledger import sum_usage
from oversight.engine.accounting.ledger_file import read_ledger
from oversight.engine.accounting.prices import listed, load_prices
from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.options import recorded_option
from oversight.engine.cli.output import show, width
from oversight.engine.decisions.calls import calls_of_run
from oversight.engine.decisions.costs import Axis, frontier, row_costs
from oversight.engine.decisions.costs_text import as_json, tables
from oversight.engine.decisions.rows import read_rows
from oversight.engine.display.table import as_latex, as_markdown, as_text
from oversight.engine.runs.recorded import recorded
from oversight.protocols.scores import ALL_SCORES


@click.command()
@run_argument
@click.option("--score", type=click.Choice(list(ALL_SCORES)), default="brier", show_default=True)
@click.option(
    "--by",
    "axis",
    type=click.Choice(get_args(Axis)),
    help="What a row costs in. Dollars where all prices are known, else tokens.",
)
@click.option("--prices", type=click.Path(path_type=Path, exists=True), help="A price file.")
@recorded_option
@click.option(
    "--format",
    "format",
    type=click.Choice(["text", "md", "latex", "json"]),
    default="text",
    show_default=True,
)
@click.option("--json", "format", flag_value="json", help="The same as --format json.")
def command(
    named: str, score: str, axis: Axis | None, prices: Path | None, store: str | None, format: str
) -> None:
    """Print what each row of RUN costs, by itself and beside the others, and the frontier.

    The run is replayed from the store, to know which rows rest on which calls. A call that several
    rows ask is paid once: alone, a row costs all of its calls; marginally, in the order of the
    report, those that no row above it asked. Nothing is sent.
    """
    folder = run_named(named)
    run = read_rows(folder)
    with recorded(folder, store) as replies:
        calls = asyncio.run(calls_of_run(run.opened, folder, replies))
    costs = row_costs(run, calls, load_prices(prices) if prices else listed())
    found = frontier(run, costs, score=score, axis=axis)
    paid = sum_usage(read_ledger(folder).values()).dollars or None
    if format == "json":
        show(orjson.dumps(as_json(costs, found, paid), option=orjson.OPT_INDENT_2).decode())
        return
    layouts = {"md": as_markdown, "latex": as_latex}
    shown = tables(costs, found, paid)
    if format in layouts:
        show("\n\n".join(layouts[format](table) for table in shown))
    else:
        show("\n\n".join(as_text(table, width()) for table in shown))
