"""Where in a run words were said, by the names of rows, problems and worlds."""

import os
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import dataclass

from ...protocols.transcript import Verdict
from ..errors import RunFolderError
from .as_left import kept_as_left
from .listing import Parts
from .lock import locked
from .lookup import rows_that_fit
from .reader import RunReader
from .record.database import RunDatabase
from .record.search import Hit, Query, Source, is_indexed, search

LARGE = 20_000
"""Replies; a run that has fewer is searched as soon without an index."""


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


def hits_in(
    run: RunReader,
    query: Query,
    rows: Collection[int],
    say: Callable[[str], object] = lambda line: None,
) -> list[Hit]:
    """Every hit in these rows. The first search in a large run indexes it, and says so before;
    where it is being run, or nothing can be written, searches do without. RunFolderError."""
    ((replies,),) = run.tables.fetched("SELECT count(*) FROM calls")
    if replies >= LARGE and not is_indexed(run.tables) and os.access(run.folder, os.W_OK):
        with suppress(RunFolderError, OSError), locked(run.folder), kept_as_left(run.folder):
            say(f"indexing {replies:,} replies, for this search and later ones")
            with closing(RunDatabase(run.folder)) as database:
                database.index()
    return search(run.tables, query, rows)


def found_in(
    run: RunReader,
    query: Query,
    parts: Parts,
    problem: str | None = None,
    limit: int | None = 20,
    say: Callable[[str], object] = lambda line: None,
) -> tuple[int, list[FoundHit]]:
    """(number of all hits, the first ones), in the order of row, problem, draw, world and turn.
    say: as for `hits_in`.

    RunFolderError; UsageError if no row fits.
    """
    hits = hits_in(run, query, rows_that_fit(run, parts), say)
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
