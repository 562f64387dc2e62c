"""`oversight report`: the report of a run, complete or not."""

import math

import click

from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.output import show, width
from oversight.engine.reports.report import FORMATS, report
from oversight.engine.reports.results import collect
from oversight.engine.runs.loaded_sweep import open_run
from oversight.engine.runs.run_folder import outcomes
from oversight.protocols.scores import ALL_SCORES
from oversight.protocols.scoring.worlds import BETAS


@click.command()
@run_argument
@click.option("--format", "format", type=click.Choice(list(FORMATS)), default="text")
@click.option("--json", "format", flag_value="json", help="The same as --format json.")
@click.option("--score", type=click.Choice(list(ALL_SCORES)), default="brier", show_default=True)
@click.option(
    "--beta",
    "betas",
    type=click.FloatRange(0),
    multiple=True,
    help="Inverse greed of the agent for JSE and EAS; may be given again; inf is allowed.",
)
@click.option(
    "--measures",
    is_flag=True,
    help="With what protocols measured and transcripts counted; JSON and CSV always have it.",
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
