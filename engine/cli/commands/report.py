"""`oversight report`: the report of a run, complete or not."""

import math

import click

from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.options import format_option, score_option
from oversight.engine.cli.output import show, width
from oversight.engine.reports.report import report
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
    help="Add what protocols measured and transcripts counted; JSON and CSV always have it.",
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
    show(report(results, format, width(), measures=measures))
