"""The journal of batches, and the rehearsal server's endpoints under the vendors' own clients."""

import copy
from pathlib import Path
from typing import Any

import pytest

from oversight.engine.accounting.ledger import sum_usage
from oversight.engine.batches.endpoint import Submission
from oversight.engine.batches.journal import BatchJournal
from oversight.engine.errors import RunFolderError

FIRST = Submission("a1", "openai/gpt-4o", 3, 100.0, 30.0, 0.5)
SECOND = Submission("b2", "openai/gpt-4o", 2, 200.0, 20.0, 0.4)


def standing(journal: BatchJournal) -> Any:
    return copy.deepcopy({name: told for name, told in vars(journal).items() if name[0] != "_"})


def test_every_prefix_of_the_book_is_where_the_run_stood_then(tmp_path: Path) -> None:
    journal = BatchJournal(tmp_path)
    file, stood = tmp_path / "batches" / "book.jsonl", {0: standing(journal)}
    steps = [
        lambda: journal.intend(FIRST),
        lambda: journal.submitted("a1", "batch_1"),
        lambda: journal.foreign("batch_1"),
        lambda: journal.submitted("a1", "batch_2", guessed=True),
        lambda: journal.intend(SECOND),
        lambda: journal.dropped("b2"),
        lambda: journal.learn("openai/gpt-4o", 15.0),
        lambda: journal.land("batch_2", sum_usage([]), {"00": (400, b"no")}, ["11", "22"]),
        lambda: journal.forgive(),
    ]
    for step in steps:
        step()
        stood[file.stat().st_size] = standing(journal)
        if step is steps[-2]:
            assert journal.faults == {"00": (400, b"no")}
    assert (journal.intended, journal.out, journal.faults) == ({}, {}, {})
    assert (journal.began, journal.guessed, journal.tries) == (
        100.0,
        {"batch_2"},
        {"11": 1, "22": 1},
    )
    whole, last = file.read_bytes(), stood[0]
    for size in range(len(whole) + 1):
        file.write_bytes(whole[:size])
        last = stood.get(size, last)
        assert standing(BatchJournal(tmp_path, reads_only=True)) == last
        if size - 1 in stood:
            # What is written after a torn line begins a line of its own.
            again = BatchJournal(tmp_path)
            assert standing(again) == last
            again.learn("another", 1.0)
            assert BatchJournal(tmp_path, reads_only=True).room["another"] == 1.0


def test_a_book_of_another_version_is_not_guessed_at(tmp_path: Path) -> None:
    BatchJournal(tmp_path)
    (tmp_path / "batches" / "book.jsonl").write_bytes(b'{"handed": "over"}\n')
    with pytest.raises(RunFolderError, match="does not know"):
        BatchJournal(tmp_path)


def test_files_that_belong_to_no_batch_that_is_out_are_taken_away(tmp_path: Path) -> None:
    journal = BatchJournal(tmp_path)
    journal.intend(FIRST)
    for name in ("a1.calls", "a1.body", "zz.calls", "x.noted", "a1.results"):
        (tmp_path / "batches" / name).write_bytes(b"")
    BatchJournal(tmp_path)
    kept = sorted(file.name for file in (tmp_path / "batches").iterdir())
    assert kept == ["a1.calls", "book.jsonl"]
