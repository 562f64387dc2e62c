"""A run read back from `run.db`: its rows as the values that were written."""

import sqlite3
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec.structs import asdict, replace

from ....protocols.datasets.jsonl import problems as read_problems
from ....protocols.question import Problem
from .cells import (
    Body,
    Replied,
    beliefs_of,
    cell_end,
    read_body,
    read_figures,
    read_reply,
    unpack,
)
from .schema import FAILED, FORMAT, RUN_DB, WITHDRAWN, RunDamaged, faulty, open_to_read, sound
from .values import CallCost, RecordedCall, RecordedCell

AT_ONCE = 256
"""Cells that are read at a time, and numbers in one query."""
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
        self._known: dict[int, RecordedCall] = {}
        self._named: dict[str, dict[int, Sequence[Any]]] = {}

    @classmethod
    def open(cls, folder: Path, least: int = FORMAT) -> Self:
        """The run in a folder, to be read; a context manager that closes it. RunFolderError.

        least: the earliest format that is accepted.
        """
        tables = cls(open_to_read(folder / RUN_DB, least), folder / RUN_DB)
        try:
            # Queries join them, of which there are few.
            tables.table("endpoints")
        except BaseException:
            tables.db.close()
            raise
        return tables

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.db.close()

    def setting(self, name: str) -> Any:
        """What is known of the run under a name; None if nothing is."""
        found = self.fetched("SELECT * FROM meta WHERE name=?", name)
        return self.sound(found)[0][1] if found else None

    def told(self, name: str) -> bytes:
        """What was kept about the run under a name; empty if nothing was. RunDamaged."""
        packed = self.setting(name)
        return b"" if packed is None else self.unpacked(packed)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """By number. DatasetError for one that is none."""
        with damage_named(self.file):
            passages = {
                number: self.unpacked(body).decode() for number, body in self.table("passages")
            }
            rows = [(passage, body) for _, _, passage, body in self.table("problems")]
            lines = b"".join(self.unpacked(body) for _, body in rows)
            read = read_problems(f"{self.file}: problems", lines)
            return tuple(
                problem
                if passage is None
                else replace(problem, question=replace(problem.question, passage=passages[passage]))
                for problem, (passage, _) in zip(read, rows, strict=True)
            )

    def statuses(self) -> Iterator[tuple[int, int]]:
        """(place, status as a number of `STATUSES`) of every cell, in the order of the sweep."""
        for rows in self.stored():
            yield from ((row[0], row[6]) for row in rows)

    def count(self) -> tuple[int, int]:
        """(cells with an outcome, failures among them)."""
        counts = Counter(status for _, status in self.statuses())
        return counts.total() - counts[WITHDRAWN], counts[FAILED]

    def cells(self, places: Iterable[int] | None = None) -> Iterator[RecordedCell]:
        """The cells at these places that are recorded, or all, in the order of the sweep."""
        for rows in self.stored(places):
            with damage_named(self.file):
                bodies = [read_body(self.unpacked(row[-1])) for row in rows]
                calls = self.calls(call for body in bodies for call in body.calls[1::2])
                read = [
                    self._cell(row, body, calls) for row, body in zip(rows, bodies, strict=True)
                ]
            yield from read

    def bodies(self, places: range | None = None) -> Iterator[tuple[int, int, int, Body]]:
        """(place, row, problem, what was said) of the cells that have an outcome, in the order of
        the sweep. places: None for all."""
        for rows in self.stored(places):
            with damage_named(self.file):
                read = [
                    (row[0], row[2], row[3], read_body(self.unpacked(row[-1])))
                    for row in rows
                    if row[6] < 2
                ]
            yield from read

    def calls(self, numbers: Iterable[int]) -> dict[int, RecordedCall]:
        """Calls by number, without their parts in a cell."""
        wanted = dict.fromkeys(numbers)
        if len(self._known) > MAX_KNOWN:
            self._known = {}
        known = self._known
        missing = [number for number in wanted if number not in known]
        with damage_named(self.file):
            for columns in self.asked(missing):
                known[columns[0]] = self._call(columns)
        return known

    def asked(self, numbers: Collection[int]) -> list[Sequence[Any]]:
        """The columns of calls, by number. RunDamaged where one is missing."""
        found = self.sound(self.among("SELECT * FROM calls WHERE call IN ({})", numbers))
        for number in set(numbers).difference(row[0] for row in found):
            raise RunDamaged(self.file, f"call {number} is missing")
        return found

    def table(self, name: str) -> list[Sequence[Any]]:
        """The columns of every row of a table, in the order of their numbers."""
        return self.sound(self.fetched(f"SELECT * FROM {name} ORDER BY 1"))

    def stored(self, places: Iterable[int] | None = None) -> Iterator[list[Sequence[Any]]]:
        """The columns of cells as the table has them, some cells at a time, in the order of the
        sweep; in between nothing is locked. places: None for all."""
        between = ALL if places is None else places
        if not isinstance(between, range) or between.step != 1:
            listed = sorted(between)
            for at in range(0, len(listed), AT_ONCE):
                query = "SELECT * FROM cells WHERE place IN ({}) ORDER BY place"
                yield self.sound(self.among(query, listed[at : at + AT_ONCE]))
            return
        yield from self.batches("cells", "place", between)

    def batches(self, table: str, key: str, between: range = ALL) -> Iterator[list[Sequence[Any]]]:
        """The columns of rows, some rows at a time, in the order of their key."""
        first, last = between.start, between.stop
        query = f"SELECT * FROM {table} WHERE {key} >= ? AND {key} < ? ORDER BY {key} LIMIT ?"
        while rows := self.fetched(query, first, last, AT_ONCE):
            yield self.sound(rows)
            if rows[-1][0] < first:
                raise RunDamaged(self.file, f"its {table} are out of order")
            first = rows[-1][0] + 1

    def sound(self, rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
        """The columns of rows, all of which was read. RunDamaged where one was changed."""
        try:
            return [sound(row) for row in rows]
        except ValueError as exc:
            raise RunDamaged(self.file, str(exc)) from exc

    def reply(self, packed: bytes) -> Replied:
        return read_reply(self.unpacked(packed))

    def among(self, sql: str, values: Iterable[int | bytes]) -> Iterator[Any]:
        """Rows of a query over a list of values, which stands as {} in it."""
        listed = list(values)
        for first in range(0, len(listed), AT_ONCE):
            some = listed[first : first + AT_ONCE]
            yield from self.fetched(sql.format(",".join("?" * len(some))), *some)

    def fetched(self, sql: str, *values: int | str | bytes) -> list[Any]:
        """All rows of a query. RunFolderError for an error of SQLite's."""
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as exc:
            raise faulty(self.file, exc) from exc

    def unpacked(self, packed: bytes) -> bytes:
        """A packed value. RunDamaged."""
        try:
            return unpack(packed)
        except ValueError as exc:
            raise RunDamaged(self.file, str(exc)) from exc

    def about(self, table: str, number: int) -> Sequence[Any]:
        """The columns of a part or an endpoint but for its number."""
        known = self._named.get(table)
        if known is None or number not in known:
            # The writer goes on while somebody reads.
            known = self._named[table] = {row[0]: row[1:] for row in self.table(table)}
        return known[number]

    def _call(self, columns: Sequence[Any]) -> RecordedCall:
        _, address, by, sent, back, read, written, dollars, at, reply = columns
        model, identity, served, stop, origin, came, elsewhere, stated = self.about("endpoints", by)
        said = self.reply(reply)
        tokens = (sent, back, read, written)
        cost = CallCost(identity, served, stop, *tokens, dollars, origin, at, came, bool(elsewhere))
        return RecordedCall(address.hex(), model, cost=cost, settings=stated, **asdict(said))

    def _cell(self, row: Sequence[Any], body: Body, calls: dict[int, RecordedCall]) -> RecordedCell:
        place, id, number, problem, side, draw, status, _, probs, failure, more, _ = row
        question = self.problems[problem].question
        asked = []
        for part, call in zip(body.calls[::2], body.calls[1::2], strict=True):
            role, seat, heard = self.about("parts", part)
            asked.append(replace(calls[call], role=role, seat=seat, heard=heard))
        end = cell_end(status, probs, failure, more, body, question, calls)
        told = read_figures(more if status == 0 else None)
        return RecordedCell(
            *(place, id.hex(), number, problem, side, draw, end, tuple(asked)),
            *(beliefs_of(body, calls), told.counts, told.unread),
        )


@contextmanager
def damage_named(file: Path) -> Iterator[None]:
    """RunDamaged, which names the file, for whatever goes wrong in making sense of a run."""
    try:
        yield
    except (
        LookupError,
        ValueError,
        TypeError,
        ArithmeticError,
        struct.error,
        msgspec.MsgspecError,
    ) as exc:
        raise RunDamaged(file, f"{type(exc).__name__}: {exc}") from exc
