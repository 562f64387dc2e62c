"""`oversight report`: the report of a run, complete or not."""

import math
from pathlib import Path

import click

from ....protocols.scoring.worlds import BETAS
from ...accounting.ledger_file import read_ledger
from ...decisions.measures import measures_finding, verdict_measures
from ...decisions.noise import noise, noise_finding
from ...decisions.pivot import pivot, pivot_finding
from ...decisions.rows import read_rows
from ...decisions.sequential import saved_decision
from ...display.printable import printable
from ...reports.report import report
from ...runs.reader import RunReader
from ...runs.sources import read_sources, source_lines
from ..naming import run_argument
from ..options import format_option, no_store_option, score_option
from ..output import say, say_latency, show, width


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
@click.option(
    "--noise",
    "--next",
    "noisy",
    is_flag=True,
    help="Add where the noise comes from: questions, draws or verdicts.",
)
@click.option(
    "--group",
    "by",
    metavar="NAME,NAME,…",
    help="Average over all other dimensions of the grid: protocol, mechanism, agent, judge, model, "
    "judge_model, rounds, …; or flaw, of the problems.",
)
@click.option(
    "--sort",
    type=click.Choice(["asd", "lift"]),
    help="The best rows first. Default: the order of the sweep.",
)
@no_store_option
@click.option(
    "--plan",
    "registration",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Registration of the sweep, as of oversight entry commit.",
)
def command(
    run: Path,
    format: str,
    score: str,
    betas: tuple[float, ...],
    measures: bool,
    noisy: bool,
    by: str | None,
    sort: str | None,
    registration: Path | None,
) -> None:
    """Print the report of the run folder RUN, from what has been run so far.

    With --plan it says that the run is as registered, or what is not.
    --noise needs two draws of each problem, or a judge of the kind `redrawn`.
    """
    if any(map(math.isnan, betas)):
        raise click.BadParameter("nan is no number", param_hint="--beta")
    read = RunReader(run)
    if by is not None:
        names = [name.strip() for name in by.split(",")]
        lines = pivot(read_rows(read), names, score)
        show(pivot_finding(lines, names, read.sweep.name, score).text(format, width()))
        return
    results = read_rows(read).results(score, tuple(dict.fromkeys(betas)) or BETAS)
    if sort:
        results = results.sorted_by(sort)
    sections = []
    if measures:
        measured = verdict_measures(read_rows(read), score)
        sections.append(("verdict_measures", measures_finding(measured)))
    if noisy:
        sections.append(("noise", noise_finding(noise(read_rows(read), score), score)))
    show(report(results, format, width(), measures=measures, sections=sections))
    say_latency(read_ledger(run))
    for line in source_lines(read_sources(run)):
        say(line)
    if registration is not None:
        from ...entries.plan import read_registration

        complete = bool(read_rows(read).table.ended.all())
        plan = read_registration(registration)
        found = plan.deviations(read.sweep, read.manifest.identity, complete)
        for line in found or ("as registered",):
            say(printable(f"{registration}: {line}"))
    if decision := saved_decision(run):
        for line in decision.lines():
            say(line)
