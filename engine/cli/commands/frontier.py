"""`oversight measure frontier`: what each row costs, and which rows are worth it."""

from pathlib import Path
from typing import get_args

import click

from ...accounting.ledger import sum_usage
from ...accounting.ledger_file import read_ledger
from ...accounting.prices import listed, load_prices
from ...decisions.calls import calls_of_run
from ...decisions.costs import CostAxis, costs_finding, frontier, row_costs
from ...decisions.rows import read_rows
from ..naming import run_argument
from ..options import (
    no_store_option,
    prices_option,
    score_option,
    tables_format_option,
)
from ..output import show, width


@click.command()
@run_argument
@score_option
@click.option(
    "--unit",
    "axis",
    type=click.Choice(get_args(CostAxis)),
    help="Unit of cost. Default: dollars where all prices are known, else tokens.",
)
@prices_option
@no_store_option
@tables_format_option
def command(
    run: Path,
    score: str,
    axis: CostAxis | None,
    prices: Path | None,
    format: str,
) -> None:
    """Print what each row of RUN costs, and which rows no other beats at the same cost or less.

    Which rows use which calls is read from the record in RUN. A call that several rows use is paid
    for once. "Alone" is what a row would cost by itself: all of its calls.
    "Marginal" is what it adds to the rows above it in the report: the calls that none of them
    uses. Nothing is sent.
    """
    rows = read_rows(run)
    costs = row_costs(rows, calls_of_run(rows.run), load_prices(prices) if prices else listed())
    found = frontier(rows, costs, score=score, axis=axis)
    paid = sum_usage(read_ledger(run).values()).dollars or None
    show(costs_finding(costs, found, paid).text(format, width()))
