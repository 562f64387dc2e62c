"""Where in a run words were said, by the names of rows, problems and worlds."""

from dataclasses import dataclass

from .lookup import Parts, rows_that_fit
from .reader import RunReader, damage_named
from .record.schema import RECORD
from .record.search import Hit, Query, Source, search


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
    """Index of the turn, from 0; None for what a judge wrote."""
    speaker: str
    """Empty for a judge."""
    snippet: str


def found_in(
    run: RunReader, query: Query, parts: Parts, problem: str | None = None, limit: int | None = 20
) -> tuple[int, list[FoundHit]]:
    """(number of all hits, the first ones), in the order of row, problem, draw, world and turn.

    RunFolderError for a run without a record; UsageError if no row fits.
    """
    file, rows = run.folder / RECORD, rows_that_fit(run, parts)
    with damage_named(file):
        hits = search(run.record, file, query, rows)
        if problem is not None:
            hits = [
                hit for hit in hits if run.problems[run.sweep.problem_at(hit.place)].id == problem
            ]
        return len(hits), [_found(run, query, hit) for hit in hits[:limit]]


def _found(run: RunReader, query: Query, hit: Hit) -> FoundHit:
    place, side = run.where(hit.place)
    row, problem = run.sweep.rows[place.row], run.problems[place.problem]
    ((id, speaker),) = run.record.query(
        "SELECT hex(id), (SELECT value FROM turns JOIN names ON name = speaker"
        " WHERE turns.conversation = cells.conversation AND n = ?) FROM cells WHERE place = ?",
        -1 if hit.turn is None else hit.turn,
        hit.place,
    )
    return FoundHit(
        *row.shown_names,
        problem.id,
        problem.question.answers[side].label,
        place.draw,
        id.lower(),
        hit.cells,
        hit.source,
        hit.turn,
        speaker or "",
        query.snippet(run.record.text(hit.text)),
    )
