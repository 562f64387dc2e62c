"""`oversight report`: the report of a run, complete or not."""

import math
from pathlib import Path

import click

from ....protocols.scoring.worlds import BETAS
from ...accounting.ledger_file import read_ledger
from ...accounting.prices import listed, load_prices
from ...decisions.calls import calls_of_run, sample_of
from ...decisions.costs import row_costs
from ...decisions.measures import measures_finding, verdict_measures
from ...decisions.noise import Noise, noise, noise_finding
from ...decisions.pivot import pivot, pivot_finding
from ...decisions.rows import read_rows
from ...decisions.sequential import saved_decision
from ...errors import UsageError
from ...reports.report import report
from ...reports.results import collect
from ...runs.reader import RunReader
from ...runs.sources import read_sources, source_lines
from ..naming import run_argument
from ..options import (
    format_option,
    no_store_option,
    prices_option,
    score_option,
)
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
    "--next",
    "advise",
    is_flag=True,
    help="Add where the noise comes from, and what to buy next: questions, draws or verdicts.",
)
@click.option(
    "--group",
    "by",
    metavar="NAME,NAME,…",
    help="Average over all other dimensions of the grid: protocol, mechanism, agent, judge, model, "
    "judge_model, rounds, …",
)
@click.option(
    "--sort",
    type=click.Choice(["asd", "lift"]),
    help="The best rows first. Default: the order of the sweep.",
)
@prices_option
@no_store_option
def command(
    run: Path,
    format: str,
    score: str,
    betas: tuple[float, ...],
    measures: bool,
    advise: bool,
    by: str | None,
    sort: str | None,
    prices: Path | None,
) -> None:
    """Print the report of the run folder RUN, from what has been run so far.

    --next needs two draws of each problem, or a judge of the kind `redrawn`. What things cost is
    read from the record, for ten problems.
    """
    if any(map(math.isnan, betas)):
        raise click.BadParameter("nan is no number", param_hint="--beta")
    read = RunReader(run)
    if by is not None:
        names = [name.strip() for name in by.split(",")]
        lines = pivot(read_rows(read), names, score)
        show(pivot_finding(lines, names, read.sweep.name, score).text(format, width()))
        return
    results = collect(
        read.sweep,
        read.outcomes(),
        score=score,
        betas=tuple(dict.fromkeys(betas)) or BETAS,
        mixed=read.manifest.mixed,
    )
    if sort:
        results = results.sorted_by(sort)
    sections = []
    if measures:
        measured = verdict_measures(read_rows(read), score)
        sections.append(("verdict_measures", measures_finding(measured)))
    if advise:
        sources = _noise(read, score, prices)
        sections.append(("noise", noise_finding(sources)))
    show(report(results, format, width(), measures=measures, sections=sections))
    say_latency(read_ledger(run))
    for line in source_lines(read_sources(run)):
        say(line)
    if decision := saved_decision(run):
        for line in decision.lines():
            say(line)


def _noise(run: RunReader, score: str, prices: Path | None) -> Noise:
    rows = read_rows(run)
    calls = calls_of_run(rows.run, sample_of(rows.sweep))
    costs = row_costs(rows, calls, load_prices(prices) if prices else listed())
    sources = noise(rows, costs, score=score)
    if not sources.rows:
        raise UsageError(
            f"{run.folder}: one draw of each problem cannot separate noise; run it with draws: 2, "
            "or with judges: {kind: redrawn, member: …, draws: 3}, which goes on from this one"
        )
    return sources
