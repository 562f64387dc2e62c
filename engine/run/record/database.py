"""The one writer of `run.db`: whole cells in one transaction, each reply once."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import orjson
from msgspec.structs import replace

from ....protocols.datasets.jsonl import jsonl
from ....protocols.question import Problem
from ...sweep.grid import GridRow
from .cells import (
    Body,
    Replied,
    body_of,
    encoded_reply,
    figures_of,
    pack,
    read_body,
    replied,
    without,
)
from .schema import (
    BEGINNING,
    FAILED,
    RUN_DB,
    STATUSES,
    WITHDRAWN,
    faulty,
    logged,
    make_tables,
    open_to_write,
    put_event,
    sealed,
    use_log,
    use_no_log,
)
from .tables import RunTables
from .values import RecordedCall, RecordedCell

MAX_NUMBERED = 20_000
"""Calls whose numbers are kept in memory."""
TAKEN_BACK = "[withdrawn]"
"""What stands in place of the words of a person who took them back."""


class RunDatabase(RunTables):
    """Writes a run. What it was given is in the file once a method returns: kill -9 loses none.

    Threads may share it: one writes at a time. RunFolderError for a file that cannot be written or
    is no run of ours; what a failed `write` was given is not in the file, and may be given again.
    """

    def __init__(self, folder: Path) -> None:
        """Open the run in a folder that this process has locked; there need be none yet."""
        super().__init__(open_to_write(folder / RUN_DB), folder / RUN_DB)
        self._lock = RLock()
        self._numbers: dict[str, list[tuple[int, RecordedCall]]] = {}
        self._newest = self._landed = 0
        self._numbers_of: dict[str, dict[tuple[Any, ...], int]] = {}
        self._failed = False
        self.written = False
        """Whether anything was written since it was opened."""
        try:
            self.empty = not self.fetched("SELECT count(*) FROM sqlite_schema")[0][0]
            """Whether there is no run in it yet, so that `begin` is to be called."""
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
        """Make the tables, and say what the run is about: whole, or not at all. DatasetError for
        problems that could not be read back. meta: what `told` gives back, by name."""
        texts = dict.fromkeys(each.question.passage for each in problems if each.question.passage)
        passages = {text: number for number, text in enumerate(texts)}
        bare = [replace(each, question=each.question.without_passage()) for each in problems]
        lines = zip(problems, jsonl(bare), strict=True)
        tables: dict[str, list[tuple[Any, ...]]] = {
            "meta": [(name, pack(told)) for name, told in meta.items()],
            "passages": [(n, pack(text.encode())) for text, n in passages.items()],
            "problems": [
                (n, each.id, passages.get(each.question.passage), pack(line))
                for n, (each, line) in enumerate(lines)
            ],
            "rows": [
                (n, row.kind, row.agent, row.judge, bytes.fromhex(row.address))
                for n, row in enumerate(rows)
            ],
        }
        with self._transaction():
            make_tables(self.db)
            self._restore()
            for table, columns in tables.items():
                self._insert(table, columns)
        self.empty = False

    def tell(self, name: str, value: bytes) -> None:
        """Keep something about the run under a name, in place of what it was."""
        with self._transaction():
            self._replace("meta", [(name, pack(value))])

    def write(self, cells: Iterable[RecordedCell]) -> None:
        """Record cells in one transaction; only a withdrawn cell may be recorded already."""
        listed = list(cells)
        with self._transaction():
            if len(self._numbers) > MAX_NUMBERED:
                self._numbers = {}
            self._look_up({call.address for cell in listed for call in cell.calls})
            calls: list[tuple[Any, ...]] = []
            rows = [self._row(cell, calls) for cell in listed]
            withdrawn = [(cell.place, WITHDRAWN) for cell in listed]
            self.db.executemany("DELETE FROM cells WHERE place=? AND status=?", withdrawn)
            self._insert("calls", calls)
            self._insert("cells", rows)

    def forget(self, places: Iterable[int], why: str) -> None:
        """Delete cells, which are run again; how each ended stays, as an event."""
        with self._transaction():
            for place in places:
                for row in self.sound(self.among("SELECT * FROM cells WHERE place={}", [place])):
                    # Without what was said, which may have to be taken back.
                    told = {"place": place, "status": STATUSES[row[6]], "why": why}
                    told |= {"failure": row[9]}
                    put_event(self.db, "again", orjson.dumps(told))
                self.db.execute("DELETE FROM cells WHERE place=?", (place,))
            self._forgotten()

    def settle(self) -> None:
        """Nothing more is to be run: empty the log."""
        self._alone("PRAGMA wal_checkpoint(TRUNCATE)")

    def withdraw(self, addresses: Collection[str]) -> int:
        """Delete the replies to these calls, which a person takes back; how many cells that leaves
        without an outcome.

        What was said reads TAKEN_BACK from then on, and cells whose verdict rests on one have no
        outcome. No byte of it is left in the file, not in free pages either.
        RunDamaged where any call was changed: what they said may stand under it.
        """
        calls = self._numbered(addresses)
        if not calls:
            return 0
        gone, nothing = 0, pack(encoded_reply(Replied(TAKEN_BACK)))
        with self._transaction():
            for cells in self.stored():
                left = []
                for cell in cells:
                    body, end = read_body(self.unpacked(cell[-1])), cell[6:-1]
                    if not _names(body, calls):
                        continue
                    judged = calls.intersection(said.call for said in body.judgements)
                    if judged or end[0] in (FAILED, WITHDRAWN):
                        gone += 1
                        end = (WITHDRAWN, end[1], None, None, "withdrawn")
                    left.append((*cell[:6], *end, pack(without(body, calls, TAKEN_BACK))))
                self._replace("cells", left)
            for rows in self.batches("calls", "call"):
                self._replace("calls", [(*row[:-1], nothing) for row in rows if row[0] in calls])
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
        every = (cell for cells in self.stored() for cell in cells) if calls else ()
        places = [cell[0] for cell in every if _names(read_body(self.unpacked(cell[-1])), calls)]
        self.forget(places, why)
        with self._transaction():
            self.db.executemany("DELETE FROM calls WHERE call=?", ((call,) for call in calls))
        self._restore()
        return bool(places)

    def _numbered(self, addresses: Collection[str]) -> set[int]:
        """The numbers of the calls with these addresses."""
        wanted = set(map(bytes.fromhex, addresses))
        # Every one is read, not looked up: an address that was damaged would not be found.
        every = (row for rows in self.batches("calls", "call") for row in rows)
        return {row[0] for row in every if row[1] in wanted}

    def _insert(self, table: str, rows: Sequence[Sequence[Any]], how: str = "INSERT") -> None:
        """Write new rows with their checksums. IntegrityError if a row has one of their keys."""
        if rows:
            marks = ",".join("?" * (len(rows[0]) + 1))
            self.db.executemany(f"{how} INTO {table} VALUES({marks})", map(sealed, rows))

    def _replace(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Overwrite the rows that have the same keys."""
        self._insert(table, rows, "REPLACE")

    def _look_up(self, addresses: Collection[str]) -> None:
        """Find the numbers of calls that are in the file, and not in memory."""
        new = [address for address in addresses if address not in self._numbers]
        self._numbers |= {address: [] for address in new}
        wanted = set(map(bytes.fromhex, new))
        query = f"SELECT * FROM calls WHERE {BEGINNING} IN ({{}})"
        for row in self.sound(self.among(query, {address[:8] for address in wanted})):
            if row[1] in wanted:
                call = self._call(row)
                self._numbers[call.address].append((row[0], call))

    def _row(self, cell: RecordedCell, calls: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        """The row of a cell; those of its calls that are new are added to `calls`."""
        numbers, asked = dict[str, tuple[int, RecordedCall]](), list[int]()
        parts = self._numbers_of["parts"]
        for call in cell.calls:
            for known in self._numbers[call.address]:
                if known[1] is call or _same(known[1], call):
                    break
            else:
                # One that differs from what is known under its address is another row.
                known = self._new(call, calls)
            numbers[call.address] = known
            part = call.role, call.seat, call.heard
            asked += parts.get(part) or self._number("parts", part), known[0]
        self._landed += 1
        status, probs, failure, more = figures_of(cell)
        body = body_of(cell, self.problems[cell.problem].question, asked, numbers)
        return (
            *(cell.place, bytes.fromhex(cell.id), cell.row, cell.problem, cell.side, cell.draw),
            *(status, self._landed, probs, failure, more, pack(body)),
        )

    def _new(self, call: RecordedCall, calls: list[tuple[Any, ...]]) -> tuple[int, RecordedCall]:
        cost = call.cost
        endpoint = (
            *(call.model, cost.identity, cost.served, cost.stop_reason, cost.origin, cost.came),
            *(int(cost.elsewhere), call.settings),
        )
        self._newest += 1
        calls.append(
            (
                self._newest,
                bytes.fromhex(call.address),
                self._numbers_of["endpoints"].get(endpoint) or self._number("endpoints", endpoint),
                cost.input_tokens,
                cost.output_tokens,
                cost.cache_read_tokens,
                cost.cache_write_tokens,
                cost.dollars,
                cost.at,
                pack(encoded_reply(replied(call))),
            )
        )
        known = self._newest, call
        self._numbers[call.address].append(known)
        return known

    def _number(self, table: str, values: tuple[Any, ...]) -> int:
        """Give a new part or endpoint the next number, and write it."""
        known = self._numbers_of[table]
        number = known[values] = max(known.values(), default=0) + 1
        self._insert(table, [(number, *values)])
        return number

    def _forgotten(self) -> None:
        """Have those who follow the run begin again."""
        self._replace("meta", [("forgotten", (self.setting("forgotten") or 0) + 1)])

    def _alone(self, statement: str) -> None:
        """Execute what must be outside of a transaction."""
        with self._lock:
            try:
                self.db.execute(statement)
            except sqlite3.Error as exc:
                raise faulty(self.file, exc) from exc

    def _restore(self) -> None:
        """Begin from what is in the file: nothing is remembered as written that is not there."""
        self._known, self._named, self._numbers = {}, {}, {}
        self._newest = self.fetched("SELECT coalesce(max(call), 0) FROM calls")[0][0]
        self._landed = self.fetched("SELECT coalesce(max(landed), 0) FROM cells")[0][0]
        self._numbers_of = {
            table: {tuple(values): number for number, *values in self.table(table)}
            for table in ("parts", "endpoints")
        }
        self._failed = False

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            if self._failed:
                self._restore()
            try:
                if not self.written and not self.empty:
                    # Not before: who only looks at what has settled leaves it as it is.
                    use_log(self.db, self.file)
                    self.written = True
                self.db.execute("BEGIN IMMEDIATE")
                yield
                self.db.execute("COMMIT")
            except BaseException as exc:
                # What is remembered need not be in the file: it is read again before the next one.
                self._failed = not self.empty
                if self.db.in_transaction:
                    try:
                        self.db.execute("ROLLBACK")
                    except sqlite3.Error as more:
                        # What went wrong first is told.
                        exc.add_note(f"it could not be undone: {more}")
                if isinstance(exc, sqlite3.Error):
                    raise faulty(self.file, exc) from exc
                raise


def _same(known: RecordedCall, call: RecordedCall) -> bool:
    """Whether two calls under one address have the same reply, from the same endpoint."""
    return _figures(known) == _figures(call) and replied(known) == replied(call)


def _figures(call: RecordedCall) -> tuple[object, ...]:
    cost = call.cost
    tokens = cost.input_tokens, cost.output_tokens, cost.cache_read_tokens, cost.cache_write_tokens
    return call.model, call.settings, cost.identity, cost.served, cost.stop_reason, *tokens


def _names(body: Body, calls: set[int]) -> bool:
    return not calls.isdisjoint(body.calls[1::2]) or any(
        each.call in calls for said in (body.turns, body.judgements) for each in said
    )
