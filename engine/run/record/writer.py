"""The one writer of a record: whole cells in one transaction, each text, call and turn once."""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ....cache.address import value_address
from ....protocols.question import Problem
from ...sweep.grid import GridRow
from .capture import CapturedCell
from .numbering import Numbering, Values
from .schema import INDEXES, faulty, open_to_write
from .tables import RecordTables
from .texts import FIRST_DICTIONARY, TRAINED_ON, Packer, train
from .values import RecordedCell
from .withdrawal import withdraw
from .words import drop_words, index_words

MAX_COMPACTED = 256 << 20
"""Bytes; a larger record is not rewritten for the 6 % that it would save."""


class RecordWriter:
    """Writes a record. What it was given is in the file once `write` returns: kill -9 loses none.

    One thread at a time may use it. RunFolderError for a file that cannot be written or is no
    record of ours; what a failed `write` was given is not in the file, and may be given again.
    """

    def __init__(
        self,
        file: Path,
        problems: Sequence[Problem],
        rows: Sequence[GridRow],
        meta: Mapping[str, str | int | float] = {},
    ) -> None:
        """Open the record of a run, or make it; what it is about is recorded where it is not yet.

        meta: more about the run, by name.
        """
        self.file = file
        self._answers = [each.question.answers for each in problems]
        self._packer = Packer()
        self._samples: list[tuple[int, bytes]] = []
        """Texts that a dictionary is to be trained on, with their numbers."""
        self._sampled = 0
        self._columns: dict[str, list[str]] = {}
        """Names of the columns of each table that has been written."""
        self._db = open_to_write(file)
        try:
            self._restore()
            with self._transaction():
                self._describe(problems, rows, meta)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    @property
    def tables(self) -> RecordTables:
        """What is in the file, to be read in the writer's thread."""
        return RecordTables(self._db, self.file)

    def write(self, cells: Iterable[RecordedCell | CapturedCell]) -> None:
        """Record cells, each in place of what was known of it, in one transaction."""
        numbering = self._numbering
        with self._transaction():
            for cell in cells:
                if isinstance(cell, CapturedCell):
                    cell = cell.recorded(numbering.calls_of(cell.problem))
                numbering.add(cell)
            self._insert()

    def forget(self, places: Iterable[int]) -> None:
        """Delete cells, so that they are run again. What they asked stays."""
        with self._transaction():
            self._db.executemany("DELETE FROM cells WHERE place=?", ((each,) for each in places))

    def settle(self) -> None:
        """Nothing more is to be run: make the indexes that readers use, and empty the log."""
        with self._transaction():
            for statement in INDEXES:
                self._db.execute(statement)
            new = index_words(self._db, self.tables)
        if new and self.file.stat().st_size < MAX_COMPACTED:
            self._alone("VACUUM")
        self._alone("PRAGMA wal_checkpoint(TRUNCATE)")

    def withdraw(self, addresses: Collection[str]) -> frozenset[int]:
        """Delete the replies to these calls, which a person takes back; the places of all cells
        that such a deletion left without an outcome.

        What was said reads WITHDRAWN from then on, and a judgement says so; cells that rest on one
        have no outcome here any more. No byte of it is left in the file: not in the index, not in
        the dictionary, not in free pages.
        """
        with self._transaction():
            if not withdraw(self._db, addresses):
                return self._withdrawn()
            drop_words(self._db)
            # Dictionaries are made of what people wrote.
            kept = list(RecordTables(self._db, self.file).texts())
            self._db.execute("DELETE FROM dictionaries")
            self._samples, self._sampled, self._packer = [], 0, Packer()
            self._db.executemany(
                "UPDATE texts SET body=? WHERE text=?",
                ((self._packer.pack(text), number) for number, text in kept),
            )
            self._sample(kept)
        self._restore()
        self._alone("PRAGMA secure_delete=ON")
        self._alone("PRAGMA wal_checkpoint(TRUNCATE)")
        self._alone("VACUUM")
        self.settle()
        return self._withdrawn()

    def _withdrawn(self) -> frozenset[int]:
        query = "SELECT place FROM cells WHERE status=2 AND cause='withdrawn'"
        return frozenset(place for (place,) in self._db.execute(query))

    def _alone(self, statement: str) -> None:
        """Execute what must be outside of a transaction."""
        try:
            self._db.execute(statement)
        except sqlite3.Error as exc:
            raise faulty(self.file, exc) from exc

    def _describe(
        self,
        problems: Sequence[Problem],
        rows: Sequence[GridRow],
        meta: Mapping[str, str | int | float],
    ) -> None:
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES(?,?)", meta.items())
        known = self._db.execute("SELECT count(*) FROM problems").fetchone()[0]
        passages: dict[str, int] = {}
        described: list[Values] = []
        for number, each in enumerate(problems[known:], known):
            question = each.question
            if question.passage and question.passage not in passages:
                passages[question.passage] = self._numbering.new_text(question.passage)
            bare = replace(each, question=question.without_passage())
            body = self._numbering.new_text(msgspec.json.encode(bare).decode())
            passage = passages.get(question.passage)
            digest = bytes.fromhex(value_address(each))
            described.append((number, each.id, digest, body, passage))
        self._numbering.rows["problems"] = described
        # Further columns of a row are for experiments that were made elsewhere.
        self._numbering.rows["rows"] = [
            (number, row.kind, row.agent, row.judge, None, bytes.fromhex(row.address), *[None] * 7)
            for number, row in enumerate(rows)
        ]
        self._insert()

    def _insert(self) -> None:
        """Write the collected rows."""
        numbering = self._numbering
        self._db.executemany(
            "INSERT INTO texts VALUES(?,?)",
            [(number, self._packer.pack(text)) for number, text in numbering.texts],
        )
        for table, rows in numbering.rows.items():
            if rows:
                self._fill(table, rows)
        if not self._packer.trained:
            self._sample(numbering.texts)
        numbering.taken()

    def _fill(self, table: str, rows: Sequence[Values]) -> None:
        """Insert rows. Columns that none of them fills are left out: Python takes four times as
        long to bind a NULL as to bind a number."""
        names = self._columns.get(table)
        if names is None:
            described = self._db.execute(f"PRAGMA table_info({table})")
            names = self._columns[table] = [name for _, name, *_ in described]
        columns = [
            (name, values)
            for name, values in zip(names, zip(*rows, strict=True), strict=True)
            if values[0] is not None or values.count(None) < len(values)
        ]
        told, places = ",".join(name for name, _ in columns), ",".join("?" * len(columns))
        self._db.executemany(
            f"INSERT OR REPLACE INTO {table}({told}) VALUES({places})",
            zip(*(values for _, values in columns), strict=True),
        )

    def _sample(self, texts: Iterable[tuple[int, str]]) -> None:
        """Train a dictionary once there is enough text, and pack all of it again."""
        for number, text in texts:
            self._samples.append((number, text.encode()))
            self._sampled += len(text)
        if self._sampled < TRAINED_ON:
            return
        dictionary = train([text for _, text in self._samples])
        samples, self._samples, self._sampled = self._samples, [], 0
        if dictionary is None:
            return
        self._db.execute("INSERT INTO dictionaries VALUES(?,?)", (FIRST_DICTIONARY, dictionary))
        self._packer.use(dictionary, FIRST_DICTIONARY)
        self._db.executemany(
            "UPDATE texts SET body=? WHERE text=?",
            [(self._packer.pack(text.decode()), number) for number, text in samples],
        )

    def _restore(self) -> None:
        """Begin from what is in the file."""
        tables = self.tables
        try:
            self._numbering = Numbering(self._db, tables.text, self._answers)
            newest = self._db.execute(
                "SELECT * FROM dictionaries ORDER BY dictionary DESC LIMIT 1"
            ).fetchone()
            self._samples, self._sampled, self._packer = [], 0, Packer()
            if newest is None:
                for number, text in tables.texts():
                    self._samples.append((number, text.encode()))
                    self._sampled += len(text)
            else:
                self._packer.use(newest[1], newest[0])
        except sqlite3.Error as exc:
            raise faulty(self.file, exc) from exc

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as exc:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            # What was numbered for this transaction is not there.
            self._restore()
            if isinstance(exc, sqlite3.Error):
                raise faulty(self.file, exc) from exc
            raise
