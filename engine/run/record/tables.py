"""A run read back from `run.db`: its rows as the values that were written."""

import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import Any, Self, get_args

import msgspec
import orjson
from msgspec.structs import replace

from ....cache.reply import Outcome
from ....protocols.datasets.jsonl import problems as read_problems
from ....protocols.question import Problem
from .cells import StoredCell, read_cell, read_draw, read_tool_calls
from .schema import (
    CHILDREN,
    FAILED,
    RUN_DB,
    VERDICT,
    WITHDRAWN,
    CellRow,
    RunDamaged,
    faulty,
    open_to_read,
    sound,
)
from .values import CallCost, RecordedCall, RecordedCell

OUTCOMES = frozenset(get_args(Outcome))
AT_ONCE = 256
"""Cells that are read at a time, and values in one query."""
MAX_KNOWN = 20_000
"""Calls that are kept, for the cells that share them."""

ALL = range(-(2**62), 2**62)
"""Every place that a row can have."""


class RunTables:
    """Reads a run by the numbers of its rows. RunFolderError for one that is damaged."""

    def __init__(self, db: sqlite3.Connection, file: Path) -> None:
        """file: names the database in errors."""
        self.db = db
        self.file = file
        self._lock = RLock()
        self._known: dict[int, RecordedCall] = {}
        self._endpoints: dict[int, Sequence[Any]] = {}

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The run in a folder, to be read; a context manager that closes it. RunFolderError."""
        tables = cls(open_to_read(folder / RUN_DB), folder / RUN_DB)
        try:
            # Queries join these few rows.
            tables.table("endpoints")
        except BaseException:
            tables.db.close()
            raise
        return tables

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.db.close()

    def setting(self, name: str) -> str | None:
        """The JSON that is kept about the run under a name; None if nothing is. RunDamaged."""
        rows = self.fetched("SELECT * FROM meta WHERE name=?", name)
        return str(self.sound("meta", rows)[0][1]) if rows else None

    def told(self, name: str) -> bytes:
        """`setting` as bytes; empty if nothing is kept."""
        return (self.setting(name) or "").encode()

    def grid(self) -> bytes:
        """The sweep without its problems, as `oversight.engine.sweep.grid.read_grid` takes it."""
        with damage_named(self.file):
            grid = orjson.loads(self.told("grid"))
            grid["rows"] = [
                {"kind": protocol, "agent": agent, "judge": judge, **orjson.loads(more)}
                | {"settings": orjson.loads(settings)}
                for _, protocol, agent, judge, settings, _, more in self.table("rows")
            ]
            return orjson.dumps(grid)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """By number. DatasetError for one that is none."""
        with damage_named(self.file):
            passages = {number: text for number, text in self.table("passages")}
            rows = self.table("problems")
            lines = b"".join(map(_problem_line, rows))
            read = read_problems(f"{self.file}: problems", lines)
            return tuple(
                problem
                if row[3] is None
                else replace(problem, question=replace(problem.question, passage=passages[row[3]]))
                for problem, row in zip(read, rows, strict=True)
            )

    def statuses(self) -> Iterator[tuple[int, str]]:
        """(place, status) of every cell, in the order of the sweep."""
        for some in self.stored():
            yield from ((stored.cell.place, stored.cell.status) for stored in some)

    def count(self) -> tuple[int, int]:
        """(cells with an outcome, failures among them)."""
        counts = Counter(status for _, status in self.statuses())
        return counts.total() - counts[WITHDRAWN], counts[FAILED]

    def cells(self, places: Iterable[int] | None = None) -> Iterator[RecordedCell]:
        """The cells at these places that are recorded, or all, in the order of the sweep."""
        for some in self.stored(places, *CHILDREN):
            with damage_named(self.file):
                calls = self.calls(row[2] for stored in some for row in stored.asked)
                read = [
                    read_cell(stored, self.problems[stored.cell.problem].question, calls)
                    for stored in some
                ]
            yield from read

    def ended(self, places: Iterable[int] | None, *tables: str) -> Iterator[StoredCell]:
        """Each cell that has a verdict or failed, with its rows of these tables, in the order of
        the sweep. places: None for all."""
        for some in self.stored(places, *tables):
            for stored in some:
                if stored.cell.status in (VERDICT, FAILED):
                    yield stored

    def asked_rows(self, calls: Sequence[tuple[int, int]]) -> Iterator[Sequence[Any]]:
        """Rows of `asked` for each (place, number of a call), and some others. RunDamaged where one
        is lost."""
        for first in range(0, len(calls), AT_ONCE):
            places, numbers = zip(*(some := calls[first : first + AT_ONCE]), strict=True)
            marks = ",".join("?" * len(some))
            query = f"SELECT * FROM asked WHERE place IN ({marks}) AND call IN ({marks})"
            rows = self.sound("asked", self.fetched(query, *places, *numbers))
            yield from rows
            # A writer may have removed the cell meanwhile.
            missing = set(some).difference((row[0], row[2]) for row in rows)
            deque(self.ended({place for place, _ in missing}, "asked"), 0)

    def calls(self, numbers: Iterable[int]) -> dict[int, RecordedCall]:
        """Calls by number, without their parts in a cell."""
        numbers_wanted = dict.fromkeys(numbers)
        if len(self._known) > MAX_KNOWN:
            self._known = {}
        calls = self._known
        missing = [number for number in numbers_wanted if number not in calls]
        with damage_named(self.file):
            for columns in self.stored_calls(missing):
                calls[columns[0]] = self._call(columns)
        return calls

    def stored_calls(self, numbers: Collection[int]) -> Iterator[Sequence[Any]]:
        """The columns of calls. RunDamaged where one is missing."""
        listed, query = list(numbers), "SELECT * FROM calls WHERE call IN ({})"
        for first in range(0, len(listed), AT_ONCE):
            some = listed[first : first + AT_ONCE]
            rows = self.sound("calls", self.among(query, some))
            for number in set(some).difference([row[0] for row in rows]):
                raise RunDamaged(self.file, f"call {number} is missing")
            yield from rows

    def table(self, name: str) -> list[Sequence[Any]]:
        """The columns of every row of a table, in the order of their numbers."""
        return self.sound(name, self.fetched(f"SELECT * FROM {name} ORDER BY 1"))

    def stored(
        self, places: Iterable[int] | None = None, *tables: str
    ) -> Iterator[list[StoredCell]]:
        """Cells with their rows of these tables of `CHILDREN`, some at a time, in the order of the
        sweep; in between nothing is locked. places: None for all."""
        between = ALL if places is None else places
        if not isinstance(between, range) or between.step != 1:
            listed = sorted(between)
            for at in range(0, len(listed), AT_ONCE):
                some = listed[at : at + AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT * FROM cells WHERE place IN ({marks}) ORDER BY place"
                yield self._at_one_moment(tables, query, *some)
            return
        first, last = between.start, between.stop
        query = "SELECT * FROM cells WHERE place >= ? AND place < ? ORDER BY place LIMIT ?"
        while cells := self._at_one_moment(tables, query, first, last, AT_ONCE):
            yield cells
            first = self._next(first, cells[-1].cell.place, "cells")

    def _at_one_moment(self, tables: Sequence[str], query: str, *values: int) -> list[StoredCell]:
        """Cells of a query with their rows of other tables, whatever a writer does meanwhile."""
        with self._lock:
            alone = bool(tables) and not self.db.in_transaction
            if alone:
                self.fetched("BEGIN")
            try:
                rows = self.sound("cells", self.fetched(query, *values))
                cells = list(map(_cell_row, rows))
                none: list[list[Sequence[Any]]] = [[]] * len(cells)
                children = [
                    self._children(table, cells) if table in tables else none for table in CHILDREN
                ]
            finally:
                if alone:
                    self.fetched("COMMIT")
        return [*map(StoredCell, cells, *children)]

    def _children(self, table: str, cells: Sequence[CellRow]) -> list[list[Sequence[Any]]]:
        """The rows of each cell in another table. RunDamaged where one is lost."""
        children: dict[int, list[Sequence[Any]]] = {cell.place: [] for cell in cells}
        query = f"SELECT * FROM {table} WHERE place IN ({{}}) ORDER BY 1, 2"
        for row in self.sound(table, self.among(query, children)):
            children[row[0]].append(row)
        count = CellRow._fields.index("call_count") + CHILDREN.index(table)
        for cell, rows in zip(cells, children.values(), strict=True):
            if len(rows) != cell[count] or (rows and rows[-1][1] != len(rows) - 1):
                raise RunDamaged(self.file, f"cell {cell.place} has lost rows of {table}")
        return [*children.values()]

    def _next(self, first: int, last: int, table: str) -> int:
        """The key after the last one read. RunDamaged where that precedes the first."""
        if last < first:
            raise RunDamaged(self.file, f"its {table} are out of order")
        return last + 1

    def every_call(self) -> Iterator[Sequence[Any]]:
        """The columns of every call, by number; a damaged index hides none."""
        first = ALL.start
        query = "SELECT * FROM calls WHERE call >= ? ORDER BY call LIMIT ?"
        while rows := self.fetched(query, first, AT_ONCE):
            yield from self.sound("calls", rows)
            first = self._next(first, rows[-1][0], "calls")

    def sound(self, table: str, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        """The columns of rows, all of which were read. RunDamaged where one was changed."""
        try:
            return sound(table, rows)
        except (ValueError, msgspec.MsgspecError) as exc:
            raise RunDamaged(self.file, str(exc)) from exc

    def among(self, sql: str, values: Iterable[int | bytes]) -> list[Any]:
        """Rows of a query over a list of values, which stands as {} in it."""
        listed, rows = list(values), list[Any]()
        for first in range(0, len(listed), AT_ONCE):
            some = listed[first : first + AT_ONCE]
            rows += self.fetched(sql.format(",".join("?" * len(some))), *some)
        return rows

    def fetched(self, sql: str, *values: int | str | bytes) -> list[Any]:
        """All rows of a query. RunFolderError for an error of SQLite's."""
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as exc:
            raise faulty(self.file, exc) from exc

    def endpoint(self, number: int) -> Sequence[Any]:
        """The columns of an endpoint but for its number. LookupError for an unknown number."""
        if number not in self._endpoints:
            # The writer goes on while somebody reads.
            self._endpoints = {row[0]: row[1:] for row in self.table("endpoints")}
        return self._endpoints[number]

    def _call(self, row: Sequence[Any]) -> RecordedCall:
        _, address, endpoint, outcome, stop, text, reasoning, tools, draw, origin = row[:10]
        *tokens, dollars, at = row[10:]
        model, identity, served, settings, came, elsewhere = self.endpoint(endpoint)
        if outcome not in OUTCOMES:
            raise ValueError(f"call {row[0]} ended as {outcome!r:.60}")
        cost = CallCost(
            *(identity, served, stop, *tokens, dollars, origin, at, came, bool(elsewhere))
        )
        return RecordedCall(
            *(address.hex(), model, "", "", 0, read_draw(draw), text, outcome),
            *(read_tool_calls(tools), cost, reasoning or "", settings),
        )


_cell_row: Callable[[Sequence[Any]], CellRow] = partial(tuple.__new__, CellRow)
"""A row of `cells` that `sound` has checked."""


def _problem_line(row: Sequence[Any]) -> bytes:
    """A problem without its passage, as a line of JSON."""
    _, id, question, _, answers, truth, more = row
    details = orjson.loads(more or "{}")
    listed = orjson.loads(answers)
    flaws = details.pop("flaws", None) or [""] * len(listed)
    for answer, value, flaw in zip(listed, orjson.loads(truth), flaws, strict=True):
        answer |= {"value": value, "flaw": flaw}
    return orjson.dumps(
        {"id": id, "question": question, "answers": listed, **details},
        option=orjson.OPT_APPEND_NEWLINE,
    )


_FAULTS = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)


@contextmanager
def damage_named(file: Path) -> Iterator[None]:
    """RunDamaged, which names the file, for every fault in reading values of a run."""
    try:
        yield
    except (*_FAULTS, msgspec.MsgspecError) as exc:
        raise RunDamaged(file, f"{type(exc).__name__}: {exc}") from exc
