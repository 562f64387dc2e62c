"""`oversight study score`: scores of judgements from people or other tools."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ....protocols.scores import ALL_SCORES, SCORES, Compat
from ....protocols.scoring.inference import ErrorKind
from ....protocols.scoring.judgements import Judgements
from ....protocols.scoring.worlds import BETAS
from ...decisions.judged import lines_of
from ...reports.scored import score_finding, where
from ...reports.verdicts import TOLD_APART, read_verdicts
from ...studies.scoring import is_study, study_judgements, study_parts
from ..options import format_option
from ..output import show, width


def _with_the_usual(
    ctx: click.Context, param: click.Parameter, betas: Sequence[float]
) -> tuple[float, ...]:
    for beta in betas:
        if not beta >= 0:
            raise click.BadParameter(f"{beta} is not between 0 and inf")
    return tuple(sorted({*BETAS, *betas}))


def _ways(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(
        filter(None, (word.strip() for word in text.replace("group", "problem").split(",")))
    )


cluster_option = click.option(
    "--cluster",
    "ways",
    default="",
    show_default=False,
    metavar="KEY,KEY,…",
    callback=_ways,
    help="Kinds of clusters that cross: group (the shared text, or the question), question, "
    "judge, speaker, line. Default: group, and judge where lines name one.",
)
error_option = click.option(
    "--error",
    type=click.Choice(["cr3", "cr1"]),
    default="cr3",
    help="cr1: plain clustered errors without pseudo-clusters, as a check.",
)


@click.command()
@click.argument("verdicts", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--by", type=click.Choice(TOLD_APART), default="setting", help="Key that separates rows."
)
@cluster_option
@click.option("--where", "conditions", multiple=True, metavar="KEY=VALUE", help="Lines to keep.")
@click.option(
    "--score",
    "scores",
    type=click.Choice(list(ALL_SCORES)),
    multiple=True,
    help="Scoring rule of the verdicts.",
)
@error_option
@click.option(
    "--compat",
    type=click.Choice(["none", "solib"]),
    default="none",
    show_default=False,
    help="Score as SOlib does: ASD is not centred, none of the answers that tie counts as "
    "accurate, and a greedy agent argues for each with weight 1.",
)
@click.option(
    "--beta",
    "betas",
    type=float,
    multiple=True,
    callback=_with_the_usual,
    help="Inverse greed of the agent to report beside 0, 1 and inf; repeatable.",
)
@format_option
def command(
    verdicts: Path,
    by: str,
    ways: tuple[str, ...],
    conditions: tuple[str, ...],
    scores: tuple[str, ...],
    error: ErrorKind,
    compat: Compat,
    betas: tuple[float, ...],
    format: str,
) -> None:
    """Score VERDICTS: a study's folder, a file of JSON Lines, or - for standard input.

    A line is a judgement: the value of each answer, and the verdict in each world. A world is named
    by the answer that the agent argues for in it. It is null where there is no verdict, and what
    that could hide is shown as bounds of the ASD; a world that is left out was not run. Where every
    answer was argued, "verdict" takes the place of "worlds".

    \b
      {"id": "q1", "values": {"A": 1, "B": -1},
       "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}}}

    A question may be judged in several lines that differ in "judge", "speaker", "setting" or
    "draw". Questions with the same "group" (a shared source text) depend on each other. "first" is
    what the judge believed before anything was said. Log odds are for two answers only.
    """
    if str(verdicts) == "-":
        lines = read_verdicts(sys.stdin.buffer, "<stdin>")
    elif is_study(verdicts):
        lines = Judgements.of(study_judgements(verdicts, conditions))
    else:
        lines = lines_of(verdicts)
    found = score_finding(
        "<stdin>" if str(verdicts) == "-" else str(verdicts),
        where(lines, conditions),
        betas=betas,
        compat=compat,
        by=by,
        ways=ways,
        scores=scores or tuple(SCORES),
        error=error,
    )
    if is_study(verdicts):
        found = study_parts(found, verdicts, conditions)
    show(found.text(format, width()))
