"""A record holds whole cells, each text once, and is refused by name where it is damaged."""

import resource
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from oversight.cache.address import value_address
from oversight.cache.reply import ToolCall
from oversight.engine.errors import RunFolderError
from oversight.engine.run.record.copying import copy_record
from oversight.engine.run.record.schema import RECORD
from oversight.engine.run.record.search import Query, search
from oversight.engine.run.record.tables import RecordTables
from oversight.engine.run.record.values import (
    CallCost,
    NotRun,
    RecordedCall,
    RecordedCell,
    RecordedJudgement,
)
from oversight.engine.run.record.withdrawal import WITHDRAWN
from oversight.engine.run.record.writer import RecordWriter
from oversight.engine.sweep.grid import GridRow
from oversight.engine.system.mounts import is_network
from oversight.protocols.doubts import Doubt
from oversight.protocols.question import Answer
from oversight.protocols.quotes import Quote
from oversight.protocols.transcript import (
    Failure,
    Judgement,
    ToolUse,
    Transcript,
    Turn,
    Verdict,
)
from tests.shipments import shipments

PROBLEMS = shipments(3)
ROWS = [
    GridRow("debate simultaneous 2", "a/strong", "a/weak stated", "debate", {"rounds": 2}),
    GridRow("naive judge", "", "a/weak stated", "naive judge", {}),
]


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
        (0.7, 0.3),
        Transcript(question, turns),
        (Judgement((0.7, 0.3), calls[3].address, calls[3].text, 0.75), Judgement((0.7, 0.3))),
        (("splits", 2), ("label", 0.5), ("free", "A"), ("sound", True)),
        ((0.6, 0.4), (0.8, 0.2)),
        ((0.5, 0.9), (0.1, 0.5)),
        (Doubt("Judge", "unreadable", calls[2].address),),
    )
    beliefs = (
        RecordedJudgement(
            "rating", "a/weak stated", 1, (0.7, 0.3), calls[1].address, a.label, "it holds",
            0.5, "0.7", (calls[2].address,),
        ),
        RecordedJudgement("rating", "a/weak stated", 1, (), error="there is no number"),
    )  # fmt: skip
    return RecordedCell(
        place, f"{place:016x}", 0, place // 4 % 3, place % 2, 0, verdict, calls, beliefs,
        '{"Debater A": 0.7}', True, "checked",
    )  # fmt: skip


def failed(place: int) -> RecordedCell:
    return replace(
        spoken(place), outcome=Failure("unreadable", "no JSON", "hm", address(7), "Judge")
    )


def left_out(place: int) -> RecordedCell:
    return replace(spoken(place), outcome=NotRun("decided already"), calls=(), judgements=())


def written(file: Path, *batches: Sequence[RecordedCell]) -> None:
    writer = RecordWriter(file, PROBLEMS, ROWS, {"name": "s"})
    for cells in batches:
        writer.write(cells)
    writer.close()


def read(file: Path) -> list[RecordedCell]:
    with RecordTables.open(file) as tables:
        return list(tables.cells())


def count(file: Path, table: str) -> int:
    with RecordTables.open(file) as tables:
        (found,) = tables.query(f"SELECT count(*) FROM {table}")
    return int(found[0])


@pytest.mark.unit
def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / RECORD
    cells = [spoken(0), failed(1), left_out(4), spoken(5)]
    written(file, cells[2:], cells[:2])
    assert read(file) == cells
    with RecordTables.open(file) as tables:
        assert tables.problems == tuple(PROBLEMS)
        digests = [digest.hex() for (digest,) in tables.query("SELECT digest FROM problems")]
        assert digests == list(map(value_address, PROBLEMS))
        rows = tables.query("SELECT kind, agent, judge, lower(hex(address)) FROM rows")
        assert list(rows) == [(row.kind, row.agent, row.judge, row.address) for row in ROWS]
        assert tables.meta["name"] == "s"
        assert list(tables.places()) == [(0, 0), (1, 1), (4, 2), (5, 0)]
        assert [cell.place for cell in tables.cells([5, 3, 0])] == [5, 0]


@pytest.mark.unit
def test_what_worlds_share_is_recorded_once_also_after_a_resume(tmp_path: Path) -> None:
    file = tmp_path / RECORD
    written(file, [spoken(0)])
    tables = ("conversations", "turns", "calls", "judgements", "texts")
    once = [count(file, table) for table in tables]
    written(file, [spoken(1)])
    assert [count(file, table) for table in tables] == once
    assert read(file) == [spoken(0), spoken(1)]


@pytest.mark.unit
def test_texts_are_packed_with_a_dictionary_of_the_runs_own(tmp_path: Path) -> None:
    file = tmp_path / RECORD
    words = "The shipment weighed less than the ledger says, since two crates were left behind. "
    cells = [spoken(place, f"{words} {place}") for place in range(0, 1200, 2)]
    written(file, cells[:300], cells[300:])
    assert read(file) == cells
    assert count(file, "dictionaries") == 1
    said = sum(len(call.text) for cell in cells for call in cell.calls)
    with RecordTables.open(file) as tables:
        (packed,) = tables.query("SELECT sum(length(body)) FROM texts")
    assert packed[0] < 0.2 * said


@pytest.mark.unit
def test_a_dictionary_may_be_trained_while_somebody_reads(tmp_path: Path) -> None:
    """The writer itself, in a later session, or a reader of a run that goes on."""
    file = tmp_path / RECORD
    before = [spoken(0, "before"), spoken(4, "before")]
    written(file, before)
    words = "The shipment weighed less than the ledger says, since two crates were left behind. "
    of_one_problem = [spoken(n, f"{words} {n}") for n in range(24, 3600, 2) if not n // 4 % 3]
    with RecordTables.open(file) as tables:
        assert list(tables.cells([0])) == before[:1]
        written(file, [spoken(1, "before")], of_one_problem, [spoken(5, "before")])
        assert count(file, "dictionaries") == 1
        assert list(tables.cells([0, 4])) == before
    assert read(file)[:4] == [spoken(place, "before") for place in (0, 1, 4, 5)]


@pytest.mark.unit
def test_a_failed_write_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    file = tmp_path / RECORD
    writer = RecordWriter(file, PROBLEMS, ROWS)
    with pytest.raises(ValueError):
        writer.write([spoken(0), replace(spoken(1), id="no digits")])
    writer.write([spoken(0)])
    writer.forget([0])
    writer.write([failed(0)])
    writer.close()
    assert read(file) == [failed(0)]


def newer(file: Path) -> None:
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version=99")


def foreign(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE meta(key, value)")


def no_database(file: Path) -> None:
    file.write_bytes(b"PK\3\4" * 40)


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: 5 * 4096 + 1])


def torn(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096 : 4096 * 8] = b"\xff" * 4096 * 7
    file.write_bytes(content)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (newer, "is of version 99"),
        (foreign, "is no record of a run"),
        (no_database, "is no record of a run"),
        (truncated, "is damaged"),
        (torn, "is damaged"),
    ],
)
def test_what_is_no_sound_record_is_refused_by_name(tmp_path: Path, spoil, said: str) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / RECORD
    written(file, [spoken(place) for place in range(12)])
    spoil(file)
    before = file.read_bytes()
    for use in (lambda: read(file), lambda: written(file, [spoken(0)])):
        with pytest.raises(RunFolderError) as fault:
            use()
        assert str(file) in str(fault.value) and said in str(fault.value)
        assert "\n" not in str(fault.value)
    assert file.read_bytes() == before


@pytest.mark.unit
def test_a_network_file_system_is_told_from_a_local_one(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "none / overlay rw 0 0\nhome:/x /home nfs4 rw 0 0\n/dev/a /home/my\\040disk ext4 rw 0 0\n"
    )
    places = ("/home/me/runs", "/home/my disk/runs", "/homes", "/")
    assert [is_network(Path(place), mounts) for place in places] == [True, False, False, False]
    assert not is_network(Path("/"), tmp_path / "none")


@pytest.mark.unit
def test_words_are_found_by_the_index_and_new_texts_are_known_to_lack_it(tmp_path: Path) -> None:
    file = tmp_path / RECORD
    writer = RecordWriter(file, PROBLEMS, ROWS)
    writer.write([spoken(0, "crates of oranges")])
    writer.settle()
    writer.write([spoken(2, "crates of lemons")])
    with RecordTables.open(file) as tables:
        found = "SELECT rowid FROM words WHERE words MATCH ?"
        (hit,) = {tables.text(n) for (n,) in tables.query(found, "oranges AND 0 NOT say")}
        assert "crates of oranges" in hit
        lemons = [n for n, text in tables.texts() if "lemons" in text]
        assert min(lemons) > tables.setting("indexed")
        assert not list(tables.query(found, "lemons"))
    writer.settle()
    writer.close()
    with RecordTables.open(file) as tables:
        assert [n for (n,) in tables.query(found, "lemons")] == lemons


@pytest.mark.unit
def test_words_phrases_and_beginnings_are_found_with_and_without_the_index(tmp_path: Path) -> None:
    file = tmp_path / RECORD
    writer = RecordWriter(file, PROBLEMS, ROWS)
    said = ["Crates of blue-green oranges", "oranges, of crates", "it's NAÏVE oranges"]

    def found(words: str) -> list[int]:
        with RecordTables.open(file) as tables:
            hits = search(tables, file, Query.read(words), [0])
            return sorted({hit.place for hit in hits if hit.turn is not None})

    writer.write([spoken(0, said[0]), spoken(2, said[1])])
    for settled in (False, True):
        if settled:
            writer.settle()
            writer.write([spoken(4, said[2])])
        assert found("oranges") == [0, 2, *[4] * settled]
        assert found("of crates") == [0, 2]
        assert found('"of crates"') == [2]
        assert found('blue-green "crates of"') == [0]
        assert found('"blue gr*" cra*') == [0]
        assert found("green-blue") == found("zanzibar") == found("oranges zanzibar") == []
        assert found("it's naive") == [4] * settled
    writer.close()


@pytest.mark.unit
def test_what_a_person_withdraws_is_nowhere_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / RECORD
    writer = RecordWriter(file, PROBLEMS, ROWS)
    words = "xylophone quagmire bluebottle"
    cells = [spoken(place, f"{words} {place}") for place in range(0, 600, 2)]
    theirs = [
        replace(each, model="person/ann") if each.model == "a/weak" else each
        for each in cells[7].calls
    ]
    secret = "my own zanzibar story"
    judged = cells[7].outcome
    assert isinstance(judged, Verdict)
    part = replace(judged.judgements[0], text=f"{secret} {'and more of it ' * 9}")
    cells[7] = replace(
        cells[7],
        calls=tuple(replace(e, text=part.text) if "person" in e.model else e for e in theirs),
        outcome=replace(judged, judgements=(part,)),
    )
    writer.write(cells)
    writer.settle()
    assert b"zanzibar" in file.read_bytes()
    addresses = {each.address for each in cells[7].calls if "person" in each.model}
    assert len(addresses) == 2 and writer.withdraw(addresses) == {cells[7].place}
    writer.close()
    for each in tmp_path.iterdir():
        assert b"zanzibar" not in each.read_bytes()
    with RecordTables.open(file) as tables:
        assert not any(secret in text for _, text in tables.texts())
        assert not list(tables.query("SELECT rowid FROM words WHERE words MATCH 'zanzibar'"))
        left = list(tables.cells())
        assert left[7].outcome == NotRun("withdrawn")
        assert {call.text for call in left[7].calls if "person" in call.model} == {WITHDRAWN}
        assert left[:7] + left[8:] == cells[:7] + cells[8:]


@pytest.mark.unit
def test_a_record_in_a_read_only_folder_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    written(folder / RECORD, [spoken(0)])
    folder.chmod(0o555)
    try:
        assert read(folder / RECORD) == [spoken(0)]
    finally:
        folder.chmod(0o755)


@pytest.mark.unit
def test_a_record_for_which_there_is_no_room_says_so_and_goes_on_once_there_is(
    tmp_path: Path,
) -> None:
    file = tmp_path / RECORD
    writer = RecordWriter(file, PROBLEMS, ROWS)
    writer.write([spoken(0)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = file.with_name(f"{RECORD}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (log + 4096, limits[1]))
    try:
        with pytest.raises(RunFolderError, match=RECORD):
            writer.write([spoken(place, f"words {place}") for place in range(2, 400, 2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    writer.write([spoken(2)])
    writer.close()
    assert read(file) == [spoken(0), spoken(2)]


IDS = [problem.id for problem in PROBLEMS]
CELLS = [spoken(0), failed(1), spoken(4), left_out(8), spoken(9)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    writer = RecordWriter(folder / RECORD, PROBLEMS, ROWS, {"name": "s"})
    writer.write(CELLS)
    writer.close()
    return folder


def taken(cell: RecordedCell, place: int, row: int) -> RecordedCell:
    calls = tuple(
        replace(call, cost=replace(call.cost, origin="taken over")) for call in cell.calls
    )
    return replace(cell, place=place, row=row, calls=calls)


@pytest.mark.unit
def test_cells_stand_where_the_new_run_has_them_and_it_goes_on(
    source: Path, tmp_path: Path
) -> None:
    before = (source / RECORD).read_bytes()
    # Some change places with each other; the last is left out.
    moved = {0: (4, 1), 1: (0, 1), 4: (1, 0), 8: (12, 1)}
    folder = tmp_path
    assert copy_record(source, folder, IDS, moved)
    assert (source / RECORD).read_bytes() == before
    expected = [taken(CELLS[n], *moved[CELLS[n].place]) for n in (1, 2, 0, 3)]
    assert read(folder / RECORD) == expected
    writer = RecordWriter(folder / RECORD, PROBLEMS, [*reversed(ROWS)], {"name": "other"})
    more = spoken(9, "something new")
    writer.write([more])
    writer.close()
    assert read(folder / RECORD) == [*expected[:3], more, expected[3]]
    assert count(folder / RECORD, "rows") == 2
    assert count(folder / RECORD, "conversations") == count(source / RECORD, "conversations")


@pytest.mark.unit
def test_problems_may_be_more_or_fewer_at_the_end_and_no_others(
    source: Path, tmp_path: Path
) -> None:
    assert copy_record(source, tmp_path, [*IDS, "more"], {0: (0, 0)})
    assert copy_record(source, tmp_path, IDS[:2], {0: (0, 0)})
    assert count(tmp_path / RECORD, "problems") == 2
    (tmp_path / RECORD).unlink()
    assert not copy_record(source, tmp_path, IDS[::-1], {0: (0, 0)})
    assert [each.name for each in tmp_path.iterdir()] == ["source"]


@pytest.mark.unit
def test_a_record_that_is_none_is_refused_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    (source / RECORD).write_bytes(b"no record" * 100)
    with pytest.raises(RunFolderError, match="record"):
        copy_record(source, tmp_path, IDS, {})
    assert [each.name for each in tmp_path.iterdir()] == ["source"]
