"""`oversight show`: the worlds of a problem, side by side."""

import asyncio
from pathlib import Path

import click
import orjson
from rich.console import Console

from oversight.engine.cli.completing import cells
from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.output import say, show
from oversight.engine.reports.side_by_side import as_plain, side_by_side
from oversight.engine.runs.loaded_sweep import open_run
from oversight.engine.runs.lookup import Parts, found, fullest
from oversight.engine.runs.recorded import recorded
from oversight.engine.runs.replay import replay_cache
from oversight.protocols.scores import SCORES


@click.command()
@run_argument
@click.argument("cell", required=False, shell_complete=cells)
@click.option("--problem", help="Id of a problem; the same as the second argument.")
@click.option("--protocol", default="", help="Part of the protocol's name, as in the report.")
@click.option("--agent", default="", help="Part of the agent's name.")
@click.option("--judge", default="", help="Part of the judge's name.")
@click.option("--draw", type=click.IntRange(0), help="Which one, where a sweep has several.")
@click.option("--store", type=click.Path(path_type=Path), help="Folder of the store, or a bundle.")
@click.option("--score", type=click.Choice(list(SCORES)), default="brier", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="For programs, with the address of calls.")
def command(
    named: str,
    cell: str | None,
    problem: str | None,
    protocol: str,
    agent: str,
    judge: str,
    draw: int | None,
    store: Path | None,
    score: str,
    as_json: bool,
) -> None:
    """Print what was said in RUN about one problem, one column a world, and the verdicts.

    CELL is the id of a problem, or of a cell as outcomes.jsonl has it. Replies come from the
    store; nothing is sent.
    """
    run = run_named(named)
    opened = open_run(run)
    wanted = cell or problem or opened.sweep.problems[0].id
    about, rows, drawn = found(opened.sweep, run, wanted, Parts(protocol, agent, judge), draw)
    with recorded(run, store) as replies:
        cache = replay_cache(replies, opened.models.identity_in(replies))
        row, worlds = asyncio.run(fullest(rows, about, drawn, cache))
    if as_json:
        show(orjson.dumps(as_plain(row, about, worlds, score), option=orjson.OPT_INDENT_2).decode())
        return
    console = Console(highlight=False)
    console.print(side_by_side(row, about, worlds, score, console.width))
    if others := [other for other in rows if other is not row]:
        names = dict.fromkeys(other.kind for other in others)
        say(f"{len(others)} more rows fit: {', '.join(list(names)[:8])}{', …' * (len(names) > 8)}")
        say("choose with parts of their names: --protocol, --agent, --judge")
