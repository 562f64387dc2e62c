"""`oversight measure frontier`: what each row costs, and which rows are worth it."""

from pathlib import Path

import click

from ....analysis.calls import calls_of_run
from ....analysis.costs import CostAxis, row_costs
from ....analysis.frontier import frontier_finding
from ....analysis.judged import is_table, table_frontier
from ....analysis.rows import read_rows
from ....models.accounting.ledger import sum_usage
from ....models.accounting.ledger_file import read_ledger
from ....models.accounting.prices import listed, load_prices
from ....system.flags import argument, flag
from ..flags import as_command
from ..naming import run_named
from ..options import CLUSTER, PRICES, SCORE, TABLES_FORMAT
from ..output import show, width


@as_command
def command(
    named: str = argument("RUN"),
    score: str = SCORE,
    axis: CostAxis | None = flag(
        "Unit of cost. Default: dollars where all prices are known, else tokens.", name="--unit"
    ),
    prices: Path | None = PRICES,
    ways: tuple[str, ...] = CLUSTER,
    format: str = TABLES_FORMAT,
) -> None:
    """Print what each row of RUN costs, and which rows no other beats at the same cost or less.

    Which rows use which calls is read from the record in RUN. A call that several rows use is paid
    for once. "Alone" is what a row would cost by itself: all of its calls.
    "Marginal" is what it adds to the rows above it in the report: the calls that none of them
    uses. Nothing is sent.

    RUN may be a judgement table (.jsonl) as of oversight study score, with a "cost" in every line:
    then its settings are compared by the cost of a judgement.
    """
    if is_table(Path(named)):
        if axis or prices:
            raise click.UsageError("of judgement tables: --score, --cluster alone")
        show(table_frontier([Path(named)], score=score, ways=ways).text(format, width()))
        return
    run = run_named(named)
    rows = read_rows(run)
    costs = row_costs(rows, calls_of_run(rows.run), load_prices(prices) if prices else listed())
    paid = sum_usage(read_ledger(run).values()).dollars or None
    found = frontier_finding(rows, costs, score=score, axis=axis, ledger=paid)
    show(found.text(format, width()))
