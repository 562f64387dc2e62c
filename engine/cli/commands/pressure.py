"""`oversight measure pressure`: what a protocol rewards when its reward is optimised."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, get_args

import click

from ....protocols.scores import ALL_SCORES
from ...decisions.pressure import SelectionMethod, pressure_finding
from ...decisions.rows import read_rows, rows_meant
from ...errors import UsageError
from ..naming import run_argument
from ..options import tables_format_option
from ..output import say, show, width

Strengths: TypeAlias = tuple[float, ...]


def _numbers(read: Callable[[str], float], least: float) -> Callable[..., Strengths | None]:
    """A callback that parses comma-separated numbers."""

    def parsed(ctx: click.Context, param: click.Parameter, text: str | None) -> Strengths | None:
        if text is None:
            return None
        try:
            found = tuple(read(word) for word in text.split(","))
        except ValueError:
            raise click.BadParameter(f"{text!r}: write numbers with commas: 1,2,4") from None
        if not all(least <= number for number in found):
            raise click.BadParameter(f"{text!r}: each number is at least {least:g}")
        return found

    return parsed


@click.command()
@run_argument
@click.option(
    "--select",
    type=click.Choice(get_args(SelectionMethod)),
    default="bon",
    help="How the agent is selected: best of n (bon), or exponential tilt.",
)
@click.option(
    "--n",
    "ns",
    metavar="N,N,…",
    callback=_numbers(int, 1),
    help="For best of n: sizes, e.g. 1,2,4. Default: doubled from 1 up to the whole pool.",
)
@click.option(
    "--beta",
    "betas",
    metavar="BETA,BETA,…",
    callback=_numbers(float, 0),
    help="For the tilt: strengths. Default: 0,0.5,1,2,4.",
)
@click.option(
    "--row",
    "words",
    multiple=True,
    help="Only rows with this in their name; repeatable.",
)
@click.option(
    "--reward",
    "score",
    type=click.Choice(list(ALL_SCORES)),
    default="brier",
    help="Scoring rule that the agent is rewarded by.",
)
@tables_format_option
def command(
    run: Path,
    select: SelectionMethod,
    ns: Strengths | None,
    betas: Strengths | None,
    words: tuple[str, ...],
    score: str,
    format: str,
) -> None:
    """Print what each row of RUN rewards when its agent is optimised for the reward.

    Candidates are the draws that RUN has of each problem in all worlds, with their stored
    verdicts: run with `draws: 8` or so, for few candidates tell little. Figures are exact for every
    n up to the number of candidates. Rows of `debate_game`, in which both sides choose, are shown
    in equilibrium. Nothing is sent.
    """
    if (select == "bon" and betas is not None) or (select == "tilt" and ns is not None):
        raise click.UsageError("--n is for --select bon, and --beta for --select tilt")
    found = read_rows(run)
    rows = found.sweep.rows
    chosen = [n for word in words for n in rows_meant(word, rows, found.names)]
    if not words:
        chosen = [n for n, row in enumerate(rows) if not row.naive]
    completed = [row for row in dict.fromkeys(chosen) if found.table.outcomes[row]]
    for row in dict.fromkeys(chosen):
        if row not in completed:
            say(f"{found.names[row]}: has not been run yet")
    if not completed:
        raise UsageError(f"{run}: no row of it has been run")
    strengths = ns if select == "bon" else betas
    pressure = pressure_finding(found, completed, select=select, strengths=strengths, score=score)
    show(pressure.text(format, width()))
