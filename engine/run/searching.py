"""Where in a run words were said, by the names of rows, problems and worlds."""

from dataclasses import dataclass

from ...protocols.transcript import Verdict
from .listing import Parts
from .lookup import rows_that_fit
from .reader import RunReader
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
