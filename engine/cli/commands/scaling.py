"""`oversight measure scaling`: ratings of judges and agents, and nested oversight."""

from pathlib import Path
from typing import get_args

import click

from ...decisions.rows import read_rows
from ...decisions.scaling import Game, scaling, scaling_finding
from ..naming import run_argument
from ..options import json_option, one_protocol_option
from ..output import show, width


def _levels(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in given:
        model, equals, number = text.rpartition("=")
        try:
            found[model] = float(number)
        except ValueError:
            equals = ""
        if not equals or not model:
            raise click.BadParameter(f"{text!r}: write NAME=NUMBER, as 'sim/strong=1300'")
    return found


@click.command()
@run_argument
@one_protocol_option
@click.option(
    "--game",
    type=click.Choice(get_args(Game)),
    default="lie",
    help="Which worlds count: lie, those that argue for a wrong answer; balanced, all.",
)
@click.option(
    "--capability",
    multiple=True,
    callback=_levels,
    metavar="NAME=NUMBER",
    help="Capability of an agent or a judge; repeatable. Default: `capability` of their models in "
    "the sweep file, or else the log odds of the naive judges.",
)
@json_option
def command(
    run: Path,
    protocol: str,
    game: Game,
    capability: dict[str, float],
    as_json: bool,
) -> None:
    """Rate the judges (Guards) and agents (Houdinis) of RUN against each other.

    The games are the rows of one protocol: --protocol must fit one kind of row. Intervals leave
    out clusters of problems in turn. Where every model has a capability and each role at least
    three ratings, the success rate of nested oversight, from the weakest model to the strongest, is
    estimated from them. Nothing is sent.
    """
    found = scaling(read_rows(run), protocol, game=game, capability=capability)
    show(scaling_finding(found).text("json" if as_json else "text", width()))
