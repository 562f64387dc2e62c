"""The one writer of `run.db`: whole cells in one transaction, each reply once."""

import sqlite3
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from ....protocols.datasets.jsonl import jsonl
from ....protocols.question import Problem
from ....protocols.transcript import Verdict
from ...sweep.grid import GridRow
from ..events import add_event
from .cells import (
    OF_VERDICT,
    Row,
    StoredCell,
    call_columns,
    judgement_rows,
    numbers_of,
    outcome_columns,
    replied,
    turn_rows,
    withdrawn,
)
from .schema import (
    BEGINNING,
    CHILDREN,
    FAILED,
    RUN_DB,
    WITHDRAWN,
    CellRow,
    faulty,
    logged,
    make_tables,
    open_to_write,
    sealed,
    use_log,
    use_no_log,
)
from .tables import RunTables
from .values import RecordedCall, RecordedCell

MAX_NUMBERED = 20_000
"""Calls whose numbers are kept in memory."""
TAKEN_BACK = "[withdrawn]"
"""Replaces the words of a rater who took them back."""
AGAIN = "again"
"""Kind of the events that say how a cell had ended that is run again."""


class CellRunAgain(msgspec.Struct, frozen=True):
    """How a cell had ended, without its texts: a rater may withdraw these."""

    place: int
    status: str
    why: str
    failure: str | None = None


class RunDatabase(RunTables):
    """Writes a run. Everything is in the file once a method returns: kill -9 loses none.

    Threads may share it: one writes at a time. RunFolderError for a file that cannot be written or
    is not ours. Cells of a failed `write` are not in the file, and may be written again."""

    def __init__(self, folder: Path) -> None:
        """Open the run in a folder that this process has locked; there need be none yet."""
        super().__init__(open_to_write(folder / RUN_DB), folder / RUN_DB)
        self._numbers: dict[str, list[tuple[int, RecordedCall]]] = {}
        self._newest = self._completed = 0
        self._fresh = False
        """Whether all cells and calls of the file are new since it was opened, and in memory."""
        self._endpoint_numbers: dict[tuple[Any, ...], int] = {}
        self._failed = False
        self.written = False
        """Whether anything was written since it was opened."""
        try:
            self.empty = not self.fetched("SELECT count(*) FROM sqlite_schema")[0][0]
            """Whether it holds no run yet: call `begin` first."""
            if not self.empty:
                self._restore()
            if logged(self.file):
                # Of a writer that was killed: closing empties it.
                with self._transaction():
                    pass
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        """Close it, with all that was written in the one file."""
        with self._lock:
            try:
                if self.written:
                    use_no_log(self.db)
            except sqlite3.Error as exc:
                raise faulty(self.file, exc) from exc
            finally:
                self.db.close()

    def begin(
        self, problems: Sequence[Problem], rows: Sequence[GridRow], meta: Mapping[str, bytes]
    ) -> None:
        """Make the tables, and write the problems and rows of the run: all of it, or nothing. meta:
        JSON by name, as `told` returns it, `grid` without its rows. DatasetError for problems that
        could not be read back."""
        texts = dict.fromkeys(
            problem.question.passage for problem in problems if problem.question.passage
        )
        passages = {text: number for number, text in enumerate(texts)}
        bare = [
            replace(problem, question=problem.question.without_passage()) for problem in problems
        ]
        lines = zip(problems, jsonl(bare), strict=True)
        grid = {k: v for k, v in orjson.loads(meta["grid"]).items() if k != "rows"}
        tables: dict[str, list[tuple[Any, ...]]] = {
            "meta": [
                (name, (orjson.dumps(grid) if name == "grid" else value).decode())
                for name, value in meta.items()
            ],
            "passages": [(n, text) for text, n in passages.items()],
            "problems": [
                _problem_row(n, passages.get(problem.question.passage), line)
                for n, (problem, line) in enumerate(lines)
            ],
            "rows": [_grid_row(n, row) for n, row in enumerate(rows)],
        }
        with self._transaction():
            make_tables(self.db)
            self._restore()
            for table, columns in tables.items():
                self._insert(table, columns)
        self.empty = False

    def tell(self, name: str, value: bytes) -> None:
        """Keep JSON about the run under a name; it replaces the earlier one."""
        with self._transaction():
            self._replace("meta", [(name, value.decode())])

    def write(self, cells: Iterable[RecordedCell]) -> None:
        """Record cells in one transaction; only a withdrawn cell may be recorded already."""
        listed = list(cells)
        rows: dict[str, list[Row]] = {table: [] for table in ("calls", "cells", *CHILDREN)}
        with self._transaction():
            if len(self._numbers) > MAX_NUMBERED:
                self._numbers, self._fresh = {}, False
            self._look_up({call.address for cell in listed for call in cell.calls})
            for cell in listed:
                self._add(cell, rows)
            if not self._fresh:
                places = [cell.place for cell in listed]
                self._delete("cells", places, f"AND status='{WITHDRAWN}'")
                for table in CHILDREN:
                    self._delete(table, places)
            for table, columns in rows.items():
                self._insert(table, columns)

    def forget(self, places: Iterable[int], why: str) -> None:
        """Delete cells, which are run again; how each ended stays, as an event."""
        listed = list(places)
        ends = [
            CellRunAgain(stored.cell.place, stored.cell.status, why, stored.cell.failure)
            for some in self.stored(listed)
            for stored in some
        ]
        add_event(self.file.parent, AGAIN, *ends)
        with self._transaction():
            for table in ("cells", *CHILDREN):
                self._delete(table, listed)
            self._forgotten()

    def finalize(self) -> None:
        """Nothing more is to be run: empty the log."""
        self._alone("PRAGMA wal_checkpoint(TRUNCATE)")

    def withdraw(self, addresses: Collection[str]) -> int:
        """Delete the replies to these calls, which a rater takes back; how many cells that leaves
        without an outcome. Their texts become TAKEN_BACK, and cells whose verdict rests on one have
        no outcome. No byte of the texts is left in the file, not in free pages either. RunDamaged
        where any call was changed: its row may hide one of them."""
        calls = self._numbered(addresses)
        if not calls:
            return 0
        gone = 0
        with self._transaction():
            for some in self.stored(None, *CHILDREN):
                for stored in some:
                    if calls.isdisjoint(stored.calls):
                        continue
                    cell, *children = msgspec.structs.astuple(withdrawn(stored, calls, TAKEN_BACK))
                    if _rests_on(stored, calls):
                        gone += 1
                        nothing = dict.fromkeys(_OUTCOME) | {"message": "withdrawn"}
                        cell = cell._replace(status=WITHDRAWN, **nothing)
                    self._replace("cells", [cell])
                    for table, rows in zip(CHILDREN, children, strict=True):
                        self._replace(table, rows)
            for row in self.every_call():
                if row[0] in calls:
                    columns = ("ok", row[4], TAKEN_BACK, None, None, None)
                    self._replace("calls", [(*row[:3], *columns, *row[9:])])
            self._forgotten()
        self._restore()
        self._alone("PRAGMA secure_delete=ON")
        self._alone("PRAGMA wal_checkpoint(TRUNCATE)")
        self._alone("VACUUM")
        self._alone("PRAGMA wal_checkpoint(TRUNCATE)")
        return gone

    def forget_calls(self, addresses: Collection[str], why: str) -> bool:
        """Delete these calls, and as `forget` does the cells that asked them; whether any did."""
        calls = self._numbered(addresses)
        cells = (
            (stored for some in self.stored(None, *CHILDREN) for stored in some) if calls else ()
        )
        places = [stored.cell.place for stored in cells if not calls.isdisjoint(stored.calls)]
        self.forget(places, why)
        with self._transaction():
            self._delete("calls", calls)
        self._restore()
        return bool(places)

    def _numbered(self, addresses: Collection[str]) -> set[int]:
        """The numbers of the calls with these addresses."""
        # Every one is read, not looked up: an address that was damaged would not be found.
        addresses_wanted = set(map(bytes.fromhex, addresses))
        return {row[0] for row in self.every_call() if row[1] in addresses_wanted}

    def _delete(self, table: str, keys: Iterable[int], more: str = "") -> None:
        key = "call" if table == "calls" else "place"
        deque(self.among(f"DELETE FROM {table} WHERE {key} IN ({{}}) {more}", keys), 0)

    def _insert(self, table: str, rows: Sequence[Sequence[Any]], how: str = "INSERT") -> None:
        """Write new rows with their checksums. IntegrityError if a row has one of their keys."""
        if rows:
            marks = ",".join("?" * (len(rows[0]) + 1))
            self.db.executemany(f"{how} INTO {table} VALUES({marks})", sealed(rows))

    def _replace(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        self._insert(table, rows, "REPLACE")

    def _look_up(self, addresses: Collection[str]) -> None:
        """Find the numbers of calls that are in the file, and not in memory."""
        new = {address for address in addresses if address not in self._numbers}
        self._numbers |= {address: [] for address in new}
        if self._fresh:
            return
        query = f"SELECT * FROM calls WHERE {BEGINNING} IN ({{}})"
        beginnings = {bytes.fromhex(address[:8]) for address in new}
        for row in self.sound("calls", self.among(query, beginnings)):
            if (address := row[1].hex()) in new:
                self._numbers[address].append((row[0], self._call(row)))

    def _add(self, cell: RecordedCell, rows: Mapping[str, list[Row]]) -> None:
        """Add the rows of a cell and of its new calls."""
        place, end, asked_rows = cell.place, cell.outcome, rows["asked"]
        numbers: dict[str, tuple[int, RecordedCall]] = {}
        for n, call in enumerate(cell.calls):
            for entry in self._numbers[call.address]:
                if entry[1] is call or _same(entry[1], call):
                    break
            else:
                # A different reply under a known address is another row.
                entry = self._new(call, rows["calls"])
            numbers[call.address] = entry
            asked_rows.append((place, n, entry[0], call.role, call.seat, call.heard))
        turns: list[Row] = []
        if isinstance(end, Verdict):
            answers = self.problems[cell.problem].question.answers
            turns = turn_rows(place, end, answers, numbers)
        judgements = judgement_rows(cell, numbers)
        self._completed += 1
        rows["turns"].extend(turns)
        rows["judgements"].extend(judgements)
        rows["cells"].append(
            (
                *(place, cell.id, cell.row, cell.problem, cell.side, cell.draw),
                *outcome_columns(cell),
                *(len(cell.calls), len(turns), len(judgements), self._completed),
            )
        )

    def _new(self, call: RecordedCall, rows: list[Row]) -> tuple[int, RecordedCall]:
        cost = call.cost
        endpoint = (
            *(call.model, cost.identity, cost.served, call.settings),
            *(cost.came, int(cost.elsewhere)),
        )
        number = self._endpoint_numbers.get(endpoint)
        if number is None:
            number = max(self._endpoint_numbers.values(), default=0) + 1
            self._endpoint_numbers[endpoint] = number
            self._insert("endpoints", [(number, *endpoint)])
        self._newest += 1
        rows.append((self._newest, bytes.fromhex(call.address), number, *call_columns(call)))
        entry = self._newest, call
        self._numbers[call.address].append(entry)
        return entry

    def _forgotten(self) -> None:
        """Have those who follow the run begin again."""
        times = int(self.setting("forgotten") or 0) + 1
        self._replace("meta", [("forgotten", str(times))])

    def _alone(self, statement: str) -> None:
        """Execute what must be outside of a transaction."""
        with self._lock:
            try:
                self.db.execute(statement)
            except sqlite3.Error as exc:
                raise faulty(self.file, exc) from exc

    def _restore(self) -> None:
        """Start from the content of the file, and forget everything that it lacks."""
        self._known, self._endpoints, self._numbers = {}, {}, {}
        self._newest = self.fetched("SELECT coalesce(max(call), 0) FROM calls")[0][0]
        self._completed = self.fetched("SELECT coalesce(max(completed), 0) FROM cells")[0][0]
        tables = ("calls", "cells", *CHILDREN)
        self._fresh = not any(self.fetched(f"SELECT 1 FROM {table} LIMIT 1") for table in tables)
        endpoints = self.table("endpoints")
        self._endpoint_numbers = {tuple(values): number for number, *values in endpoints}
        self._failed = False

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            if self._failed:
                self._restore()
            try:
                if not self.written and not self.empty:
                    # Only now: opening a finished run without writing must leave its files alone.
                    use_log(self.db, self.file)
                    self.written = True
                self.db.execute("BEGIN IMMEDIATE")
                yield
                self.db.execute("COMMIT")
            except BaseException as exc:
                # The file may lack remembered rows, so it is read again before the next write.
                self._failed = not self.empty
                if self.db.in_transaction:
                    try:
                        self.db.execute("ROLLBACK")
                    except sqlite3.Error as more:
                        # The first fault is the one to report.
                        exc.add_note(f"it could not be undone: {more}")
                if isinstance(exc, sqlite3.Error):
                    raise faulty(self.file, exc) from exc
                raise


def _same(earlier: RecordedCall, call: RecordedCall) -> bool:
    """Whether two calls under one address have the same reply, from the same endpoint."""
    return replied(earlier) == replied(call) and (
        earlier.cost is call.cost
        or (_ASKED(earlier), _SOURCE(earlier.cost)) == (_ASKED(call), _SOURCE(call.cost))
    )


_ASKED = attrgetter("model", "settings")
_SOURCE = attrgetter(
    *("identity", "served", "stop_reason", "input_tokens", "output_tokens"),
    *("cache_read_tokens", "cache_write_tokens"),
)

_OUTCOME = CellRow._fields[CellRow._fields.index("probs") : CellRow._fields.index("call_count")]
"""The columns of `cells` with the result of a cell, without its status."""


def _rests_on(stored: StoredCell, calls: set[int]) -> bool:
    """Whether a cell loses its outcome with these calls: it failed, or they decided its verdict."""
    if stored.cell.status in (FAILED, WITHDRAWN):
        return True
    verdict = (row for row in stored.judgements if row[2] == OF_VERDICT)
    return any(calls.intersection(numbers_of(row)) for row in verdict)


def _problem_row(number: int, passage: int | None, line: bytes) -> tuple[Any, ...]:
    """line: the problem without its passage."""
    more = orjson.loads(line)
    id, question, answers = (more.pop(name) for name in ("id", "question", "answers"))
    truth = orjson.dumps([answer.pop("value") for answer in answers]).decode()
    flaws = [answer.pop("flaw", "") for answer in answers]
    if any(flaws):
        more["flaws"] = flaws
    listed, details = orjson.dumps(answers).decode(), orjson.dumps(more).decode()
    return number, id, question, passage, listed, truth, details if more else None


def _grid_row(number: int, row: GridRow) -> tuple[Any, ...]:
    more = {field.name: getattr(row, field.name) for field in fields(GridRow)}
    protocol, agent, judge, settings = (
        more.pop(name) for name in ("kind", "agent", "judge", "settings")
    )
    return (
        *(number, protocol, agent, judge, orjson.dumps(settings, default=dict).decode()),
        *(row.address, orjson.dumps(more, default=dict).decode()),
    )
