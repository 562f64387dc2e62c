"""One query of a question's database, run as a separate program that reads and writes JSON.

A query may hold only keywords, names and values of the database, numbers, and one-letter aliases.
Otherwise a speaker could show the judge its own words as a program's. The query must read a table.
Its limits are counts, which are equal on every machine; `query` adds a time limit for the rest."""

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

MAX_STEPS = 5_000_000
"""Maximum instructions of SQLite's virtual machine."""
MAX_LENGTH = 4_000
"""Maximum bytes of a value or row: one instruction may double a text."""
MAX_PATTERN, MAX_DEPTH = 40, 100
"""Maximum bytes of a LIKE pattern, whose time grows with every wildcard within one instruction, and
maximum depth of an expression."""
MAX_ROWS, MAX_SHOWN = 20, 1_000
"""Maximum rows and characters of a result."""

_WORD = re.compile(
    r"select|from|where|and|or|not|in|is|null|as|on|join|left|inner|group|by|order|having|distinct"
    r"|limit|offset|between|like|case|when|then|else|end|union|all|except|intersect|with|asc|desc"
    r"|exists|cast|integer|real|text|count|sum|total|avg|min|max|coalesce|ifnull|abs|round|length"
    r"|substr|[a-z]\d?"
)
"""Keywords, functions and aliases. None tells the time, so that results do not change."""
_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"[^\"]*\"|[^\W\d]\w*(?![\w'])|\d[\d.]*|\s+|<>|<=|>=|!=|[-+*/%=<>(),.;]"
)
"""The tokens of a query. Excluded: x'41', which is text in disguise, and ||, which spells any."""
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
"""Constants that select rows, letters or digits, as in `a > 10`, `LIMIT 5` and `round(a, 2)`, and a
0 or 1 that counts or makes a division exact."""
_STEP = 1_000
_READS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, 33))
"""Actions allowed to a query; 33 is SQLITE_RECURSIVE."""
_MAKES = _READS | {
    *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_INSERT),
    *(sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_REINDEX),
}
"""Actions allowed to the script of a database, since data sets come from elsewhere."""


def answer(sql: str, script: str, claimed: bool = False) -> tuple[str, str]:
    """The result of a query of the database made by `script`, and the query as others may read it.
    Without a result: an error text and an empty query. claimed: whether the value must come from
    the tables."""
    query = " ".join(sql.removesuffix(";").split())
    with closing(sqlite3.connect(":memory:")) as database:
        _bounded(database, _MAKES, MAX_LENGTH + len(script.encode()))
        try:
            database.executescript(script)
            database.commit()
            database.set_authorizer(None)
            names = _known(database)
        except sqlite3.Error:
            return "error: the database of this question cannot be made", ""
        if not query or not _plain(query, names):
            return (
                "error: a query may hold keywords, names and values of the database, numbers and "
                "aliases of one letter; no comments"
            ), ""
        over = _bounded(database, _READS, MAX_LENGTH)
        try:
            if not _reads_a_table(database, query):
                return "error: the query reads no table of the database", ""
            rows = database.execute(query).fetchmany(MAX_ROWS + 1)
            if claimed and (_makes(query, _laid_out(rows)) or rows == _emptied(database, query)):
                return "error: the value does not come out of the tables alone", ""
        except sqlite3.DataError:
            return f"error: a value or a row of more than {MAX_LENGTH} bytes", ""
        except sqlite3.Error:
            # SQLite's message may repeat words of the model.
            why = "too many steps" if over() else "this is no query of the database"
            return f"error: {why}", ""
    return _laid_out(rows), query


def _laid_out(rows: list[tuple[Any, ...]]) -> str:
    text = "; ".join(", ".join(map(_cell, row)) for row in rows[:MAX_ROWS]) or "no rows"
    more = len(rows) > MAX_ROWS or len(text) > MAX_SHOWN
    return text[:MAX_SHOWN] + (" …" if more else "")


def _cell(value: object) -> str:
    return "null" if value is None else f"{value:.12g}" if isinstance(value, float) else f"{value}"


def _plain(sql: str, names: frozenset[str]) -> bool:
    at = 0
    for match in _TOKEN.finditer(sql):
        token = match[0]
        if match.start() != at or "--" in sql or "/*" in sql:
            return False
        at = match.end()
        if token[0] in "'\"":
            inner = token[1:-1].casefold()
            if inner not in names and not re.fullmatch(r"[\d%.:\-]{1,20}", inner):
                return False
        elif token[0].isalpha() or token[0] == "_":
            word = token.casefold()
            if word not in names and not _WORD.fullmatch(word):
                return False
    return at == len(sql)


def _reads_a_table(database: sqlite3.Connection, sql: str) -> bool:
    """Whether SQLite's program for a query opens a table other than the schema, which is at page 1.
    Names are not enough: a part of a query may be named like a table."""
    program = database.execute(f"EXPLAIN {sql}").fetchall()
    return any(name == "OpenRead" and page > 1 for _, name, _, page, *_ in program)


def _makes(sql: str, value: str) -> bool:
    """Whether a constant of a query equals its value, or may take part in computing it."""
    computed = _SELECTS.sub(r"\1", _ROUNDS.sub(r"\1", sql))
    numbers = [float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", sql)]
    equal = value in [f"{number:.12g}" for number in numbers if number > 1]
    return equal or re.search(rf"(?<!\w){_CONSTANT}", computed) is not None


def _emptied(database: sqlite3.Connection, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query when all tables are empty."""
    database.set_authorizer(None)
    for (table,) in database.execute(_TABLES).fetchall():
        database.execute(f'DELETE FROM "{table}"')
    _bounded(database, _READS, MAX_LENGTH)
    return database.execute(sql).fetchmany(MAX_ROWS + 1)


def _bounded(
    database: sqlite3.Connection, actions: frozenset[int], longest: int
) -> Callable[[], bool]:
    """Allow a connection only these actions, values of `longest` bytes, and MAX_STEPS instructions.
    The returned function tells whether the steps ran out."""
    steps_left = MAX_STEPS // _STEP

    def step() -> bool:
        nonlocal steps_left
        steps_left -= 1
        return steps_left < 0

    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, longest),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, MAX_DEPTH),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    ):
        database.setlimit(limit, most)
    database.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in actions else sqlite3.SQLITE_DENY
    )
    database.set_progress_handler(step, _STEP)
    return lambda: steps_left < 0


def _known(database: sqlite3.Connection) -> frozenset[str]:
    """Names and texts of the database, in lower case."""
    tables = [name for (name,) in database.execute(_TABLES)]
    names: set[str] = set(tables)
    for table in tables:
        rows = database.execute(f'SELECT * FROM "{table}"')
        names |= {column[0] for column in rows.description}
        names |= {value for row in rows for value in row if isinstance(value, str)}
    return frozenset(name.casefold() for name in names)


if __name__ == "__main__":
    json.dump(answer(*json.load(sys.stdin)), sys.stdout)
