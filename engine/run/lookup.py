"""Finding rows and problems in a run, and words in all of its texts."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import orjson

from ...protocols.transcript import Verdict
from ..errors import UsageError
from .listing import Parts
from .reader import Place, RunReader
from .record.cells import StoredCell, numbers_of
from .record.schema import CHILDREN
from .record.tables import RunTables, damage_named
from .record.values import LeftOut, RecordedCell

if TYPE_CHECKING:
    from ..sweep.sweep import Cell, Sweep

AROUND = 60
"""Characters of a text that are shown on each side of a hit."""

REMEMBERED = 4096
"""Texts that are remembered to have all words, or not: cells share their conversations."""

Source: TypeAlias = str
"""The kind of text with a hit: `turn`, `reasoning` of a turn, or `judgement`."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A text that has all words searched for, where it was said first."""

    place: int
    """Place of the first cell that it was said in; cells are ordered by row, then by place."""
    cells: int
    """Cells that it counts in: worlds and rows share conversations."""
    source: Source
    turn: int | None
    """Number of the turn, from 0; None for a judgement."""
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """Words and "quoted phrases" that must all occur; an asterisk ends the beginning of a word."""

    parts: tuple[str, ...]

    @classmethod
    def read(cls, words: str) -> "Query":
        """UsageError for a query without a word."""
        matches = [quoted or word for quoted, word in re.findall(r'"([^"]*)"|([^\s"]+)', words)]
        parts = tuple(part for part in matches if re.search(r"\w", part))
        if not parts:
            raise UsageError(f"{words!r} holds no word to search for")
        return cls(parts)

    def snippet(self, text: str) -> str:
        """The text around the first of the words."""
        words = "|".join(re.escape(part.rstrip("*")) for part in self.parts)
        match = re.search(rf"(?<!\w)(?:{words})", text, re.IGNORECASE)
        at, end = match.span() if match else (0, 0)
        first, last = max(0, at - AROUND), min(len(text), end + AROUND)
        snippet = " ".join(text[first:last].split())
        return f"{'…' if first else ''}{snippet}{'…' if last < len(text) else ''}"


_CellTexts: TypeAlias = tuple[
    int, int, int, Sequence[tuple[int | None, int | None, str | None, str]]
]
"""Row, problem and place of a cell, and its texts as `_texts` yields them."""


@dataclass(slots=True)
class KeptTexts:
    """All texts of a run in memory, so that a later query reads no database."""

    calls: list[tuple[int, str, str]]
    """Number, text and reasoning of each call."""
    cells: list[_CellTexts]
    folded: dict[str, str] = field(default_factory=dict)
    """Each text that was searched, as it is compared."""

    @classmethod
    def read(cls, tables: RunTables, most: int) -> "KeptTexts | None":
        """None if the texts, with their folded copies, have more than `most` characters."""
        calls, cells, size = [], [], 0
        for call in _calls(tables):
            calls.append(call)
            size += 2 * (len(call[1]) + len(call[2]))
            if size > most:
                return None
        for cell in _cells(tables):
            cells.append(cell)
            size += sum(2 * (len(text or "") + len(extra)) for _, _, text, extra in cell[3])
            if size > most:
                return None
        return cls(calls, cells)


def _calls(tables: RunTables) -> Iterator[tuple[int, str, str]]:
    for number, _, _, _, _, text, reasoning, *_ in tables.every_call():
        yield number, text, reasoning or ""


def _cells(tables: RunTables) -> Iterator[_CellTexts]:
    with damage_named(tables.file):
        for stored in tables.ended(None, *CHILDREN[1:]):
            cell = stored.cell
            yield cell.row, cell.problem, cell.place, list(_texts(stored))


def search(
    tables: RunTables, query: Query, rows: Collection[int], memory: KeptTexts | None = None
) -> list[Hit]:
    """Every hit in these rows, in the order of row, problem, draw, world and turn. RunFolderError
    for a run that cannot be searched. memory: its texts, if they are in memory."""
    patterns = [pattern for part in query.parts if (pattern := _pattern(part))]
    if not patterns:
        return []
    words_in = [word for part in query.parts for word in _words(part)]

    @lru_cache(REMEMBERED)
    def fitting(text: str) -> str:
        """A text that has all words; empty for any other."""
        folded = memory.folded.get(text) if memory else None
        if folded is None:
            folded = _folded(text)
            if memory:
                memory.folded[text] = folded
        # Most texts lack a word, and a plain look is much faster than a pattern.
        fits = all(word in folded for word in words_in)
        return text if fits and all(pattern.search(folded) for pattern in patterns) else ""

    replies: dict[int | None, tuple[str, str]] = {}
    """By number, a call's text and its reasoning, each as far as it fits."""
    for call, *words in memory.calls if memory else _calls(tables):
        if any(fits := (fitting(words[0]), fitting(words[1]))):
            replies[call] = fits
    spans_by_place: dict[tuple[int, Source, int | None, int, str], list[tuple[int, int]]] = {}
    for row, problem, place, spoken in memory.cells if memory else _cells(tables):
        if row not in rows:
            continue
        for turn, number, words_here, extra in spoken:
            text, reasoning = replies.get(number, ("", ""))
            source: Source = "judgement" if turn is None else "turn"
            for kind, fit in (
                (source, text if words_here is None else fitting(words_here)),
                ("reasoning", extra and fitting(extra)),
                ("reasoning", reasoning),
            ):
                if fit:
                    key = -1 - place if number is None else number
                    cells = spans_by_place.setdefault((problem, kind, turn, key, fit), [])
                    if not cells or cells[-1] != (row, place):
                        cells.append((row, place))
    hits = [
        (min(cells), Hit(min(cells)[1], len(cells), kind, turn, text))
        for (_, kind, turn, _, text), cells in spans_by_place.items()
    ]
    hits.sort(key=lambda hit: (hit[0], hit[1].turn is None, hit[1].turn or 0))
    return [hit for _, hit in hits]


def _texts(stored: StoredCell) -> Iterator[tuple[int | None, int | None, str | None, str]]:
    """All that others read in a cell: (number of the turn, or None for a judgement; number of the
    call; text, or None where it is the call's; reasoning that stands with the turn)."""
    for _, turn, _, _, number, text, more in stored.turns:
        yield turn, number, text, orjson.loads(more).get("reasoning", "") if more else ""
    for judgement in stored.judgements:
        yield None, next(iter(numbers_of(judgement)), None), judgement[10], ""


def _pattern(part: str) -> re.Pattern[str] | None:
    """The words of a part of a query side by side, in a folded text; None without a word."""
    if not (words := _words(part)):
        return None
    last = "" if part.endswith("*") else r"(?![^\W_])"
    return re.compile(r"(?<![^\W_])" + r"[\W_]+".join(words) + last)


def _words(part: str) -> list[str]:
    return re.findall(r"[^\W_]+", _folded(part))


_ACCENTS = re.compile("[\u0300-\u036f]")


def _folded(text: str) -> str:
    """In small letters without accents."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
    return text.lower()


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
        if record.probs is not None and record.problem in first
    }
    return [cell for cell in sweep.cells() if cell.place in decided and parts.fit(cell.row)]


def locate(run: RunReader, name: str, parts: Parts, draw: int | None = None) -> list[Place]:
    """Return the places that a user names, at least one, in the order of the rows. name: id of a
    problem, or of a cell as outcomes.jsonl has it; empty for the first problem. draw: None for the
    cell's, or the first. UsageError, with the candidates, if nothing matches."""
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
    run: RunReader, query: Query, parts: Parts, problem: str | None = None, limit: int | None = 20
) -> tuple[int, list[FoundHit]]:
    """(number of all hits, the first ones), in the order of row, problem, draw, world and turn.
    RunFolderError; UsageError if no row fits."""
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
        *(*row.shown_names, problem.id, problem.question.answers[side].label, place.draw),
        *(cell.id, hit.cells, hit.source, hit.turn, speaker, query.snippet(hit.text)),
    )
