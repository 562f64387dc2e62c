"""A run's database holds whole cells, each reply once; a damaged one is refused by name."""

import os
import re
import resource
import shutil
import sqlite3
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from oversight.cache.reply import ToolCall
from oversight.engine.errors import DiskFull, RunFolderError
from oversight.engine.run.events import read_events
from oversight.engine.run.lookup import Query, search
from oversight.engine.run.outcome import Outcomes
from oversight.engine.run.record.database import AGAIN, TAKEN_BACK, CellRunAgain, RunDatabase
from oversight.engine.run.record.schema import CHILDREN, RUN_DB, TABLES, sealed
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.record.values import (
    CallCost,
    LeftOut,
    RecordedCall,
    RecordedCell,
    RecordedJudgement,
)
from oversight.engine.sweep.grid import Grid, GridRow, read_grid, stored_grid
from oversight.protocols.doubts import UnreadReply
from oversight.protocols.question import Answer
from oversight.protocols.transcript import (
    Failure,
    Judgement,
    Quote,
    ToolUse,
    Transcript,
    Turn,
    Verdict,
)
from tests.run_folders import everything
from tests.world import shipments

PROBLEMS = shipments(3)
ROWS = [
    GridRow("debate simultaneous 2 rounds", "a/strong", "a/weak stated", "debate", {"rounds": 2}),
    GridRow("naive judge", "", "a/weak stated", "naive judge", {}),
]
GRID = Grid("s", tuple(PROBLEMS), tuple(ROWS))


def address(n: int) -> str:
    return f"{n:064x}"


def spoken(place: int, words: str = "so it is") -> RecordedCell:
    """A cell in which everything occurs that a cell can hold."""
    question = PROBLEMS[place // 4 % 3].question
    a, b = question.answers[:2]
    n = place // 2 * 10
    calls = (
        RecordedCall(
            address(n), "a/strong", "speech", "Debater A", 0, (0, 2), f"{words} {n}" * 9,
            tool_calls=(ToolCall("t1", "calculator", '{"expression": "1+1"}'),),
            cost=CallCost("a/v1", "strong-1", "end", 900, 80, 10, 5, 0.0125, "new", 1_800_000_000),
        ),
        RecordedCall(address(n + 1), "a/strong", "draft", "Debater B", 0, (1,), "", "refused"),
        RecordedCall(address(n + 2), "a/weak", "rating", "Judge", 1, (), "0.7"),
        RecordedCall(address(n + 3), "a/weak", "judgement", "Judge", 2, (), f"I say {words}"),
    )  # fmt: skip
    turns = (
        Turn(
            "Debater A", calls[0].text, a, calls[0].address, (ToolUse("calculator", "1+1", "2"),),
            forged=2, cut=True, quotes=(Quote("a quote", True), Quote("none", False)),
            check="off side", retries=1, reasoning="let me see", aloud=True, at_once=True,
        ),
        Turn("Debater B", "", b, calls[1].address, outcome="refused", at_once=True),
        Turn("Ghost", "I concede", Answer("Z", "no answer of it"), "", conceded=True),
    )  # fmt: skip
    verdict = Verdict(
        (0.7, 0.3), Transcript(question, turns),
        (Judgement((0.7, 0.3), calls[3].address, calls[3].text, 0.75), Judgement((0.7, 0.3))),
        (("splits", 2), ("label", 0.5), ("free", "A"), ("sound", True)), ((0.6, 0.4), (0.8, 0.2)),
        ((0.5, 0.9), (0.1, 0.5)), (UnreadReply("Judge", "no statement", calls[2].address),),
    )  # fmt: skip
    beliefs = (
        RecordedJudgement(
            "rating", "a/weak stated", 1, (0.7, 0.3), calls[1].address, a.label, "it holds",
            0.5, "0.7", (calls[2].address,),
        ),
        RecordedJudgement("rating", "a/weak stated", 1, (), error="there is no number"),
    )  # fmt: skip
    return RecordedCell(
        place, f"{place:016x}", 0, place // 4 % 3, place % 2, 0, verdict, calls, beliefs,
        {"refused": 1}, {"Judge: no statement": 1},
    )  # fmt: skip


def failed(place: int) -> RecordedCell:
    fault = Failure("unreadable", "no JSON", "hm", address(7), "Judge")
    return replace(spoken(place), outcome=fault, counts={}, unread={})


def left_out(place: int) -> RecordedCell:
    return RecordedCell(
        place, f"{place:016x}", 0, place // 4 % 3, place % 2, 0, LeftOut("decided already")
    )


def opened(folder: Path, rows: Sequence[GridRow] = ROWS) -> RunDatabase:
    database = RunDatabase(folder)
    if database.empty:
        database.begin(PROBLEMS, rows, {"name": b'"s"', "grid": stored_grid(GRID)})
    return database


def written(folder: Path, *batches: Sequence[RecordedCell]) -> None:
    with closing(opened(folder)) as database:
        for cells in batches:
            database.write(cells)


def read(folder: Path) -> list[RecordedCell]:
    with RunTables.open(folder) as tables:
        return list(tables.cells())


def test_a_run_is_read_back_as_it_was_written(tmp_path):
    cells = [spoken(0), failed(1), left_out(4), spoken(5)]
    written(tmp_path, cells[2:], cells[:2])
    assert read(tmp_path) == cells
    with RunTables.open(tmp_path) as tables:
        assert tables.problems == tuple(PROBLEMS)
        assert read_grid(tables.grid(), tables.problems) == GRID and tables.told("name") == b'"s"'
        statuses = [(0, "verdict"), (1, "failed"), (4, "not run"), (5, "verdict")]
        assert sorted(tables.statuses()) == statuses and tables.count() == (4, 1)
        assert [cell.place for cell in tables.cells([5, 3, 0])] == [0, 5]


def test_shared_calls_are_recorded_once_also_after_a_resume(tmp_path):
    rows = []
    for place in (0, 1):
        written(tmp_path, [spoken(place)])
        with RunTables.open(tmp_path) as run:
            rows.append([run.table(name) for name in ("calls", "endpoints")])
    assert rows[0] == rows[1] and read(tmp_path) == [spoken(0), spoken(1)]


def test_another_reply_under_the_same_address_never_takes_the_place_of_the_first(tmp_path):
    """Whether an address collides, or a call was asked again with --cache refresh."""
    first = spoken(0, "first")
    second = replace(spoken(1, "second"), calls=spoken(0, "second").calls)
    assert [a.address for a in first.calls] == [b.address for b in second.calls]
    for cells in ([[first, second]], [[first], [second]]):
        folder = tmp_path / str(len(cells))
        folder.mkdir()
        for group in cells:
            written(folder, group)
        assert read(folder) == [first, second]
    # So does a reply with the same words and another stop reason or count of tokens.
    for n, more in enumerate(({"stop_reason": "cut"}, {"output_tokens": 81}, {"served": "x"}), 2):
        again = first.calls[0]
        again = replace(again, cost=replace(again.cost, **more))
        third = replace(first, place=2 * n, id=f"{n:016x}", calls=(again, *first.calls[1:]))
        written(tmp_path / "2", [third])
        assert read(tmp_path / "2")[-1] == third
    # An address that differs in its last digit alone is another call.
    other = address(0)[:-1] + "f"
    calls = (replace(first.calls[0], address=other, text="else"), *first.calls[1:])
    written(tmp_path / "2", [replace(spoken(9), outcome=LeftOut("x"), calls=calls, judgements=())])
    with RunTables.open(tmp_path / "2") as tables:
        (last,) = tables.cells([9])
        assert last.calls[0].text == "else" and last.calls[0].address == other


def test_new_rows_never_overwrite_earlier_ones(tmp_path):
    """Numbers may have gaps: the next one follows the largest."""
    written(tmp_path, [spoken(0)])
    endpoint = (9, "m", "m/1", "", "{}", "", 0)
    with closing(opened(tmp_path)) as database:
        database.db.execute(f"INSERT INTO endpoints VALUES({'?,' * 7}?)", *sealed([endpoint]))
    new = RecordedCall(address(99), "b/other", "speech", "Debater C", cost=CallCost("b/v1", "b-1"))
    cells = [spoken(0), replace(failed(9), calls=(new,), judgements=())]
    written(tmp_path, cells[1:])
    assert read(tmp_path) == cells
    with RunTables.open(tmp_path) as tables:
        assert endpoint in tables.table("endpoints")
    # A cell that is recorded already is refused, with all that came with it.
    with pytest.raises(RunFolderError, match=r"cells\.place"):
        written(tmp_path, [spoken(4), left_out(9)])
    assert read(tmp_path) == cells


def test_a_cell_that_is_run_again_keeps_its_history(tmp_path):
    written(tmp_path, [failed(1)])
    with closing(opened(tmp_path)) as database:
        database.forget([1], "run again")
        database.write([spoken(1)])
        assert read(tmp_path) == [spoken(1)]
    (event,) = read_events(tmp_path, AGAIN, msgspec.json.Decoder(CellRunAgain))
    # Without its texts: a person may withdraw them.
    assert event == CellRunAgain(1, "failed", "run again", "unreadable")


WORDS = "The shipment weighed less than the ledger says, since two crates were left behind. "


def test_a_write_that_fails_at_any_statement_leaves_nothing(tmp_path):
    with closing(opened(tmp_path)) as writer:
        writer.write([spoken(0)])
        actions, at = list[str](), 0

        def allowed(action: int, *about: object) -> int:
            actions.append(str(about[0]))
            return sqlite3.SQLITE_DENY if len(actions) == at else sqlite3.SQLITE_OK

        while True:
            at += 1
            actions.clear()
            writer.db.set_authorizer(allowed)
            try:
                writer.write([spoken(4, "more"), spoken(8, "of it")])
            except RunFolderError:
                writer.db.set_authorizer(None)
                assert read(tmp_path) == [spoken(0)], at
            else:
                writer.db.set_authorizer(None)
                break
    assert at > 5 and read(tmp_path) == [spoken(0), spoken(4, "more"), spoken(8, "of it")]


def changed(file: Path, statement: str) -> int:
    """Behind the back of the program, without a checksum; how many rows."""
    with closing(sqlite3.connect(file)) as db, db:
        return db.execute(statement).rowcount


def torn(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * 4096 * 7 + content[4096 * 8 :])


@pytest.mark.parametrize(("spoil", "reason"), [
    (lambda file: changed(file, "PRAGMA user_version=99"), "is of format 99"),
    (lambda file: changed(file, "PRAGMA application_id=99"), "is not the database of a run"),
    (lambda file: file.write_bytes(b"PK\3\4" * 40), "is not the database of a run"),
    (lambda file: os.truncate(file, 5 * 4096 + 1), "is damaged"), (torn, "is damaged"),
])  # fmt: skip
def test_damaged_run_is_refused_by_name(tmp_path, spoil, reason):
    file = tmp_path / RUN_DB
    written(tmp_path, [spoken(place) for place in range(12)])
    spoil(file)
    before = file.read_bytes()
    for use in (lambda: read(tmp_path), lambda: written(tmp_path, [spoken(0)])):
        with pytest.raises(RunFolderError) as fault:
            use()
        assert str(file) in str(fault.value) and reason in str(fault.value)
        assert f"oversight cache rebuild {tmp_path}" in str(fault.value)
        assert "\n" not in str(fault.value)
    assert file.read_bytes() == before


@pytest.mark.wire
def test_a_flipped_byte_gives_no_other_cell_and_is_reported(tmp_path):
    """Wherever it falls: the reader gets the written cells, or the file is named."""
    cells = [spoken(place) for place in range(0, 40, 2)]
    written(tmp_path, cells)
    file = tmp_path / RUN_DB
    content, refusals = file.read_bytes(), 0
    for at in range(100, len(content), 211):
        file.write_bytes(content[:at] + bytes((content[at] ^ 0xFF,)) + content[at + 1 :])
        try:
            readable = read(tmp_path)
        except RunFolderError as fault:
            assert str(file) in str(fault)
            refusals += 1
        else:
            assert readable == cells
    assert refusals > 50


def columns() -> list[tuple[str, str, bool]]:
    """(table, column, whether to change its type and make the checksum again), of every table."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(";".join(TABLES))
        tables = [one for (one,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table'")]
        described = [(table, about) for table in tables for about in db.execute(
            f"PRAGMA table_info({table})",
        )]  # fmt: skip
    changed = [(table, name, False) for table, (_, name, *_) in described]
    # SQLite keeps the numbers of rows numbers, and an address may be any bytes.
    return changed + [
        (table, name, True)
        for table, (n, name, kind, *_) in described
        if n and kind != "BLOB" and name != "crc"
    ]


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Path:
    """A run with rows in every table."""
    folder = tmp_path_factory.mktemp("full")
    problems = [
        replace(problem, question=replace(problem.question, passage="The log of the harbour."))
        for problem in PROBLEMS
    ]
    with closing(RunDatabase(folder)) as database:
        database.begin(problems, ROWS, {"name": b"1", "grid": stored_grid(GRID)})
        database.write([spoken(0), failed(1), spoken(5)])
    return folder


def read_all(folder: Path) -> None:
    with RunTables.open(folder) as tables:
        deque(tables.cells(), 0)
        deque(Outcomes(tables).all(), 0)
        deque(tables.every_call(), 0)
        assert tables.told("name") and read_grid(tables.grid(), tables.problems)


def alter(file: Path, table: str, column: str, sealed_again: bool) -> None:
    """Change a column of the first row of a table."""
    with closing(sqlite3.connect(file)) as db, db:
        cursor = db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
        names, row = [about[0] for about in cursor.description], cursor.fetchone()
        keys = names[: 1 + (table in CHILDREN)]
        value = row[at := names.index(column)]
        # Beyond all other keys, so that none clashes.
        other = value + 99 if isinstance(value, int | float) else value * 2 if value else "x"
        new = (*row[:at], b"x" if sealed_again else other, *row[at + 1 :])
        db.execute(
            f"DELETE FROM {table} WHERE {' AND '.join(f'{key}=?' for key in keys)}",
            row[: len(keys)],
        )
        if sealed_again:
            (new,) = sealed([new[:-1]])
        db.execute(f"INSERT INTO {table} VALUES({','.join('?' * len(new))})", new)


@pytest.mark.parametrize(("table", "column", "sealed_again"), columns())
def test_changed_column_of_any_table_is_named(tmp_path, full, table, column, sealed_again):
    """A stranger who hands on a run can make the checksums again."""
    shutil.copy(full / RUN_DB, tmp_path)
    alter(tmp_path / RUN_DB, table, column, sealed_again)
    with pytest.raises(RunFolderError, match=r"run\.db is damaged"):
        read_all(tmp_path)
    if table == "cells" and not sealed_again:
        # A changed status hides no cell.
        with RunTables.open(tmp_path) as tables:
            outcomes = Outcomes(tables)
            for look in (
                *(outcomes.all, lambda: outcomes.since(0), tables.statuses),
                *(lambda: tables.ended(None), lambda: iter(tables.count())),
            ):
                with pytest.raises(RunFolderError, match=r"the row of \d+ was changed"):
                    deque(look(), 0)


@pytest.mark.parametrize(
    ("table", "key"),
    [("asked", "n"), ("turns", "turn"), ("judgements", "n"), ("calls", "call"),
     ("endpoints", "endpoint"), ("passages", "passage + 1")],
)  # fmt: skip
@pytest.mark.parametrize("which", ["1", "max"])
def test_lost_row_of_any_table_is_named(tmp_path, full, table, key, which):
    shutil.copy(full / RUN_DB, tmp_path)
    row = which if which == "1" else f"(SELECT max({key}) FROM {table})"
    with RunTables.open(tmp_path) as tables:
        calls = [(place, number) for place, _, number, *_ in tables.table("asked")]
        assert {(line[0], line[2]) for line in tables.asked_rows(calls)} == set(calls)
    assert changed(tmp_path / RUN_DB, f"DELETE FROM {table} WHERE {key} = {row}")
    with pytest.raises(RunFolderError, match=r"run\.db is damaged"):
        read_all(tmp_path)
    if table == "asked":
        with RunTables.open(tmp_path) as tables, pytest.raises(RunFolderError, match="lost rows"):
            deque(tables.asked_rows(calls), 0)


@pytest.mark.wire
@pytest.mark.parametrize("may_write", [True, False])
def test_reader_of_settled_run_goes_on_while_it_is_written_again(tmp_path, monkeypatch, may_write):
    monkeypatch.setattr(os, "access", lambda path, mode: may_write)
    cells = [spoken(place, f"{WORDS} {place}") for place in range(0, 1200, 2)]
    written(tmp_path, cells)
    with RunTables.open(tmp_path) as tables:
        reading = tables.cells()
        first = [next(reading) for _ in range(300)]
        with closing(opened(tmp_path)) as writer:
            # All pages of the file are written again.
            writer.withdraw({spoken(0).calls[3].address})
        assert first + list(reading) == cells[:512] + read(tmp_path)[512:]


def test_only_a_writer_undoes_a_write_that_was_cut_off_and_a_reader_names_the_journal(tmp_path):
    written(tmp_path, [spoken(place, f"{WORDS} {place}") for place in range(0, 400, 2)])
    file, torn = tmp_path / RUN_DB, tmp_path / "torn"
    torn.mkdir()
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        # So small a memory that pages are overwritten before the commit.
        writer.executescript("PRAGMA cache_size=1; BEGIN; UPDATE cells SET problem = 77")
        for ending in ("", "-journal"):
            (torn / f"{RUN_DB}{ending}").write_bytes(Path(f"{file}{ending}").read_bytes())
        writer.execute("ROLLBACK")
    assert (torn / RUN_DB).read_bytes() != file.read_bytes()
    by_name = {path.name: path.read_bytes() for path in torn.iterdir()}
    with pytest.raises(RunFolderError, match=r"run\.db-journal undoes a write that was cut off"):
        RunTables.open(torn)
    assert by_name == {path.name: path.read_bytes() for path in torn.iterdir()}
    RunDatabase(torn).close()
    with RunTables.open(torn) as after, RunTables.open(tmp_path) as before:
        assert after.fetched("SELECT * FROM cells") == before.fetched("SELECT * FROM cells")


def test_a_log_that_no_process_writes_is_read_from_a_private_copy(tmp_path):
    copy = tmp_path / "there"
    copy.mkdir()
    written(tmp_path, [spoken(0)])
    with closing(opened(tmp_path)) as writer:
        writer.write([spoken(4)])
        for ending in ("", "-wal"):
            shutil.copy(f"{tmp_path / RUN_DB}{ending}", copy)
        assert read(tmp_path) == [spoken(0), spoken(4)], "its writer has it open"
    before = everything(copy)
    assert read(copy) == [spoken(0), spoken(4)] and everything(copy) == before
    (copy / f"{RUN_DB}-journal").write_bytes(b"\0" * 600)
    with pytest.raises(RunFolderError, match="has a journal and a log"):
        read(copy)


def test_threads_may_read_one_run_side_by_side(tmp_path):
    cells = [spoken(place, f"{WORDS} {place}") for place in range(0, 200, 2)]
    written(tmp_path, cells)
    with RunTables.open(tmp_path) as tables, ThreadPoolExecutor(8) as threads:
        for loaded in threads.map(lambda n: list(tables.cells()), range(24)):
            assert loaded == cells


def test_first_fault_is_raised_where_undoing_fails_as_well(tmp_path):
    with closing(opened(tmp_path)) as writer:
        writer.write([spoken(0)])

        def allowed(action: int, operation: str | None, *about: object) -> int:
            undoing = action == sqlite3.SQLITE_TRANSACTION and operation == "ROLLBACK"
            return sqlite3.SQLITE_DENY if undoing else sqlite3.SQLITE_OK

        writer.db.set_authorizer(allowed)
        with pytest.raises(ValueError, match="surrogates") as fault:
            writer.write([replace(spoken(4), id="\ud800")])
        assert "could not be undone" in fault.value.__notes__[0]
        writer.db.set_authorizer(None)
        writer.db.execute("ROLLBACK")
        writer.write([spoken(4)])
    assert read(tmp_path) == [spoken(0), spoken(4)]


def test_words_phrases_and_beginnings_are_found(tmp_path):
    texts = ["Crates of blue-green oranges", "oranges, of crates", "it's NAÏVE oranges"]

    def found(words: str) -> list[int]:
        with RunTables.open(tmp_path) as tables:
            hits = search(tables, Query.read(words), [0])
            return sorted({hit.place for hit in hits if hit.turn is not None})

    with closing(opened(tmp_path)) as writer:
        # The first two cells share a speech, which is found in the first.
        writer.write([spoken(1, texts[0]), *(spoken(n * 2, text) for n, text in enumerate(texts))])
    assert found("oranges") == [0, 2, 4] and found("of crates") == [0, 2]
    assert found('"of crates"') == [2] and found('blue-green "crates of"') == [0]
    assert found('"blue gr*" cra*') == [0]
    assert found("green-blue") == found("zanzibar") == found("oranges zanzibar") == []
    assert found("it's naive") == [4]


def test_withdrawn_words_are_nowhere_in_the_file(tmp_path):
    words = "xylophone quagmire bluebottle"
    cells = [spoken(place, f"{words} {place}") for place in range(0, 600, 2)]
    judged = cells[7].outcome
    secret = f"my own zanzibar story {'and more of it ' * 9}"
    part = replace(judged.judgements[0], text=secret, probs=(0.65625, 0.34375))
    theirs = [replace(call, model="person/ann", text=secret) for call in cells[7].calls]
    spoke, plain, *others = judged.transcript.turns
    plain = Turn(plain.speaker, secret, plain.side, plain.call)
    spoke = replace(spoke, text=secret, side=others[0].side, reasoning=secret)
    heard = replace(judged.transcript, turns=(spoke, plain, *others))
    judged = replace(judged, transcript=heard, judgements=(part,))
    cells[7] = replace(cells[7], calls=tuple(theirs), outcome=judged)
    unread = Failure("unreadable", "no number", secret, part.call, "Judge")
    cells[8] = replace(cells[7], place=16, id=f"{16:016x}", outcome=unread)
    with closing(opened(tmp_path)) as writer:
        writer.write(cells)
        addresses = {call.address for call in cells[7].calls if "person" in call.model}
        assert len(addresses) == 4 and writer.withdraw(addresses) == writer.withdraw(addresses) == 2
    with RunTables.open(tmp_path) as tables:
        assert b"zanzibar" not in tables.file.read_bytes() and tables.count() == (len(cells) - 2, 0)
        assert b"0.65625" not in tables.file.read_bytes()
        after = list(tables.cells())
    for cell in after[7:9]:
        assert cell.outcome == LeftOut("withdrawn")
        assert {call.text for call in cell.calls if "person" in call.model} == {TAKEN_BACK}
    assert after[:7] + after[9:] == cells[:7] + cells[9:]
    with closing(sqlite3.connect(tmp_path / RUN_DB)) as db:
        kept = db.execute("SELECT text, more FROM turns WHERE place = 14 AND turn < 2").fetchall()
    side = '{"answer":{"label":"Z","text":"no answer of it","work":""}}'
    assert kept == [(TAKEN_BACK, side), (TAKEN_BACK, None)]


def test_nothing_is_said_to_be_withdrawn_where_the_index_of_addresses_was_damaged(tmp_path):
    cells = [spoken(place, f"{WORDS} {place}") for place in range(0, 1200, 2)]
    address = bytes(range(32)).hex()
    *others, last = cells[0].calls
    first = replace(cells[0], calls=(*others, replace(last, address=address)))
    written(tmp_path, [first], cells[1:])
    file, digest = tmp_path / RUN_DB, bytes.fromhex(address)
    # The row has the whole address, the index its beginning alone.
    entry = re.escape(digest[:4]) + b"(?!" + re.escape(digest[4:]) + b")"
    damaged, count = re.subn(entry, bytes(4), file.read_bytes())
    assert count == 1
    file.write_bytes(damaged)
    with closing(RunDatabase(tmp_path)) as writer, pytest.raises(RunFolderError, match="rebuild"):
        writer.withdraw({address})


def test_run_names_a_full_disk_and_continues_when_it_has_room(tmp_path):
    with closing(opened(tmp_path)) as writer:
        writer.write([spoken(0)])
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        log = (tmp_path / f"{RUN_DB}-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (log + 4096, limits[1]))
        try:
            with pytest.raises(DiskFull, match=rf"{RUN_DB} reached the limit .*ulimit -f"):
                writer.write([spoken(place, f"words {place}") for place in range(2, 400, 2)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        writer.write([spoken(2)])
    assert read(tmp_path) == [spoken(0), spoken(2)]
