"""A run read back from `run.db`: its rows as the values that were written."""

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from ....protocols.datasets.jsonl import problems as read_problems
from ....protocols.question import Problem
from .cells import (
    CALL_COLUMNS,
    Body,
    Packing,
    Replied,
    beliefs_of,
    call_read,
    cell_end,
    crc_of,
    read_body,
    read_figures,
    read_reply,
)
from .errors import RunDamaged
from .schema import RUN_DB, STATUSES, WITHDRAWN, faulty, open_to_read
from .values import RecordedCall, RecordedCell

AT_ONCE = 256
"""Cells that are read at a time, and numbers in one query."""
MAX_KNOWN = 20_000
"""Calls that are kept, for the cells that share them."""

_CELLS = (
    "SELECT place, id, row, problem, side, draw, status, probs, failure, more, crc, body FROM cells"
)


class RunTables:
    """Reads a run by the numbers of its rows. RunFolderError for one that is damaged."""

    def __init__(self, db: sqlite3.Connection, file: Path) -> None:
        """file: names the database in errors."""
        self.db = db
        self.file = file
        self._known: dict[int, RecordedCall] = {}

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The run in a folder, to be read; a context manager that closes it. RunFolderError."""
        return cls(open_to_read(folder / RUN_DB), folder / RUN_DB)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.db.close()

    def setting(self, name: str) -> Any:
        """What is known of the run under a name; None if nothing is."""
        found = self.fetched("SELECT value FROM meta WHERE name=?", name)
        return found[0][0] if found else None

    def told(self, name: str) -> bytes:
        """What was kept about the run under a name; empty if nothing was. RunDamaged."""
        packed = self.setting(name)
        return b"" if packed is None else self.unpacked(packed)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """By number. DatasetError for one that is none."""
        with damage_named(self.file):
            passages = {
                number: self._packing.unpack(body).decode()
                for number, body in self.query("SELECT passage, body FROM passages")
            }
            rows = self.fetched("SELECT passage, body FROM problems ORDER BY problem")
            lines = b"".join(self._packing.unpack(body) for _, body in rows)
            read = read_problems(f"{self.file}: problems", lines)
            return tuple(
                problem
                if passage is None
                else replace(problem, question=replace(problem.question, passage=passages[passage]))
                for problem, (passage, _) in zip(read, rows, strict=True)
            )

    def statuses(self) -> Iterator[tuple[int, int]]:
        """(place, status as a number of `STATUSES`) of every cell, in no order."""
        return self.query("SELECT place, status FROM cells INDEXED BY cells_landed")

    def count(self) -> tuple[int, int]:
        """(cells with an outcome, failures among them)."""
        counts = dict(
            self.query("SELECT status, count(*) FROM cells INDEXED BY cells_landed GROUP BY status")
        )
        failed = counts.get(STATUSES.index("failed"), 0)
        return sum(counts.values()) - counts.get(WITHDRAWN, 0), failed

    def cells(self, places: Iterable[int] | None = None) -> Iterator[RecordedCell]:
        """The cells at these places that are recorded, or all, in the order of the sweep."""
        for rows in self._rows(_CELLS, places):
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
        first, last = (places.start, places.stop) if places else (0, 2**62)
        for place, row, problem, body in self.query(
            "SELECT place, row, problem, body FROM cells WHERE status < 2 AND place >= ?"
            " AND place < ? ORDER BY place",
            *(first, last),
        ):
            with damage_named(self.file):
                read = read_body(self.unpacked(body))
            yield place, row, problem, read

    def calls(self, numbers: Iterable[int]) -> dict[int, RecordedCall]:
        """Calls by number, without their parts in a cell."""
        wanted = dict.fromkeys(numbers)
        if len(self._known) > MAX_KNOWN:
            self._known = {}
        known = self._known
        missing = [number for number in wanted if number not in known]
        for row in self.among(
            f"SELECT {CALL_COLUMNS} FROM calls JOIN endpoints USING(endpoint) WHERE call IN ({{}})",
            missing,
        ):
            with damage_named(self.file):
                known[row[0]] = call_read(row, self._packing_of(row[9]))
        for number in missing:
            if number not in known:
                raise RunDamaged(self.file, f"call {number} is missing")
        return known

    def reply(self, packed: bytes) -> Replied:
        return read_reply(self.unpacked(packed))

    def among(self, sql: str, numbers: Iterable[int]) -> Iterator[Any]:
        """Rows of a query over a list of numbers, which stands as {} in it."""
        listed = list(numbers)
        for first in range(0, len(listed), AT_ONCE):
            some = listed[first : first + AT_ONCE]
            yield from self.fetched(sql.format(",".join("?" * len(some))), *some)

    def query(self, sql: str, *values: int | str | bytes) -> Iterator[Any]:
        """Rows of a query, read one at a time. RunFolderError for an error of SQLite's."""
        try:
            yield from self.db.execute(sql, values)
        except sqlite3.Error as exc:
            raise faulty(self.file, exc) from exc

    def fetched(self, sql: str, *values: int | str | bytes) -> list[Any]:
        """All rows of a query in one list: a third of the time of `query` where there are few."""
        try:
            return self.db.execute(sql, values).fetchall()
        except sqlite3.Error as exc:
            raise faulty(self.file, exc) from exc

    def unpacked(self, packed: bytes) -> bytes:
        """A packed value. RunDamaged."""
        try:
            return self._packing_of(packed).unpack(packed)
        except ValueError as exc:
            raise RunDamaged(self.file, str(exc)) from exc

    def _packing_of(self, packed: bytes) -> Packing:
        if not self._packing.knows(packed):
            # The writer may have trained a dictionary since.
            del self._packing
        return self._packing

    @cached_property
    def _packing(self) -> Packing:
        return Packing(self.setting("zdict"))

    @cached_property
    def _parts(self) -> dict[int, tuple[str, str, int]]:
        return {n: (*part,) for n, *part in self.query("SELECT part, role, seat, heard FROM parts")}

    def _part(self, number: int) -> tuple[str, str, int]:
        if number not in self._parts:
            # The writer goes on while somebody reads.
            del self._parts
        return self._parts[number]

    def _rows(self, query: str, places: Iterable[int] | None) -> Iterator[Sequence[Any]]:
        """Some rows of a query over cells at a time, in the order of the sweep."""
        if places is None:
            rows = self.query(f"{query} ORDER BY place")
            while some := list(islice(rows, AT_ONCE)):
                yield some
            return
        listed = sorted(places)
        for first in range(0, len(listed), AT_ONCE):
            some = listed[first : first + AT_ONCE]
            marks = ",".join("?" * len(some))
            if found := self.fetched(f"{query} WHERE place IN ({marks}) ORDER BY place", *some):
                yield found

    def _cell(self, row: Sequence[Any], body: Body, calls: dict[int, RecordedCall]) -> RecordedCell:
        place, id, number, problem, side, draw, status, probs, failure, more = sound(row)
        question = self.problems[problem].question
        asked = []
        for part, call in zip(body.calls[::2], body.calls[1::2], strict=True):
            known, (role, seat, heard) = calls[call], self._part(part)
            asked.append(
                RecordedCall(
                    known.address,
                    known.model,
                    role,
                    seat,
                    heard,
                    known.draw,
                    known.text,
                    known.outcome,
                    known.tool_calls,
                    known.cost,
                    known.reasoning,
                    known.settings,
                )
            )
        end = cell_end(status, probs, failure, more, body, question, calls)
        told = read_figures(more if status == 0 else None)
        return RecordedCell(
            place,
            id.hex(),
            number,
            problem,
            side,
            draw,
            end,
            tuple(asked),
            beliefs_of(body, calls),
            told.counts,
            told.unread,
        )


def sound(row: Sequence[Any]) -> Sequence[Any]:
    """The columns of a cell, from its place to `more`. ValueError where the checksum behind them is
    another."""
    columns = row[:_COLUMNS]
    if crc_of(*columns) != row[_COLUMNS]:
        raise ValueError(f"cell {row[0]} was changed")
    return columns


_COLUMNS = 10


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
