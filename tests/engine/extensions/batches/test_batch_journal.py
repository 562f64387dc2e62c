"""The journal of batches: restored after every prefix, and safe from strangers."""

import copy
from dataclasses import asdict
from typing import Any

import msgspec
import pytest
from msgspec import to_builtins

from oversight.engine.errors import RunFolderError
from oversight.engine.extensions.batches import journal as batch_journal
from oversight.engine.extensions.batches.journal import FOLDER, Batch, BatchJournal
from oversight.engine.models.accounting.ledger import sum_usage
from oversight.engine.run.events import EVENTS, add_event, read_events

A, B = "a1" * 8, "b2" * 8
FIRST = Batch(A, "openai/gpt-4o", 3, 100.0, 0.5)
SECOND = Batch(B, "openai/gpt-4o", 2, 200.0, 0.4)


def state(journal: BatchJournal) -> Any:
    return copy.deepcopy({name: value for name, value in vars(journal).items() if name[0] != "_"})


def test_failed_ledger_write_leaves_no_submitting_event(tmp_path, monkeypatch):
    """Otherwise the batch would be looked for during a day, although it never left."""
    journal = BatchJournal(tmp_path)

    def full(*args: object) -> None:
        raise RunFolderError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(batch_journal, "write_uncollected", full)
        with pytest.raises(RunFolderError):
            journal.send(FIRST)
    assert not journal.pending and not BatchJournal(tmp_path).pending


def test_batch_whose_request_never_left_is_free_again(tmp_path):
    """A kill between the event and the rename of the calls."""
    journal = BatchJournal(tmp_path)
    journal.file(A, "packing").write_bytes(b"{}\n")
    journal.note(submitting=asdict(FIRST))
    assert BatchJournal(tmp_path, reads_only=True).uncollected == {A: FIRST}
    assert not BatchJournal(tmp_path).pending and not list((tmp_path / "batches").iterdir())


@pytest.mark.wire
def test_every_prefix_of_the_journal_restores_its_state(tmp_path):
    journal = BatchJournal(tmp_path)
    file, states = tmp_path / EVENTS, {0: state(journal)}
    collected = {"collected": A, "faults": {"00": [400, "no"]}, "again": ["11", "22"]}
    steps = [
        lambda: journal.send(FIRST),
        lambda: journal.note(denied=A),
        lambda: journal.note(submitted=A, id="batch_2"),
        lambda: journal.send(SECOND),
        lambda: journal.cancel(SECOND, "never made"),
        lambda: journal.note(**collected, account=to_builtins(sum_usage([]))),
        lambda: journal.note(forgiven=1),
    ]
    for step in steps:
        step()
        states[file.stat().st_size] = state(journal)
        if step is steps[-2]:
            assert journal.faults == {"00": (400, b"no")}
    assert (journal.pending, journal.out, journal.faults) == ({}, {}, {})
    assert journal.tries == {"11": 1, "22": 1}
    content, last = file.read_bytes(), states[0]
    for size in range(len(content) + 1):
        file.write_bytes(content[:size])
        last = states.get(size, last)
        assert state(BatchJournal(tmp_path, reads_only=True)) == last
        if size - 1 in states:
            # After a torn line, the next event starts a new line.
            again = BatchJournal(tmp_path)
            assert state(again) == last
            again.note(denied="another")
            assert "another" in BatchJournal(tmp_path, reads_only=True).denied


def test_journal_of_another_version_is_refused(tmp_path):
    add_event(tmp_path, FOLDER, {"handed": "over"})
    with pytest.raises(RunFolderError, match="does not know"):
        BatchJournal(tmp_path)


def test_journal_deletes_only_its_files(tmp_path):
    BatchJournal(tmp_path).send(FIRST)
    folder = tmp_path / "batches"
    ours = (f"{A}.calls", f"{B}.packing")
    theirs = ("book.jsonl", "thesis.tex", f"{B}.calls")
    for name in (*ours, *theirs):
        (folder / name).write_bytes(b"")
    BatchJournal(tmp_path)
    names = {file.name for file in folder.iterdir()}
    assert names == {f"{A}.calls", *theirs}
    # With renamed events, open batches are not submitted again.
    (tmp_path / EVENTS).rename(tmp_path / "events.old")
    with pytest.raises(RunFolderError, match="bring the events back under their name"):
        BatchJournal(tmp_path)
    assert {file.name for file in folder.iterdir()} == names


def test_mark_with_a_path_is_refused(tmp_path):
    BatchJournal(tmp_path).send(FIRST)
    [sent] = read_events(tmp_path, FOLDER, msgspec.json.Decoder(dict[str, Any]))
    (tmp_path / EVENTS).unlink()
    add_event(tmp_path, FOLDER, {"submitting": {**sent["submitting"], "mark": "../../thesis"}})
    with pytest.raises(RunFolderError, match="is not the mark of a batch"):
        BatchJournal(tmp_path)


@pytest.mark.parametrize("link", ["batches", f"batches/{A}.calls"])
def test_links_are_not_followed(tmp_path, link):
    target = tmp_path / "target"
    target.mkdir()
    (target / "thesis.tex").write_bytes(b"years of work")
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(target)
    for reads_only in (True, False):
        with pytest.raises(RunFolderError, match=f"{A if '/' in link else 'batches'}.* is a symb"):
            BatchJournal(tmp_path, reads_only=reads_only)
    assert (target / "thesis.tex").exists()
