"""`oversight show`: both worlds of a problem, side by side."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click
import orjson
from rich.console import Console

from cache.call import Ask
from engine.cli.completing import cells
from engine.cli.naming import run_argument, run_named
from engine.cli.recorded import recorded
from engine.cli.screen import say, show
from engine.errors import SweepError
from engine.opening import Opened, open_run
from engine.reports.side_by_side import as_plain, side_by_side
from engine.runs.replaying import replay_cache
from engine.runs.runfolder import outcomes
from engine.runs.scheduler import Outcome, attempt
from engine.sweeps.rows import Row
from engine.sweeps.sweep import Cell
from protocols.question import Problem
from protocols.scores import SCORES
from protocols.transcript import Verdict

MOST_LOOKED_AT = 40
"""Rows that are looked through for the one in which most was said."""


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
    about, rows, drawn = _found(opened, run, wanted, (protocol, agent, judge))
    if draw is not None:
        drawn = draw
    if drawn >= opened.sweep.draws:
        raise SweepError(f"--draw {drawn}: {run} has {opened.sweep.draws}, counted from 0")
    with recorded(run, store) as replies:
        cache = replay_cache(replies, opened.models.identity)
        row, worlds = asyncio.run(_fullest(rows[:MOST_LOOKED_AT], about, drawn, cache))
    if as_json:
        show(orjson.dumps(as_plain(row, about, worlds, score), option=orjson.OPT_INDENT_2).decode())
        return
    Console(highlight=False).print(side_by_side(row, about, worlds, score))
    if others := [other for other in rows if other is not row]:
        names = dict.fromkeys(other.kind for other in others)
        say(f"{len(others)} more rows fit: {', '.join(list(names)[:8])}{', …' * (len(names) > 8)}")
        say("choose with parts of their names: --protocol, --agent, --judge")


async def _fullest(
    rows: Sequence[Row], about: Problem, draw: int, ask: Ask
) -> tuple[Row, list[Outcome]]:
    """The row in which most was said, and its worlds; of equals, and of failures, the first."""
    best: tuple[int, Row, list[Outcome]] | None = None
    for row in rows:
        worlds = [
            await attempt(Cell(0, row, about, side, draw, ""), ask)
            for side in range(len(about.values))
        ]
        turns = max(
            len(world.transcript.turns) if isinstance(world, Verdict) else 0 for world in worlds
        )
        if best is None or turns > best[0]:
            best = (turns, row, worlds)
    if best is None:
        raise SweepError("there is no row to show")
    return best[1], best[2]


def _found(
    opened: Opened, run: Path, wanted: str, parts: tuple[str, str, str]
) -> tuple[Problem, list[Row], int]:
    """The problem, the rows of the report, and the draw that the user means."""
    problems = {problem.id: problem for problem in opened.sweep.problems}
    if wanted in problems:
        rows = [row for row in opened.sweep.rows if fits(row, parts)]
        if not rows:
            names = "\n  ".join(f"{r.kind} · {r.agent} · {r.judge}" for r in opened.sweep.rows[:20])
            raise SweepError(f"no row of {run} fits; there are:\n  {names}")
        return problems[wanted], rows, 0
    for record in outcomes(run):
        if record.cell == wanted:
            recorded_as = (record.protocol, record.agent, record.judge)
            rows = [r for r in opened.sweep.rows if (r.kind, r.agent, r.judge) == recorded_as]
            return problems[record.problem], rows, record.draw
    raise SweepError(
        f"{wanted!r} is neither a problem nor a cell of {run}; "
        f"problems: {', '.join(list(problems)[:8])}{', …' if len(problems) > 8 else ''}"
    )


def fits(row: Row, parts: tuple[str, str, str]) -> bool:
    """Whether the names of protocol, agent and judge hold these parts."""
    names = (row.kind, row.agent, row.judge)
    return all(part.lower() in name.lower() for part, name in zip(parts, names, strict=True))
