"""`oversight score`: the measures of verdicts that were produced elsewhere."""

import json
from collections.abc import Sequence
from typing import Any, BinaryIO

import click

from oversight.engine.reports.scored import (
    Scored,
    asd_bounds,
    estimated,
    failed,
    figures,
    samples,
    score,
)
from oversight.engine.reports.verdicts import read_verdicts
from oversight.protocols.scores import SCORES, Compat
from oversight.protocols.scoring.bounds import Bounds
from oversight.protocols.scoring.worlds import BETAS, beta_name


def _with_the_usual(
    ctx: click.Context, param: click.Parameter, betas: Sequence[float]
) -> tuple[float, ...]:
    for beta in betas:
        if not beta >= 0:
            raise click.BadParameter(f"{beta} is not between 0 and inf")
    return tuple(sorted({*BETAS, *betas}))


@click.command()
@click.argument("verdicts", type=click.File("rb"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, question by question.")
@click.option(
    "--compat",
    type=click.Choice(["none", "solib"]),
    default="none",
    help="Score as SOlib does: ASD is not centred, none of the answers that tie counts as "
    "accurate, and a greedy agent argues for each with weight 1.",
)
@click.option(
    "--beta",
    "betas",
    type=float,
    multiple=True,
    callback=_with_the_usual,
    help="An inverse greed to report beside 0, 1 and inf. Repeatable.",
)
def command(verdicts: BinaryIO, as_json: bool, compat: Compat, betas: tuple[float, ...]) -> None:
    """Score VERDICTS: a file of JSON Lines, or - for standard input.

    A line is a question: the value of each answer, and the verdict in each world. A world is named
    by the answer that the agent argues for in it. It is null where there is no verdict; such a
    question is left out of the means, and what that could hide is shown as bounds of the ASD.

    \b
      {"id": "q1", "values": {"A": 1, "B": -1},
       "worlds": {"A": {"A": 0.8, "B": 0.2}, "B": {"A": 0.4, "B": 0.6}}}

    Questions with the same "group" (a shared source text) are resampled together. std is over
    questions, of the population, as in SOlib. Log odds are for questions of two answers only.
    """
    scored = score(read_verdicts(verdicts, verdicts.name), betas, compat)
    if as_json:
        click.echo(json.dumps(_plain(scored, betas, compat), indent=2, allow_nan=False))
        return
    from oversight.engine.cli.score_table import print_tables  # rich is for tables alone

    print_tables(verdicts.name, scored, betas, compat)


def _plain(scored: Sequence[Scored], betas: Sequence[float], compat: Compat) -> dict[str, Any]:
    """Questions, means, std, intervals; and, only where a world has no verdict, `failures`."""
    over = {name: samples(scored, name, compat) for name in SCORES}
    found = estimated(over)
    intervals = {
        name: [e.interval and [*e.interval] for e in found.get(name, ())] for name in SCORES
    }
    methods = sorted({each.method for row in found.values() for each in row if each.method})
    plain: dict[str, Any] = {
        "questions": [_question(each, betas) for each in scored],
        "mean": {name: _shaped([s.mean for s in over[name]], betas) for name in SCORES},
        "std": {name: _shaped([s.std for s in over[name]], betas) for name in SCORES},
        "interval": {name: _shaped(intervals[name], betas) for name in SCORES},
        "method": methods[0] if methods else None,
    }
    if lost := failed(scored):
        plain["failures"] = {
            "n": len(lost),
            "ids": [verdicts.id for verdicts in lost],
            "asd": {name: _bounds(asd_bounds(scored, name, compat)) for name in SCORES},
        }
    return plain


def _bounds(found: Bounds | None) -> dict[str, Any] | None:
    if found is None:
        return None
    # A world that failed has no verdict to keep: to keep and to drop are the same here.
    return {"drop": found.drop, "worst": found.worst, "best": found.best}


def _question(scored: Scored, betas: Sequence[float]) -> dict[str, Any]:
    measured = {each.score: figures(each) for each in scored.measures}
    return {
        "id": scored.verdicts.id,
        **{name: _shaped(measured.get(name, ()), betas) for name in SCORES},
    }


def _shaped(figures: Sequence[Any], betas: Sequence[float]) -> dict[str, Any] | None:
    """`figures` under their names; None if there are none."""
    if not figures:
        return None
    names = [beta_name(beta) for beta in betas]
    asd, jse, eas = figures[0], figures[1 : 1 + len(names)], figures[1 + len(names) :]
    return {
        "asd": asd,
        "jse": dict(zip(names, jse, strict=True)),
        "eas": dict(zip(names, eas, strict=True)),
    }
