"""One query of a question's database, run as a program of its own: from JSON to JSON.

A query may hold keywords, names and values of the database, numbers, and aliases of one letter, and
no other words: a speaker could show the judge its own as if they were a program's. It must read a
table: what it finds without one says nothing of the database. It is bounded by counts, the same on
every machine; what no count of SQLite's bounds is ended by `query`, with this process.
"""

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

MAX_STEPS = 5_000_000
"""Instructions of SQLite's machine."""
MAX_LENGTH = 4_000
"""Bytes of a value or a row that a query handles: one instruction may double a text."""
MAX_PATTERN, MAX_DEPTH = 40, 100
"""Bytes of a pattern of LIKE, which may take a time that grows with every wildcard within one
instruction; levels of an expression."""
MAX_ROWS, MAX_SHOWN = 20, 1_000
"""Rows of a result, and characters of it."""

_WORD = re.compile(
    r"select|from|where|and|or|not|in|is|null|as|on|join|left|inner|group|by|order|having|distinct"
    r"|limit|offset|between|like|case|when|then|else|end|union|all|except|intersect|with|asc|desc"
    r"|exists|cast|integer|real|text|count|sum|total|avg|min|max|coalesce|ifnull|abs|round|length"
    r"|substr|[a-z]\d?"
)
"""Keywords, functions, and aliases. None tells the time: a query gives the same for ever."""
_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"[^\"]*\"|[^\W\d]\w*(?![\w'])|\d[\d.]*|\s+|<>|<=|>=|!=|[-+*/%=<>(),.;]"
)
"""The tokens of a query. x'41' is a word in disguise, and || spells any."""
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"
_CONSTANT = r"""(?:'(?:[^']|'')*'|"[\d%.:\-]+"|\d[\d.]*)"""
_ROUNDS = re.compile(rf"\bround ?\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*), ?{_CONSTANT} ?\)", re.I)
_SELECTS = re.compile(
    rf"(?:[=<>]|\b(?:between|and|like|limit|offset|by)) ?-?{_CONSTANT}(?![\w.]| ?[-+*/%])"
    rf"|\bin ?\((?: ?{_CONSTANT} ?,?)+\)|\bsubstr ?\(([\w.]+)(?: ?, ?\d+)+ ?\)"
    r"|\b(?:then|else) [01]\b(?! ?[-+*/%.])|(?<![\w.])0(?![\w.])"
    r"|(?<![\w.])1(?:\.0)? ?\* ?(?=[a-z(])|(?<=[\w)]) ?\* ?1(?:\.0)?(?![\w.])",
    re.I,
)
"""Constants that select rows, letters or digits, as in `a > 10`, `LIMIT 5` and `round(a, 2)`; and a
0 or a 1 that counts, or makes a division exact."""
_STEP = 1_000
_READS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33))
"""What a query may do; 33 is SQLITE_RECURSIVE."""
_MAKES = _READS | {
    *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_INSERT),
    *(sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_REINDEX),
}
"""What the script of a database may do: data sets come from elsewhere."""


def answer(sql: str, script: str, claimed: bool = False) -> tuple[str, str]:
    """The result of a query of the database made by `script`, and the query as others may read it;
    an error text, and nothing, if it has no result. claimed: whether the value must come out of the
    tables."""
    shown = " ".join(sql.removesuffix(";").split())
    with closing(sqlite3.connect(":memory:")) as books:
        _bounded(books, _MAKES, MAX_LENGTH + len(script.encode()))
        try:
            books.executescript(script)
            books.commit()
            books.set_authorizer(None)
            known = _known(books)
        except sqlite3.Error:
            return "error: the database of this question cannot be made", ""
        if not shown or not _plain(shown, known):
            return (
                "error: a query may hold keywords, names and values of the database, numbers and "
                "aliases of one letter; no comments"
            ), ""
        over = _bounded(books, _READS, MAX_LENGTH)
        try:
            if not _reads_a_table(books, shown):
                return "error: the query reads no table of the database", ""
            rows = books.execute(shown).fetchmany(MAX_ROWS + 1)
            if claimed and (_makes(shown, _laid_out(rows)) or rows == _emptied(books, shown)):
                return "error: the value does not come out of the tables alone", ""
        except sqlite3.DataError:
            return f"error: a value or a row of more than {MAX_LENGTH} bytes", ""
        except sqlite3.Error:
            # What SQLite says may repeat what the model wrote.
            why = "too many steps" if over() else "this is no query of the database"
            return f"error: {why}", ""
    return _laid_out(rows), shown


def _laid_out(rows: list[tuple[Any, ...]]) -> str:
    told = "; ".join(", ".join(map(_cell, row)) for row in rows[:MAX_ROWS]) or "no rows"
    more = len(rows) > MAX_ROWS or len(told) > MAX_SHOWN
    return told[:MAX_SHOWN] + (" …" if more else "")


def _cell(value: object) -> str:
    return "null" if value is None else f"{value:.12g}" if isinstance(value, float) else f"{value}"


def _plain(sql: str, known: frozenset[str]) -> bool:
    at = 0
    for found in _TOKEN.finditer(sql):
        token = found[0]
        if found.start() != at or "--" in sql or "/*" in sql:
            return False
        at = found.end()
        if token[0] in "'\"":
            inner = token[1:-1].casefold()
            if inner not in known and not re.fullmatch(r"[\d%.:\-]{1,20}", inner):
                return False
        elif token[0].isalpha() or token[0] == "_":
            word = token.casefold()
            if word not in known and not _WORD.fullmatch(word):
                return False
    return at == len(sql)


def _reads_a_table(books: sqlite3.Connection, sql: str) -> bool:
    """Whether the program that SQLite makes of a query opens any table but that of the tables,
    which is at page 1. Names alone would not tell: a part of a query may be called as a table."""
    program = books.execute(f"EXPLAIN {sql}").fetchall()
    return any(name == "OpenRead" and page > 1 for _, name, _, page, *_ in program)


def _makes(sql: str, value: str) -> bool:
    """Whether a constant of a query is its value, or may take part in making it."""
    made = _SELECTS.sub(r"\1", _ROUNDS.sub(r"\1", sql))
    numbers = [float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", sql)]
    equal = value in [f"{number:.12g}" for number in numbers if number > 1]
    return equal or re.search(rf"(?<!\w){_CONSTANT}", made) is not None


def _emptied(books: sqlite3.Connection, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query when all tables are empty."""
    books.set_authorizer(None)
    for (table,) in books.execute(_TABLES).fetchall():
        books.execute(f'DELETE FROM "{table}"')
    _bounded(books, _READS, MAX_LENGTH)
    return books.execute(sql).fetchmany(MAX_ROWS + 1)


def _bounded(books: sqlite3.Connection, may: frozenset[int], longest: int) -> Callable[[], bool]:
    """Let a connection do these things alone, with values of so many bytes at most, in MAX_STEPS;
    tells whether these were too few."""
    left = MAX_STEPS // _STEP

    def step() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, longest),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, MAX_DEPTH),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    ):
        books.setlimit(limit, most)
    books.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in may else sqlite3.SQLITE_DENY
    )
    books.set_progress_handler(step, _STEP)
    return lambda: left < 0


def _known(books: sqlite3.Connection) -> frozenset[str]:
    """Names and texts of the database, in small letters."""
    tables = [name for (name,) in books.execute(_TABLES)]
    found: set[str] = set(tables)
    for table in tables:
        rows = books.execute(f'SELECT * FROM "{table}"')
        found |= {column[0] for column in rows.description}
        found |= {value for row in rows for value in row if isinstance(value, str)}
    return frozenset(each.casefold() for each in found)


if __name__ == "__main__":
    json.dump(answer(*json.load(sys.stdin)), sys.stdout)
