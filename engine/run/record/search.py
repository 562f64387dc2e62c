"""Words in what was said: an index of them by call, and a search by it, or through all that was
said in a run that has not settled."""

import re
import sqlite3
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeAlias

from ...errors import UsageError
from .cells import spoken
from .schema import WORDS
from .tables import RunTables

AROUND = 60
"""Characters of a text that are shown on each side of a hit."""

MEMORY = 32 << 20
"""Bytes of words that are sorted in memory: fewer and larger pieces leave no empty pages."""

Source: TypeAlias = str
"""What a hit was found in: `turn`, `reasoning` of a turn, or `judgement`."""


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
        """UsageError if there is no word in it."""
        found = [quoted or word for quoted, word in re.findall(r'"([^"]*)"|([^\s"]+)', words)]
        parts = tuple(part for part in found if re.search(r"\w", part))
        if not parts:
            raise UsageError(f"{words!r} holds no word to search for")
        return cls(parts)

    @property
    def match(self) -> str:
        """The query in the syntax of FTS5, with each part quoted: no character in it is special."""
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


def documents(tables: RunTables) -> Iterator[tuple[int, str, str]]:
    """(number, what was said, what was thought) for every call whose reply was heard; for what was
    said in other words than a reply's, -1 - the place of its cell."""
    heard = set[int]()
    for place, _, _, body in tables.bodies():
        words, thoughts = dict[str, None](), dict[str, None]()
        for _, call, text, thought in spoken(body):
            if isinstance(call, int):
                heard.add(call)
            if text or thought:
                words[text or ""] = thoughts[thought] = None
        if words:
            yield -1 - place, "\n".join(words), "\n".join(thoughts)
    for rows in tables.batches("calls", "call"):
        for row in rows:
            if row[0] in heard:
                reply = tables.reply(row[-1])
                yield row[0], reply.text, reply.reasoning


def make_words(db: sqlite3.Connection, texts: Iterable[tuple[int, str, str]]) -> None:
    """Index what was said. The caller holds a transaction.

    The index has no texts of its own, nor positions, which would be two thirds of it: what it
    names is read.
    """
    db.execute(WORDS)
    db.execute("INSERT INTO words(words, rank) VALUES('hashsize', ?)", (MEMORY,))
    db.executemany("INSERT INTO words(rowid, said, thought) VALUES(?,?,?)", texts)


def search(tables: RunTables, query: Query, rows: Collection[int]) -> list[Hit]:
    """Every hit in these rows, in the order of row, problem, draw, world and turn. RunFolderError
    for a run that cannot be searched."""
    phrases = _phrases(query)
    patterns = [_pattern(phrase) for phrase in phrases if phrase]
    if not patterns:
        return []
    named = _named(tables, phrases)
    fits: dict[tuple[int, str], bool] = {}
    found: dict[tuple[int, Source, int | None, int, str], list[tuple[int, int]]] = {}
    for place, row, problem, body in tables.bodies():
        if row not in rows:
            continue
        for turn, call, text, thought in spoken(body):
            key = call if isinstance(call, int) else -1 - place
            if named is not None and named.isdisjoint((key, -1 - place)):
                continue
            reply = tables.calls([call])[call] if isinstance(call, int) else None
            heard = reply.text if reply and text is None else text or ""
            private = (thought, reply.reasoning if reply else "")
            source = "judgement" if turn is None else "turn"
            for kind, said in ((source, heard), *(("reasoning", each) for each in private)):
                if not said:
                    continue
                if (key, said) not in fits:
                    folded = _folded(said)
                    fits[key, said] = all(pattern.search(folded) for pattern in patterns)
                if fits[key, said]:
                    cells = found.setdefault((problem, kind, turn, key, said), [])
                    if not cells or cells[-1] != (row, place):
                        cells.append((row, place))
    hits = [
        (min(cells), Hit(min(cells)[1], len(cells), kind, turn, said))
        for (_, kind, turn, _, said), cells in found.items()
    ]
    hits.sort(key=lambda hit: (hit[0], hit[1].turn is None, hit[1].turn or 0))
    return [hit for _, hit in hits]


def _named(tables: RunTables, phrases: Sequence[Sequence[str]]) -> set[int] | None:
    """The numbers of what has all words, by the index; None where there is none."""
    if not tables.is_indexed:
        return None
    words = " AND ".join(word for phrase in phrases for word in phrase)
    return {number for (number,) in tables.fetched("SELECT rowid FROM words(?)", words)}


def _phrases(query: Query) -> list[list[str]]:
    """The words of each part of a query, as the index divides and folds them, each in quotes."""
    phrases: list[list[str]] = [[] for _ in query.parts]
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE asked USING fts5(body)")
        db.executemany("INSERT INTO asked(rowid, body) VALUES(?, ?)", enumerate(query.parts))
        db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(asked, instance)")
        for part, term in db.execute("SELECT doc, term FROM terms ORDER BY doc, offset"):
            phrases[part].append(f'"{term}"')
    for part, phrase in zip(query.parts, phrases, strict=True):
        if phrase and part.endswith("*"):
            phrase[-1] += "*"
    return phrases


def _pattern(phrase: Sequence[str]) -> re.Pattern[str]:
    """These words side by side, in a folded text."""
    words = r"[\W_]+".join(re.escape(word.strip('"*')) for word in phrase)
    return re.compile(rf"(?<![^\W_]){words}" + r"(?![^\W_])" * (not phrase[-1].endswith("*")))


_ACCENTS = re.compile("[\u0300-\u036f]")


def _folded(text: str) -> str:
    """In small letters without accents, as the index has it."""
    if not text.isascii():
        text = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
    return text.lower()
