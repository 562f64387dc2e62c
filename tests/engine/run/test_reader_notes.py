"""Notes on transcripts: appended, removed, and read from a file that anybody may have written."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oversight import run
from oversight.engine.errors import UsageError
from oversight.engine.run.reader import Place, RunReader
from oversight.engine.run.reader_notes import MAX_NOTE, NOTES, add_note, read_notes, remove_note
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.question import Answer, Problem, Question, labelled

PLACE = Place(0, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("noted")
    problem = labelled("p", "Which?", [("yes", "", 1.0), ("no", "", -1.0)])
    judge = NaiveJudge(StatedJudge("sim/judge"))
    return run([judge], [problem], store=place / "store", folder=place / "run", quiet=True).folder


@pytest.fixture
def reader(folder: Path) -> RunReader:
    (folder / NOTES).unlink(missing_ok=True)
    return RunReader(folder)


def test_a_note_is_added_read_and_removed(reader: RunReader) -> None:
    first = add_note(reader, PLACE, "", "interesting", "one\nline")
    second = add_note(reader, PLACE, "Bjudge", "quote", "\u202e<b>")
    assert read_notes(reader).at(PLACE) == [first, second]
    cells = [record.cell for record in reader.records(reader.worlds(PLACE)).values()]
    assert [first.cell, second.cell] == [cells[0], cells[1]]
    remove_note(reader, first.id)
    assert read_notes(reader).at(PLACE) == [second]
    assert (reader.folder / NOTES).read_bytes().count(b"\n") == 3, "lines are only appended"
    with pytest.raises(UsageError, match="unknown note"):
        remove_note(reader, first.id)


@pytest.mark.parametrize(("turn", "kind", "text", "cause"), [
    ("", "praise", "x", "unknown kind of note 'praise'"),
    ("C1", "quote", "x", "unknown turn 'C1': name the world and the turn, as A1"),
    ("A", "quote", "x", "unknown turn 'A'"), ("A²", "quote", "x", "unknown turn 'A²'"),
    ("", "quote", "  ", "1 to 2,000 characters; this one has 2"),
    ("", "quote", "x" * (MAX_NOTE + 1), "this one has 2,001"),
])  # fmt: skip
def test_a_bad_note_is_refused(reader, turn, kind, text, cause):
    with pytest.raises(UsageError, match=cause):
        add_note(reader, PLACE, turn, kind, text)
    assert not (reader.folder / NOTES).exists()


def test_a_turn_is_in_the_world_of_the_longest_label(tmp_path: Path) -> None:
    question = Question("Which?", (Answer("1", "yes"), Answer("10", "no")))
    run(
        [NaiveJudge(StatedJudge("sim/judge"))], [Problem("p", question, (1.0, -1.0))],
        store=tmp_path / "store", folder=tmp_path / "run", quiet=True,
    )  # fmt: skip
    reader = RunReader(tmp_path / "run")
    cells = [record.cell for record in reader.records(reader.worlds(PLACE)).values()]
    notes = [add_note(reader, PLACE, turn, "quote", "x") for turn in ("12", "102", "10judge")]
    assert [note.cell for note in notes] == [cells[0], cells[1], cells[1]]


def test_bad_lines_are_skipped_by_name_and_foreign_notes_kept_apart(reader: RunReader) -> None:
    note = add_note(reader, PLACE, "", "broken", "kept")
    file = reader.folder / NOTES
    line = file.read_bytes()
    foreign = line.replace(note.cell.encode(), b"0" * 16).replace(note.id.encode(), b"foreign")
    outside = line.replace(b'"row":0', b'"row":99').replace(note.id.encode(), b"far")
    file.write_bytes(line + b"{}\n\xff\n[1]\n" + foreign + outside + line[:20])
    notes = read_notes(reader)
    assert (notes.notes[0][0].id, notes.notes[0][1]) == (note.id, PLACE)
    assert [place for _, place in notes.notes[1:]] == [None] * (len(notes.notes) - 1)
    assert notes.skipped == tuple(f"{NOTES}:{n}" for n in (2, 3, 4, 7))
    again = add_note(reader, PLACE, "", "broken", "after a torn line")
    assert read_notes(reader).at(PLACE) == [note, again]


def test_two_writers_lose_no_note(reader: RunReader) -> None:
    with ThreadPoolExecutor(2) as pool:
        notes = [*pool.map(lambda n: add_note(reader, PLACE, "", "quote", f"note {n}"), range(40))]
    assert {note.id for note in read_notes(reader).at(PLACE)} == {note.id for note in notes}
