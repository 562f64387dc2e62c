"""Finding rows and problems in a run, and what was said in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ...protocols.prompts.forms import REASONING, last_object
from ...protocols.question import Problem
from ...protocols.transcript import Verdict
from ..errors import UsageError
from ..sweeps.grid import GridRow
from ..sweeps.rows import Row
from ..sweeps.sweep import Cell, Sweep
from .run_folder import outcomes
from .scheduler import CellOutcome, attempt

MAX_ROWS_COMPARED = 40
"""Maximum number of rows compared to find the one with the most turns."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Selects rows of the report by parts of their names; an empty part selects all."""

    protocol: str = ""
    agent: str = ""
    judge: str = ""

    def fit(self, row: GridRow) -> bool:
        pairs = ((self.protocol, row.kind), (self.agent, row.agent), (self.judge, row.judge))
        return all(part.lower() in name.lower() for part, name in pairs)


def cells_with_verdict(
    sweep: Sweep, run: Path, parts: Parts, problems: int | None = None
) -> list[Cell]:
    """The cells of the selected rows that have a verdict. problems: the first so many, None for
    all. UsageError if no row is selected."""
    if not any(parts.fit(row) for row in sweep.rows):
        raise UsageError(f"no row of {run} fits; list them: oversight report {run}")
    first = {problem.id for problem in sweep.problems[:problems]}
    done = {
        record.place
        for record in outcomes(run)
        if record.failure is None and record.problem in first
    }
    return [cell for cell in sweep.cells() if cell.place in done and parts.fit(cell.row)]


def locate(
    sweep: Sweep, run: Path, wanted: str, parts: Parts, draw: int | None = None
) -> tuple[Problem, list[Row], int]:
    """The problem, the rows of the report and the draw that a user names.

    wanted: id of a problem, or of a cell as outcomes.jsonl has it. draw: None for the cell's, or
    the first. UsageError, with the candidates, if nothing matches.
    """
    problems = {problem.id: problem for problem in sweep.problems}
    if wanted in problems:
        about, drawn = problems[wanted], 0
        rows = [row for row in sweep.rows if parts.fit(row)]
        if not rows:
            names = "\n  ".join(f"{r.kind} · {r.agent} · {r.judge}" for r in sweep.rows[:20])
            raise UsageError(f"no row of {run} fits; there are:\n  {names}")
    else:
        record = next((each for each in outcomes(run) if each.cell == wanted), None)
        if record is None:
            some = f"{', '.join(list(problems)[:8])}{', …' if len(problems) > 8 else ''}"
            raise UsageError(
                f"{wanted!r} is neither a problem nor a cell of {run}; problems: {some}"
            )
        about, drawn = problems[record.problem], record.draw
        recorded_as = (record.protocol, record.agent, record.judge)
        rows = [row for row in sweep.rows if (row.kind, row.agent, row.judge) == recorded_as]
    drawn = drawn if draw is None else draw
    if not 0 <= drawn < sweep.draws:
        raise UsageError(f"--draw {drawn}: {run} has {sweep.draws}, counted from 0")
    return about, rows, drawn


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning of a seat before a form that no other seat reads: a choice, a rating."""

    form: str
    reasoning: str
    filled: str
    """The form, as JSON."""
    call: str


@dataclass(frozen=True, slots=True)
class ShownWorld:
    """The outcome of a world, and the private reasoning on the way."""

    outcome: CellOutcome
    thoughts: tuple[Thought, ...]
    """In the order of the replies. Those behind turns and judgements stand there."""


async def fullest(
    rows: Sequence[Row], about: Problem, draw: int, ask: Ask
) -> tuple[Row, list[ShownWorld]]:
    """The row with the most turns, and its worlds; the first of several."""
    best: tuple[int, Row, list[ShownWorld]] | None = None
    for row in rows[:MAX_ROWS_COMPARED]:
        sides = range(len(about.values))
        worlds = [await _world(Cell(0, row, about, side, draw, ""), ask) for side in sides]
        ends = [world.outcome for world in worlds]
        turns = max(len(end.transcript.turns) if isinstance(end, Verdict) else 0 for end in ends)
        if best is None or turns > best[0]:
            best = (turns, row, worlds)
    if best is None:
        raise UsageError("there is no row to show")
    return best[1], best[2]


async def _world(cell: Cell, ask: Ask) -> ShownWorld:
    thoughts: dict[str, Thought] = {}

    async def asked(call: Call) -> Reply:
        reply = await ask(call)
        if call.response_format and (form := last_object(reply.text)) and form.get(REASONING):
            reasoning = str(form.pop(REASONING))
            name, filled = call.response_format.name, orjson.dumps(form).decode()
            thoughts[reply.call] = Thought(name, reasoning, filled, reply.call)
        return reply

    outcome = await attempt(cell, asked)
    if isinstance(outcome, Verdict):
        calls = {turn.call for turn in outcome.transcript.turns}
        for heard in calls | {judgement.call for judgement in outcome.judgements}:
            thoughts.pop(heard, None)
    return ShownWorld(outcome, tuple(thoughts.values()))
