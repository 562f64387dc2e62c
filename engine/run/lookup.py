"""Finding rows and problems in a run, and what was said in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocols.transcript import Verdict
from ..errors import UsageError
from .listing import Parts
from .reader import Place, RunReader
from .record.search import Hit, Query, Source, search
from .record.values import LeftOut, RecordedCell

if TYPE_CHECKING:
    from ..sweep.sweep import Cell, Sweep

MAX_LISTED = 20
"""Most rows listed in an error."""


def rows_that_fit(run: RunReader, parts: Parts) -> list[int]:
    """Return the numbers of the selected rows. UsageError, listing all rows, if none fits."""
    rows = run.sweep.rows
    numbers = [n for n, row in enumerate(rows) if parts.fit(row)]
    if not numbers:
        names = "\n  ".join(" · ".join(row.shown_names) for row in rows[:MAX_LISTED])
        raise UsageError(f"no row of {run.folder} fits: choose from\n  {names}")
    return numbers


def cells_with_verdict(
    sweep: "Sweep", run: Path, parts: Parts, problems: int | None = None
) -> "list[Cell]":
    """Return the cells of the selected rows that have a verdict. UsageError if no row fits.

    problems: number of problems, from the first; None for all."""
    with RunReader(run) as reader:
        if [row.address for row in reader.sweep.rows] != [row.address for row in sweep.rows]:
            raise UsageError(f"the sweep file has other rows than {run}")
    if not any(parts.fit(row) for row in sweep.rows):
        raise UsageError(f"no row of {run} fits; list them: oversight report {run}")
    first = {problem.id for problem in sweep.problems[:problems]}
    decided = {
        record.place
        for record in RunReader(run).outcomes()
        if record.failure is None and record.problem in first
    }
    return [cell for cell in sweep.cells() if cell.place in decided and parts.fit(cell.row)]


def locate(run: RunReader, name: str, parts: Parts, draw: int | None = None) -> list[Place]:
    """Return the places that a user names, at least one, in the order of the rows.

    name: id of a problem, or of a cell as outcomes.jsonl has it; empty for the first problem.
    draw: None for the cell's, or the first. UsageError, with the candidates, if nothing matches.
    """
    numbers = {problem.id: n for n, problem in enumerate(run.problems)}
    if not name or name in numbers:
        about, drawn, rows = numbers.get(name, 0), 0, rows_that_fit(run, parts)
    else:
        record = next((outcome for outcome in run.outcomes() if outcome.cell == name), None)
        if record is None:
            some = f"{', '.join(list(numbers)[:8])}{', …' if len(numbers) > 8 else ''}"
            raise UsageError(
                f"{name!r} is neither a problem nor a cell of {run.folder}; problems: {some}"
            )
        place, _ = run.where(record.place)
        about, drawn, rows = place.problem, place.draw, [place.row]
    drawn = drawn if draw is None else draw
    if not 0 <= drawn < run.sweep.draws:
        raise UsageError(f"--draw {drawn}: {run.folder} has {run.sweep.draws}, counted from 0")
    return [Place(row, about, drawn) for row in rows]


def fullest(run: RunReader, places: Sequence[Place]) -> Place:
    """The one with the most turns in any of its worlds; the first of several."""
    if len(places) == 1:
        return places[0]
    # A world that failed has no turns: its calls but the judge's count as such.
    cells = (stored.cell for place in places for stored in run.tables.ended(run.worlds(place)))
    turns = {cell.place: cell.turn_count or cell.call_count - 1 for cell in cells}
    return max(places, key=lambda place: max(turns.get(at, 0) for at in run.worlds(place)))


def worlds_of(run: RunReader, place: Place) -> list[RecordedCell]:
    """All worlds of a reading. RunFolderError."""
    cells, about = run.cells(run.worlds(place)), (place.row, place.problem)
    return [
        cells.get(at) or RecordedCell(at, "", *about, side, place.draw, NOT_YET)
        for side, at in enumerate(run.worlds(place))
    ]


NOT_YET = LeftOut("it has not been run yet")


@dataclass(frozen=True, slots=True)
class FoundHit:
    """A text that has all words searched for."""

    protocol: str
    agent: str
    judge: str
    problem: str
    world: str
    """Label of the answer that was argued for."""
    draw: int
    cell: str
    """The cell's id, as in outcomes.jsonl."""
    cells: int
    """Cells that it counts in: worlds and rows share conversations."""
    source: Source
    turn: int | None
    """Index of the turn, from 0; None for a text of a judge."""
    speaker: str
    """Empty for a judge."""
    snippet: str


def found_in(
    run: RunReader,
    query: Query,
    parts: Parts,
    problem: str | None = None,
    limit: int | None = 20,
) -> tuple[int, list[FoundHit]]:
    """(number of all hits, the first ones), in the order of row, problem, draw, world and turn.

    RunFolderError; UsageError if no row fits.
    """
    hits = search(run.tables, query, rows_that_fit(run, parts))
    if problem is not None:
        hits = [hit for hit in hits if run.problems[run.sweep.problem_at(hit.place)].id == problem]
    return len(hits), [_found(run, query, hit) for hit in hits[:limit]]


def _found(run: RunReader, query: Query, hit: Hit) -> FoundHit:
    place, side = run.where(hit.place)
    row, problem = run.sweep.rows[place.row], run.problems[place.problem]
    cell = run.cells([hit.place])[hit.place]
    speaker = ""
    if hit.turn is not None and isinstance(cell.outcome, Verdict):
        speaker = cell.outcome.transcript.turns[hit.turn].speaker
    return FoundHit(
        *row.shown_names,
        problem.id,
        problem.question.answers[side].label,
        place.draw,
        cell.id,
        hit.cells,
        hit.source,
        hit.turn,
        speaker,
        query.snippet(hit.text),
    )
