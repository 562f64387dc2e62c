"""Words in what was said: a full-text index beside the record, and the search that it serves.

The index is made at the first search and holds nothing that the record has not: it may be deleted.
What was recorded since is indexed at the next search. Where the folder cannot be written, the index
is made in memory.
"""

import hashlib
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from .schema import connected, faulty, read_only
from .tables import RecordTables
from .varints import unpack_ids

WORDS = "words.db"
"""The index of a run folder."""

VERSION = 1
APPLICATION_ID = 0x6F767777
"""`ovww`: tells an index from any other SQLite file."""

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


def search(
    record: RecordTables, file: Path, query: Query, rows: Collection[int], *, index: bool = True
) -> list[Hit]:
    """Every hit in these rows, in the order of row, problem, draw, world and turn.

    file: of the record, which was opened and checked. index: whether an index may be written
    beside it. RunFolderError for a record that cannot be searched.
    """
    with closing(_words(record, file, index)) as db:
        try:
            db.execute("ATTACH ? AS record", (read_only(file),))
            db.execute("CREATE TEMP TABLE wanted(row INTEGER PRIMARY KEY)")
            db.executemany("INSERT INTO wanted VALUES(?)", ((row,) for row in rows))
            db.execute("CREATE TEMP TABLE found(text INTEGER PRIMARY KEY)")
            db.execute(
                "INSERT INTO found SELECT rowid FROM words WHERE words MATCH ?", (query.match,)
            )
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


def _words(record: RecordTables, file: Path, write: bool) -> sqlite3.Connection:
    """The index of a record, brought up to its last text."""
    if write:
        beside = file.with_name(WORDS)
        with suppress(sqlite3.Error, OSError, ValueError):
            return _opened(record, beside)
        # What is torn, foreign or of another record is made anew, where that can be done.
        with suppress(sqlite3.Error, OSError, ValueError):
            beside.unlink(missing_ok=True)
            return _opened(record, beside)
    return _filled(_made(connected(":memory:", file)), record)


def _opened(record: RecordTables, file: Path) -> sqlite3.Connection:
    """ValueError for a file that is no index of this record."""
    if file.is_symlink():
        raise ValueError(f"{file} is a link")
    db = connected(f"{file.resolve().as_uri()}?mode=rwc", file)
    try:
        if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            _made(db)
        (kind,) = db.execute("PRAGMA application_id").fetchone()
        (version, indexed, sign) = db.execute("SELECT version, indexed, sign FROM about").fetchone()
        if (kind, version) != (APPLICATION_ID, VERSION) or sign != _sign(record, indexed):
            raise ValueError(f"{file} is no index of this record")
        return _filled(db, record)
    except BaseException:
        db.close()
        raise


def _made(db: sqlite3.Connection) -> sqlite3.Connection:
    db.executescript(
        "BEGIN; CREATE TABLE about(version, indexed, sign);"
        f"INSERT INTO about VALUES({VERSION}, 0, '');"
        "CREATE VIRTUAL TABLE words USING fts5(body, content='', detail=full); COMMIT;"
    )
    return db


def _filled(db: sqlite3.Connection, record: RecordTables) -> sqlite3.Connection:
    (indexed,) = db.execute("SELECT indexed FROM about").fetchone()
    ((last,),) = record.query("SELECT coalesce(max(text), 0) FROM texts")
    if last > indexed:
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT INTO words(rowid, body) VALUES(?, ?)",
            ((number, record.unpacked(body)) for number, body in record.query(_NEW, indexed)),
        )
        db.execute("UPDATE about SET indexed=?, sign=?", (last, _sign(record, last)))
        db.execute("COMMIT")
    return db


_NEW = (
    "SELECT text, body FROM texts WHERE text > ? AND text IN (SELECT text FROM turns UNION"
    " SELECT reasoning FROM turns UNION SELECT text FROM judgements) ORDER BY text"
)


def _sign(record: RecordTables, indexed: int) -> str:
    """Digest of some of the texts that are indexed: another record has others there."""
    if not indexed:
        return ""
    sign = hashlib.sha256()
    for number in (1, (indexed + 1) // 2, indexed):
        for (body,) in record.query("SELECT body FROM texts WHERE text=?", number):
            sign.update(body)
    return sign.hexdigest()
