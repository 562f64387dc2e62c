"""`oversight show`: the worlds of a problem, side by side."""

import asyncio
from pathlib import Path

import click
from rich.console import Console

from ...display.quantity import counted
from ...reports.side_by_side import as_plain, side_by_side
from ...runs.loaded_sweep import open_run
from ...runs.lookup import Parts, fullest, locate
from ...runs.recorded import recorded
from ...runs.replay import replay_cache
from ..completing import cells
from ..naming import run_argument
from ..options import json_option, recorded_option, row_options, score_option
from ..output import say, show_json


@click.command()
@run_argument
@click.argument("cell", required=False, shell_complete=cells)
@click.option("--problem", help="Id of a problem; same as the second argument.")
@row_options
@click.option(
    "--draw",
    type=click.IntRange(0),
    help="Number of the repetition, from 0, in a sweep with several draws.",
)
@recorded_option
@score_option
@json_option
def command(
    run: Path,
    cell: str | None,
    problem: str | None,
    parts: Parts,
    draw: int | None,
    store: str | None,
    score: str,
    as_json: bool,
) -> None:
    """Print what was said in RUN about one problem, one column per world, and the verdicts.

    CELL is the id of a problem, or of a cell as outcomes.jsonl has it. Replies come from the
    store; nothing is sent.
    """
    opened = open_run(run)
    wanted = cell or problem or opened.sweep.problems[0].id
    about, rows, drawn = locate(opened.sweep, run, wanted, parts, draw)
    with recorded(run, store) as replies:
        cache = replay_cache(replies, opened.models.identity_in(replies))
        row, worlds = asyncio.run(fullest(rows, about, drawn, cache))
    if as_json:
        show_json(as_plain(row, about, worlds, score))
        return
    console = Console(highlight=False)
    console.print(side_by_side(row, about, worlds, score, console.width))
    if others := [other for other in rows if other is not row]:
        names = dict.fromkeys(other.kind for other in others)
        fit = "fits" if len(others) == 1 else "fit"
        shown = f"{', '.join(list(names)[:8])}{', …' * (len(names) > 8)}"
        say(f"{counted(len(others), 'more row')} {fit}: {shown}")
        say("choose with parts of their names: --protocol, --agent, --judge")
