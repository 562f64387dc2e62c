"""`oversight report`: the report of a run, complete or not."""

import math
from pathlib import Path

import click
import orjson

from oversight.engine.accounting.ledger_file import read_ledger
from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.options import format_option, score_option
from oversight.engine.cli.output import say, say_latency, show, width
from oversight.engine.decisions.measures import verdict_measures
from oversight.engine.decisions.measures_text import measures_json, measures_tables
from oversight.engine.decisions.rows import read_rows
from oversight.engine.decisions.sequential import saved_decision
from oversight.engine.display.table import as_text
from oversight.engine.reports.report import LAYOUTS, report
from oversight.engine.reports.results import collect
from oversight.engine.runs.loaded_sweep import open_run
from oversight.engine.runs.run_folder import outcomes
from oversight.protocols.scoring.worlds import BETAS


@click.command()
@run_argument
@format_option
@score_option
@click.option(
    "--beta",
    "betas",
    type=click.FloatRange(0),
    multiple=True,
    help="Inverse greed of the agent for JSE and EAS, up to inf; repeatable.",
)
@click.option(
    "--measures",
    is_flag=True,
    help="Add what protocols measured and transcripts counted, and order, calibration, flips and "
    "bias of the verdicts.",
)
def command(named: str, format: str, score: str, betas: tuple[float, ...], measures: bool) -> None:
    """Print the report of the run folder RUN, from what has been run so far."""
    run = run_named(named)
    if any(map(math.isnan, betas)):
        raise click.BadParameter("nan is no number", param_hint="--beta")
    opened = open_run(run)
    results = collect(
        opened.sweep, outcomes(run), score=score, betas=tuple(dict.fromkeys(betas)) or BETAS
    )
    told = report(results, format, width(), measures=measures)
    if measures:
        told = _with_measures(told, run, score, format)
    show(told)
    say_latency(read_ledger(run))
    if decision := saved_decision(run):
        for line in decision.lines():
            say(line)


def _with_measures(told: str, run: Path, score: str, format: str) -> str:
    """The report with the measures of its verdicts: more tables, or one more key of the JSON."""
    found = verdict_measures(read_rows(run), score)
    if format == "json":
        whole = orjson.loads(told) | {"verdict_measures": measures_json(found)}
        return orjson.dumps(whole, option=orjson.OPT_INDENT_2).decode()
    if format == "csv":
        return told
    if format == "text":
        return "\n\n".join([told, *(as_text(table, width()) for table in measures_tables(found))])
    return "\n\n".join([told, *(LAYOUTS[format](table) for table in measures_tables(found))])
