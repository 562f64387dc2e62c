"""`oversight show`: the worlds of a problem, side by side."""

from pathlib import Path

import click
from rich.console import Console

from ...display.quantity import counted
from ...reports.side_by_side import as_plain, side_by_side
from ...runs.lookup import Parts, fullest, locate, worlds_of
from ...runs.reader import RunReader
from ..completing import cells
from ..naming import run_argument
from ..options import json_option, no_store_option, row_options, score_option
from ..output import say, show_json


@click.command()
@run_argument
@click.argument("cell", required=False, shell_complete=cells)
@click.option("--problem", help="Id of a problem.")
@row_options
@click.option(
    "--draw",
    type=click.IntRange(0),
    help="Number of the repetition, from 0, in a sweep with several draws.",
)
@no_store_option
@score_option
@json_option
def command(
    run: Path,
    cell: str | None,
    problem: str | None,
    parts: Parts,
    draw: int | None,
    score: str,
    as_json: bool,
) -> None:
    """Print what was said in RUN about one problem, one column per world, and the verdicts.

    CELL is the id of a problem, or of a cell as outcomes.jsonl has it. All is read from the record
    in RUN: no code is run, no store is opened, nothing is sent.
    """
    read = RunReader(run)
    places = locate(read, cell or problem or "", parts, draw)
    place = fullest(read, places)
    row, about = read.sweep.rows[place.row], read.problems[place.problem]
    worlds = worlds_of(read, place)
    if as_json:
        show_json(as_plain(row, about, worlds, score))
        return
    console = Console(highlight=False)
    console.print(side_by_side(row, about, worlds, score, console.width))
    if others := [read.sweep.rows[each.row] for each in places if each is not place]:
        names = dict.fromkeys(other.shown for other in others)
        fit = "fits" if len(others) == 1 else "fit"
        shown = f"{', '.join(list(names)[:8])}{', …' * (len(names) > 8)}"
        say(f"{counted(len(others), 'more row')} {fit}: {shown}")
        say("choose with parts of their names: --protocol, --agent, --judge")
