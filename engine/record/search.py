"""Words in what was said: a search by the index of a record, and through what is not in it yet."""

import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ..errors import UsageError
from .schema import connected, faulty, read_only
from .tables import RecordTables
from .varints import unpack_ids
from .words import INDEXED

AROUND = 60
"""Characters of a text that are shown on each side of a hit."""

ROW_BIT = 40
"""Rows stand above places in the key that hits are ordered by."""

Source = str
"""What a hit was found in: `turn`, `reasoning` of a turn, or `judgement`."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A text that has all words searched for, where it was said first."""

    place: int
    """Of the first cell that it was said in, by row, then by place in the sweep."""
    cells: int
    """Cells that it counts in: worlds and rows share conversations."""
    source: Source
    turn: int | None
    """Number of the turn, from 0; None for a judgement."""
    text: int
    """Number of the text in the record."""


@dataclass(frozen=True, slots=True)
class Query:
    """Words and "quoted phrases" that must all occur; an asterisk ends the beginning of a word."""

    parts: tuple[str, ...]

    @classmethod
    def read(cls, words: str) -> "Query":
        """UsageError if there is no word in it."""
        found = [quoted or word for quoted, word in re.findall(r'"([^"]*)"|([^\s"]+)', words)]
        parts = tuple(part for part in found if re.search(r"\w", part))
        if not parts:
            raise UsageError(f"{words!r} holds no word to search for")
        return cls(parts)

    @property
    def match(self) -> str:
        """In the syntax of FTS5, in which every part stands in quotes: nothing in it is special."""
        return " AND ".join(
            f'"{part.rstrip("*")}"{"*" if part.endswith("*") else ""}' for part in self.parts
        )

    def snippet(self, text: str) -> str:
        """The text around the first of the words."""
        words = "|".join(re.escape(part.rstrip("*")) for part in self.parts)
        found = re.search(rf"(?<!\w)(?:{words})", text, re.IGNORECASE)
        at, end = found.span() if found else (0, 0)
        first, last = max(0, at - AROUND), min(len(text), end + AROUND)
        shown = " ".join(text[first:last].split())
        return f"{'…' if first else ''}{shown}{'…' if last < len(text) else ''}"


def search(record: RecordTables, file: Path, query: Query, rows: Collection[int]) -> list[Hit]:
    """Every hit in these rows, in the order of row, problem, draw, world and turn.

    file: of the record, which was opened and checked. RunFolderError for a record that cannot be
    searched.
    """
    with closing(connected(":memory:", file)) as db:
        try:
            db.execute("ATTACH ? AS record", (read_only(file),))
            db.execute("CREATE TEMP TABLE wanted(row INTEGER PRIMARY KEY)")
            db.executemany("INSERT INTO wanted VALUES(?)", ((row,) for row in rows))
            _found(record, db, query)
            found = [
                (key, count, source, turn, text)
                for source in ("turn", "reasoning")
                for key, count, turn, text in db.execute(_SAID[source])
            ]
            found += _judged(db)
        except sqlite3.Error as exc:
            raise faulty(file, exc) from exc
    found.sort(key=lambda hit: (hit[0], hit[3] is None, hit[3] or 0))
    mask = (1 << ROW_BIT) - 1
    return [Hit(key & mask, count, source, turn, text) for key, count, source, turn, text in found]


_KEY = f"min(cells.row << {ROW_BIT} | cells.place), count(*)"
# What was said is gone through once, and looked up among the texts found: the other way round each
# text would be searched for in all that was said, where the record has no index for it.
_SAID = {
    source: f"SELECT {_KEY}, turns.n, found.text FROM record.turns CROSS JOIN found"
    f" ON found.text = turns.{column} JOIN record.cells USING(conversation)"
    " JOIN wanted USING(row) GROUP BY turns.conversation, turns.n"
    for source, column in (("turn", "text"), ("reasoning", "reasoning"))
}


def _judged(db: sqlite3.Connection) -> Iterator[tuple[int, int, Source, int | None, int]]:
    texts: dict[int, int] = dict(
        db.execute(
            "SELECT judgement, found.text FROM record.judgements CROSS JOIN found USING(text)"
        )
    )
    if not texts:
        return
    cells: dict[int, list[int]] = {}
    for row, place, judgements in db.execute(
        "SELECT row, place, judgements FROM record.cells JOIN wanted USING(row)"
        " WHERE judgements IS NOT NULL"
    ):
        for each in unpack_ids(judgements):
            if each in texts:
                cells.setdefault(each, []).append(row << ROW_BIT | place)
    yield from ((min(at), len(at), "judgement", None, texts[each]) for each, at in cells.items())


def _found(record: RecordTables, db: sqlite3.Connection, query: Query) -> None:
    """Put the numbers of the texts that have all words into the table `found`."""
    db.execute("CREATE TEMP TABLE found(text INTEGER PRIMARY KEY)")
    db.execute("CREATE VIRTUAL TABLE temp.tail USING fts5(body, content='')")
    indexed = int(record.meta.get(INDEXED, 0))
    # What was recorded since, or all of a run that has not settled, is indexed for this search.
    unsure = record.query(_NEW, indexed)
    words, phrases = _words(db, query)
    if indexed and words:
        match = " AND ".join(words)
        if phrases:
            named = "SELECT text, body FROM texts WHERE text IN (SELECT rowid FROM words(?))"
            unsure = chain(unsure, record.query(named, match))
        else:
            db.execute("INSERT INTO found SELECT rowid FROM record.words(?)", (match,))
    db.executemany(
        "INSERT INTO tail(rowid, body) VALUES(?, ?)",
        ((number, record.unpacked(body)) for number, body in unsure),
    )
    db.execute("INSERT OR IGNORE INTO found SELECT rowid FROM tail(?)", (query.match,))


def _words(db: sqlite3.Connection, query: Query) -> tuple[list[str], bool]:
    """The words of a query as the index divides them, each as its own query, and whether some of
    them must stand side by side."""
    db.execute("CREATE VIRTUAL TABLE temp.asked USING fts5(body)")
    db.executemany("INSERT INTO asked(rowid, body) VALUES(?, ?)", enumerate(query.parts))
    db.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(temp, asked, instance)")
    terms = db.execute("SELECT doc, offset, term FROM terms ORDER BY doc, offset").fetchall()
    last = {part: offset for part, offset, _ in terms}
    return [
        f'"{term}"{"*" * (query.parts[part].endswith("*") and offset == last[part])}'
        for part, offset, term in terms
    ], any(last.values())


_NEW = (
    "SELECT text, body FROM texts WHERE text > ? AND text IN (SELECT text FROM turns UNION"
    " SELECT reasoning FROM turns UNION SELECT text FROM judgements)"
)
