"""The one writer of `run.db`: whole cells in one transaction, each reply once."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from ....protocols.datasets.jsonl import jsonl
from ....protocols.question import Problem
from ...sweep.grid import GridRow
from .cells import (
    Body,
    Packing,
    Replied,
    body_of,
    crc_of,
    encoded_reply,
    figures_of,
    read_body,
    replied,
    trained,
    without,
)
from .errors import RunDamaged
from .schema import (
    RUN_DB,
    STATUSES,
    WITHDRAWN,
    faulty,
    make_tables,
    open_to_write,
    read_only,
    use_log,
)
from .search import documents, drop_words, make_words
from .tables import AT_ONCE, RunTables
from .values import RecordedCall, RecordedCell

MAX_HELD = 32 << 20
"""Characters of replies whose numbers are kept in memory."""
TRAINED_ON = 512 << 10
"""Bytes that a dictionary is trained on."""
MAX_COMPACTED = 256 << 20
"""Bytes; a larger run is not rewritten for the few per cent that it would save."""
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
        self.db.create_function("crc_of", -1, crc_of, deterministic=True)
        self._numbers: dict[str, list[tuple[int, str, Replied]]] = {}
        self._held = self._newest = self._landed = self._sampled = 0
        self._samples: list[tuple[str, int, bytes]] = []
        self._shared_numbers: dict[str, dict[tuple[Any, ...], int]] = {}
        self._indexed = False
        try:
            self.empty = not self.fetched("SELECT count(*) FROM sqlite_schema")[0][0]
            """Whether there is no run in it yet, so that `begin` is to be called."""
            if not self.empty:
                self._log()
                self._restore()
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        """Close it, with all that was written in the one file."""
        try:
            if not self.empty:
                self._alone("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self.db.close()

    def begin(
        self, problems: Sequence[Problem], rows: Sequence[GridRow], meta: Mapping[str, bytes]
    ) -> None:
        """Make the tables, and say what the run is about: whole, or not at all. DatasetError for
        problems that could not be read back. meta: what `told` gives back, by name."""
        self._packing = Packing()
        passages: dict[str, int] = {}
        for problem in problems:
            if problem.question.passage:
                passages.setdefault(problem.question.passage, len(passages))
        bare = [replace(each, question=each.question.without_passage()) for each in problems]
        described = [
            (n, each.id, passages.get(each.question.passage), self._packing.pack(line))
            for n, (each, line) in enumerate(zip(problems, jsonl(bare), strict=True))
        ]
        with self._transaction():
            make_tables(self.db)
            self._restore()
            self.db.executemany(
                "INSERT INTO meta VALUES(?,?)",
                [(name, self._packing.pack(told)) for name, told in meta.items()],
            )
            self.db.executemany(
                "INSERT INTO passages VALUES(?,?)",
                [(n, self._packing.pack(text.encode())) for text, n in passages.items()],
            )
            self.db.executemany("INSERT INTO problems VALUES(?,?,?,?)", described)
            self.db.executemany(
                "INSERT INTO rows VALUES(?,?,?,?,?,?)",
                [
                    (*told, crc_of(*told))
                    for n, row in enumerate(rows)
                    for told in [(n, row.kind, row.agent, row.judge, bytes.fromhex(row.address))]
                ],
            )
        self.empty = False
        self._log()

    def tell(self, name: str, value: bytes) -> None:
        """Keep something about the run under a name, in place of what it was."""
        with self._transaction():
            packed = Packing().pack(value)
            self.db.execute("INSERT OR REPLACE INTO meta VALUES(?,?)", (name, packed))

    def write(self, cells: Iterable[RecordedCell]) -> None:
        """Record cells, each in place of what was known of it, in one transaction."""
        with self._transaction():
            self._forget_words()
            calls: list[tuple[Any, ...]] = []
            rows = [self._row(cell, calls) for cell in cells]
            self.db.executemany("INSERT INTO calls VALUES(?,?,?,?,?,?,?,?,?,?,?)", calls)
            self.db.executemany(
                "INSERT OR REPLACE INTO cells VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)", rows
            )
            self._train()
        if self._held > MAX_HELD:
            self._numbers, self._held = {}, 0

    def take(self, source: Path, moved: Mapping[int, tuple[int, int, int]]) -> None:
        """Record cells of another run as this run's. source: its folder. moved: by place in it,
        the place, row and problem in this run. RunFolderError."""
        if self._newest or self._shared_numbers["parts"]:
            with RunTables.open(source) as theirs:
                cells = theirs.cells(moved)
                while some := list(islice(cells, AT_ONCE)):
                    self.write([_moved(cell, *moved[cell.place]) for cell in some])
            return
        with self._lock:
            self._alone(f"ATTACH '{read_only(source / RUN_DB)}' AS source")
            try:
                with self._transaction():
                    self._forget_words()
                    self._copy(moved)
                self._restore()
            finally:
                self._alone("DETACH source")

    def _copy(self, moved: Mapping[int, tuple[int, int, int]]) -> None:
        """Copy cells of the attached run, row by row: this run has no calls yet, so that theirs
        keep their numbers."""
        columns = _CALL.replace("ours", "endpoint")
        ((changed,),) = self.db.execute(
            f"SELECT count(*) FROM source.calls WHERE crc <> crc_of({columns})"
        ).fetchall()
        if changed:
            raise RunDamaged(self.file, f"{changed} calls of the run to take over were changed")
        ends = []
        for number, *end in self.db.execute("SELECT * FROM source.endpoints").fetchall():
            end[_ORIGIN] = "taken over"
            ends.append((number, self._shared("endpoints", tuple(end))))
        for statement, rows in (
            ("CREATE TEMP TABLE ends(endpoint INTEGER PRIMARY KEY, ours INTEGER)", ()),
            ("INSERT INTO ends VALUES(?,?)", ends),
            ("CREATE TEMP TABLE moved(place INTEGER PRIMARY KEY, new, new_row, new_problem)", ()),
            ("INSERT INTO moved VALUES(?,?,?,?)", ((at, *new) for at, new in moved.items())),
            ("INSERT INTO parts SELECT * FROM source.parts", ()),
            (
                "INSERT OR REPLACE INTO meta SELECT * FROM source.meta WHERE name = 'zdict'",
                (),
            ),
            (
                f"INSERT INTO calls SELECT {_CALL}, reply, crc_of({_CALL})"
                " FROM source.calls JOIN ends USING(endpoint)",
                (),
            ),
            (
                f"INSERT INTO cells SELECT {_CELL}, row_number() OVER (ORDER BY new), {_END}, body,"
                f" crc_of({_CELL}, {_END}) FROM source.cells JOIN moved USING(place) ORDER BY new",
                (),
            ),
            ("DROP TABLE moved", ()),
            ("DROP TABLE ends", ()),
        ):
            if rows:
                self.db.executemany(statement, rows)
            else:
                self.db.execute(statement)
        ((left,),) = self.fetched("SELECT count(*) > ? FROM source.cells", len(moved))
        if left:
            self._restore()
            asked = {call for *_, body in self.bodies() for call in body.calls[1::2]}
            others = {call for (call,) in self.query("SELECT call FROM calls")} - asked
            self.db.executemany("DELETE FROM calls WHERE call=?", ((call,) for call in others))

    def forget(self, places: Iterable[int], why: str) -> None:
        """Delete cells, which are run again; how each ended stays, as an event."""
        with self._transaction():
            self._forget_words()
            for place in places:
                for status, failure in self.db.execute(
                    "SELECT status, failure FROM cells WHERE place=?", (place,)
                ):
                    # Without what was said, which may have to be taken back.
                    told = {"place": place, "status": STATUSES[status], "why": why}
                    told |= {"failure": failure}
                    self._event("again", orjson.dumps(told).decode())
                self.db.execute("DELETE FROM cells WHERE place=?", (place,))
            self._forgotten()

    def settle(self) -> None:
        """Nothing more is to be run: make the index that readers use, and empty the log."""
        if not self.setting("indexed"):
            with self._transaction():
                make_words(self.db, documents(self))
                self.db.execute("INSERT OR REPLACE INTO meta VALUES('indexed', 1)")
            self._indexed = True
            if self.file.stat().st_size < MAX_COMPACTED:
                self._alone("VACUUM")
        self._alone("PRAGMA wal_checkpoint(TRUNCATE)")

    def withdraw(self, addresses: Collection[str]) -> int:
        """Delete the replies to these calls, which a person takes back; how many cells that leaves
        without an outcome.

        What was said reads TAKEN_BACK from then on, and cells whose verdict rests on one have no
        outcome. No byte of it is left in the file: not in the index, not in the dictionary, not in
        free pages.
        """
        calls = {
            number
            for address in addresses
            for (number,) in self.fetched(
                "SELECT call FROM calls WHERE address=?", bytes.fromhex(address)
            )
        }
        if not calls:
            return 0
        with self._transaction():
            changed, gone = self._without(calls)
            self._forget_words()
            # A dictionary is made of what people wrote.
            bodies = {
                row[0]: changed.get(row[0]) or self.unpacked(row[1])
                for row in self.db.execute("SELECT place, body FROM cells")
            }
            replies = {
                row[0]: encoded_reply(Replied(TAKEN_BACK))
                if row[0] in calls
                else self.unpacked(row[1])
                for row in self.db.execute("SELECT call, reply FROM calls")
            }
            self.db.execute("DELETE FROM meta WHERE name='zdict'")
            self._packing, self._samples, self._sampled = Packing(), [], 0
            self._repack(
                [("calls", number, raw) for number, raw in replies.items()]
                + [("cells", place, raw) for place, raw in bodies.items()]
            )
            self._forgotten()
        self._restore()
        self._alone("PRAGMA secure_delete=ON")
        self._alone("PRAGMA wal_checkpoint(TRUNCATE)")
        self._alone("VACUUM")
        self.settle()
        return gone

    def _without(self, calls: set[int]) -> tuple[dict[int, bytes], int]:
        """Mark the cells that rest on a reply; (what is left of every cell that has one, by place;
        how many were marked)."""
        changed, marked = {}, 0
        for place, status, packed in self.db.execute(
            "SELECT place, status, body FROM cells"
        ).fetchall():
            body = read_body(self.unpacked(packed))
            if not _names(body, calls):
                continue
            changed[place] = without(body, calls, TAKEN_BACK)
            rests = any(each.call in calls for each in body.judgements)
            if rests or status == 1:
                marked += 1
                self.db.execute(
                    "UPDATE cells SET status=?1, probs=NULL, failure=NULL, more='withdrawn', crc="
                    "crc_of(place, id, row, problem, side, draw, ?1, NULL, NULL, 'withdrawn')"
                    " WHERE place=?2",
                    (WITHDRAWN, place),
                )
        return changed, marked

    def _row(self, cell: RecordedCell, calls: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        """The row of a cell; those of its calls that are new are added to `calls`."""
        numbers = {each.address: self._number(each, calls) for each in cell.calls}
        parts = [self._shared("parts", (each.role, each.seat, each.heard)) for each in cell.calls]
        self._landed += 1
        question = self.problems[cell.problem].question
        status, probs, failure, more = figures_of(cell)
        body = self._packed("cells", cell.place, body_of(cell, question, parts, numbers))
        where = (cell.place, bytes.fromhex(cell.id), cell.row, cell.problem, cell.side, cell.draw)
        crc = crc_of(*where, status, probs, failure, more)
        return (*where, status, self._landed, probs, failure, more, body, crc)

    def _number(self, call: RecordedCall, calls: list[tuple[Any, ...]]) -> tuple[int, str]:
        """The number of a call, and its reply's text. A reply that differs from the one that is
        known under the same address is another row."""
        said, cost = replied(call), call.cost
        known = self._numbers.get(call.address)
        if known is None:
            known = self._numbers[call.address] = [
                (number, identity, self.reply(packed))
                for number, identity, packed in self.db.execute(
                    "SELECT call, identity, reply FROM calls JOIN endpoints USING(endpoint)"
                    " WHERE address=?",
                    (bytes.fromhex(call.address),),
                )
            ]
        for number, identity, other in known:
            if other == said and identity == cost.identity:
                return number, said.text
        self._newest += 1
        known.append((self._newest, cost.identity, said))
        self._held += len(said.text) + len(said.reasoning)
        served = (
            *(call.model, cost.identity, cost.served, cost.stop_reason, cost.origin, cost.came),
            *(int(cost.elsewhere), call.settings),
        )
        columns = (
            self._newest,
            bytes.fromhex(call.address),
            self._shared("endpoints", served),
            *(cost.input_tokens, cost.output_tokens),
            *(cost.cache_read_tokens, cost.cache_write_tokens, cost.dollars, cost.at),
        )
        reply = self._packed("calls", self._newest, encoded_reply(said))
        calls.append((*columns, reply, crc_of(*columns)))
        return self._newest, said.text

    def _shared(self, table: str, values: tuple[Any, ...]) -> int:
        """The number of a part or an endpoint, which is given with its first use."""
        known = self._shared_numbers[table]
        number = known.get(values)
        if number is None:
            number = known[values] = len(known) + 1
            marks = ",".join("?" * len(values))
            self.db.execute(f"INSERT INTO {table} VALUES(?,{marks})", (number, *values))
        return number

    def _packed(self, table: str, key: int, raw: bytes) -> bytes:
        if not self._packing.trained:
            self._samples.append((table, key, raw))
            self._sampled += len(raw)
        return self._packing.pack(raw)

    def _train(self) -> None:
        """Train a dictionary once there is enough to do so, and pack all of it again."""
        if self._packing.trained or self._sampled < TRAINED_ON:
            return
        samples, self._samples, self._sampled = self._samples, [], 0
        dictionary = trained([raw for _, _, raw in samples])
        if dictionary is not None:
            self.db.execute("INSERT OR REPLACE INTO meta VALUES('zdict', ?)", (dictionary,))
            self._packing = Packing(dictionary)
            self._repack(samples)

    def _repack(self, values: Iterable[tuple[str, int, bytes]]) -> None:
        pack = self._packing.pack
        for table, key, raw in values:
            # Two statements: each is compiled once.
            sql = (
                "UPDATE calls SET reply=? WHERE call=?"
                if table == "calls"
                else "UPDATE cells SET body=? WHERE place=?"
            )
            self.db.execute(sql, (pack(raw), key))

    def _event(self, kind: str, body: str) -> None:
        self.db.execute("INSERT INTO events VALUES(NULL,?,?)", (kind, body))

    def _forgotten(self) -> None:
        """Have those who follow the run begin again."""
        self.db.execute(
            "INSERT INTO meta VALUES('forgotten', 1)"
            " ON CONFLICT(name) DO UPDATE SET value = value + 1"
        )

    def _forget_words(self) -> None:
        """What is written now is in no index."""
        if self._indexed:
            drop_words(self.db)
            self.db.execute("DELETE FROM meta WHERE name='indexed'")
            self._indexed = False

    def _alone(self, statement: str) -> None:
        """Execute what must be outside of a transaction."""
        with self._lock:
            try:
                self.db.execute(statement)
            except sqlite3.Error as exc:
                raise faulty(self.file, exc) from exc

    def _log(self) -> None:
        try:
            use_log(self.db, self.file)
        except sqlite3.Error as exc:
            raise faulty(self.file, exc) from exc

    def _restore(self) -> None:
        """Begin from what is in the file: nothing is remembered as written that is not there."""
        self._known = {}
        for name in ("_packing", "_parts"):
            self.__dict__.pop(name, None)
        self._numbers, self._held = {}, 0
        self._newest = self.fetched("SELECT coalesce(max(call), 0) FROM calls")[0][0]
        self._landed = self.fetched("SELECT coalesce(max(landed), 0) FROM cells")[0][0]
        self._indexed = bool(self.setting("indexed"))
        self._shared_numbers = {
            table: {
                tuple(values): number for number, *values in self.query(f"SELECT * FROM {table}")
            }
            for table in ("parts", "endpoints")
        }
        self._samples, self._sampled = [], 0
        if not self._packing.trained:
            for table, key, column in (("calls", "call", "reply"), ("cells", "place", "body")):
                for number, packed in self.query(f"SELECT {key}, {column} FROM {table}"):
                    if self._sampled >= TRAINED_ON:
                        return
                    self._samples.append((table, number, self.unpacked(packed)))
                    self._sampled += len(self._samples[-1][2])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                self.db.execute("BEGIN IMMEDIATE")
                yield
                self.db.execute("COMMIT")
            except BaseException as exc:
                if self.db.in_transaction:
                    self.db.execute("ROLLBACK")
                if not self.empty:
                    self._restore()
                if isinstance(exc, sqlite3.Error):
                    raise faulty(self.file, exc) from exc
                raise


def _moved(cell: RecordedCell, place: int, row: int, problem: int) -> RecordedCell:
    changed = msgspec.structs.replace
    calls = tuple(
        changed(call, cost=changed(call.cost, origin="taken over")) for call in cell.calls
    )
    return changed(cell, place=place, row=row, problem=problem, calls=calls)


_CALL = "call, address, ours, tokens_in, tokens_out, cache_read, cache_write, dollars, at"
_CELL, _END = "new, id, new_row, new_problem, side, draw, status", "probs, failure, more"
_ORIGIN = 4
"""Where the origin stands among the values of an endpoint."""


def _names(body: Body, calls: set[int]) -> bool:
    return not calls.isdisjoint(body.calls[1::2]) or any(
        each.call in calls for said in (body.turns, body.judgements) for each in said
    )
