"""`oversight scaling`: ratings of judges and agents, and nested oversight."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from oversight.engine.cli.naming import run_argument
from oversight.engine.cli.options import json_option, one_protocol_option, score_option
from oversight.engine.cli.output import show, show_json, width
from oversight.engine.decisions.rows import read_rows
from oversight.engine.decisions.scaling import Game, Scaling, scaling
from oversight.engine.display.quantity import counted
from oversight.engine.display.table import Table, as_text
from oversight.protocols.scoring.surface import TERMS


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
    "--difficulty", is_flag=True, help="Fit how problems differ in difficulty; takes minutes."
)
@click.option(
    "--capability",
    multiple=True,
    callback=_levels,
    metavar="NAME=NUMBER",
    help="Capability of an agent or a judge; repeatable. Default: `capability` of their models in "
    "the sweep file, or else the log odds of the naive judges.",
)
@click.option(
    "--gap",
    type=float,
    help="How far above the weakest model nested oversight is to reach. Default: to the strongest.",
)
@score_option
@json_option
def command(
    run: Path,
    protocol: str,
    game: Game,
    difficulty: bool,
    capability: dict[str, float],
    gap: float | None,
    score: str,
    as_json: bool,
) -> None:
    """Rate the judges (Guards) and agents (Houdinis) of RUN against each other.

    The games are the rows of one protocol: --protocol must fit one kind of row. Intervals resample
    clusters of problems. Where every model has a capability and each role at least three ratings,
    the success rate of nested oversight is estimated from them; and where two capabilities of each
    role are crossed, how ASD moves with both, and at what gap lift is gone. Nothing is sent.
    """
    found = scaling(
        read_rows(run),
        protocol,
        game=game,
        difficulty=difficulty,
        capability=capability,
        gap=gap,
        score=score,
    )
    if as_json:
        show_json(_plain(found))
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
        "lines": {
            role: [{"form": each.form, **asdict(each)} for each in lines]
            for role, lines in found.lines.items()
        },
        "surface": found.surface
        and {
            term: {"coefficient": value, "error": error}
            for term, value, error in zip(
                TERMS, found.surface.coefficients, found.surface.errors, strict=True
            )
        },
        "breakdown": found.breakdown and asdict(found.breakdown),
    }


def _moves(found: Scaling) -> Iterator[str]:
    """How ratings, ASD and lift move with capability."""
    for role, lines in found.lines.items():
        best = lines[0]
        yield (
            f"{role}s over capability: {best.form} of slope {best.slope:.2f}, with "
            f"{best.weight:.0%} of the weight by AICc."
        )
    if found.surface:
        told = zip(TERMS, found.surface.coefficients, found.surface.errors, strict=True)
        parts = "; ".join(f"{term} {value:+.3g} ({error:.2g})" for term, value, error in told)
        yield f"ASD = level + judge - agent + both: {parts}; errors by problems and models."
    if found.breakdown:
        low, high = (_end(end) for end in found.breakdown.interval)
        at = found.breakdown.at
        yield (
            f"lift is gone where the agent is {at:.3g} [{low}, {high}] above its judge."
            if at is not None
            else f"lift reaches 0 at no gap that was seen; in {found.breakdown.crossed:.0%} of "
            "resamples it does."
        )


def _end(end: float | None) -> str:
    return "–" if end is None else f"{end:.3g}"


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
    notes = ["95% by clusters of problems. *: won or lost all: only a bound."]
    if found.ratings.difficulty is not None:
        notes.append(f"problems differ by {found.ratings.difficulty:.0f} points (s.d.).")
    if found.nested is None:
        notes.append(f"no nested oversight: {found.why_not}")
    else:
        best, (low, high) = found.nested.estimate, found.nested.interval
        notes.append(
            f"nested oversight: {best.best:.3f} [{low:.3f}, {high:.3f}] in "
            f"{counted(best.steps, 'step')}"
            + (", beyond the capabilities that were seen." if best.outside else ".")
        )
    notes += _moves(found)
    what = "worlds that argue for a wrong answer" if found.game == "lie" else "all worlds"
    return Table(
        f"scaling: {found.protocol}, {what}, {counted(found.problems, 'problem')}",
        ("role", "model", "won", "rating", "95%", "capability"),
        tuple(body),
        2,
        tuple(notes),
    )
