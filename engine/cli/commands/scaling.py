"""`oversight scaling`: ratings of judges and agents, and nested oversight."""

from typing import Any, get_args

import click
import orjson

from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.output import show, width
from oversight.engine.decisions.rows import read_rows
from oversight.engine.decisions.scaling import Game, Scaling, scaling
from oversight.engine.display.table import Table, as_text


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
@click.option("--protocol", required=True, help="One kind of row, as the report has it.")
@click.option(
    "--game",
    type=click.Choice(get_args(Game)),
    default="lie",
    show_default=True,
    help="Worlds that argue for a wrong answer, or all.",
)
@click.option("--difficulty", is_flag=True, help="Fit how much problems differ in difficulty.")
@click.option(
    "--capability",
    multiple=True,
    callback=_levels,
    metavar="NAME=NUMBER",
    help="Of an agent or a judge; without any, the log odds of the naive judges. Repeatable.",
)
@click.option("--gap", type=float, help="How far above the weakest nested oversight is to reach.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    named: str,
    protocol: str,
    game: Game,
    difficulty: bool,
    capability: dict[str, float],
    gap: float | None,
    as_json: bool,
) -> None:
    """Rate the judges (Guards) and agents (Houdinis) of RUN against each other.

    The rows of one protocol are the games; intervals resample clusters of problems. Where every
    model has a capability and each role three ratings, the chance of nested oversight follows.
    Nothing is sent.
    """
    found = scaling(
        read_rows(run_named(named)),
        protocol,
        game=game,
        difficulty=difficulty,
        capability=capability,
        gap=gap,
    )
    if as_json:
        show(orjson.dumps(_plain(found), option=orjson.OPT_INDENT_2).decode())
    else:
        show(as_text(_table(found), width()))


def _plain(found: Scaling) -> dict[str, Any]:
    wins, played = found.games.wins.sum(axis=0), found.games.played.sum(axis=0)
    roles = {"guards": found.ratings.guards, "houdinis": found.ratings.houdinis}
    nested = found.nested
    return {
        "protocol": found.protocol,
        "game": found.game,
        "problems": found.problems,
        "wins": wins.tolist(),
        "played": played.tolist(),
        **{role: list(ratings) for role, ratings in roles.items()},
        "difficulty": found.ratings.difficulty,
        "capability": dict(found.capability),
        "nested": nested
        and {
            "chances": list(nested.estimate.chances),
            "steps": nested.estimate.steps,
            "best": nested.estimate.best,
            "low": nested.interval[0],
            "high": nested.interval[1],
            "outside": nested.estimate.outside,
        },
        "why_not": found.why_not,
    }


def _table(found: Scaling) -> Table:
    wins, played = found.games.wins.sum(axis=0), found.games.played.sum(axis=0)
    body = []
    for role, each, axis in (
        ("guard", found.ratings.guards, 1),
        ("houdini", found.ratings.houdinis, 0),
    ):
        won = wins.sum(axis=axis) if role == "guard" else (played - wins).sum(axis=axis)
        share = won / played.sum(axis=axis)
        for n, one in enumerate(each):
            level = found.capability.get(one.model)
            body.append(
                (
                    role,
                    one.model,
                    f"{share[n]:.0%}",
                    f"{one.rating:.0f}{'*' * one.bounded}",
                    f"[{one.interval[0]:.0f}, {one.interval[1]:.0f}]",
                    "–" if level is None else f"{level:g}" if abs(level) >= 100 else f"{level:.2f}",
                )
            )
    notes = ["95 % by clusters of problems. *: won or lost all: only a bound."]
    if found.ratings.difficulty is not None:
        notes.append(f"problems differ by {found.ratings.difficulty:.0f} points (s.d.).")
    if found.nested is None:
        notes.append(f"no nested oversight: {found.why_not}")
    else:
        best, (low, high) = found.nested.estimate, found.nested.interval
        notes.append(
            f"nested oversight: {best.best:.3f} [{low:.3f}, {high:.3f}] in {best.steps} "
            f"step{'s' * (best.steps != 1)}"
            + (", beyond the capabilities that were seen." if best.outside else ".")
        )
    what = "worlds that argue for a wrong answer" if found.game == "lie" else "all worlds"
    return Table(
        f"scaling: {found.protocol}, {what}, {found.problems} problems",
        ("role", "model", "won", "rating", "95 %", "capability"),
        tuple(body),
        2,
        tuple(notes),
    )
