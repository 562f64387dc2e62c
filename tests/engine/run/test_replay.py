"""A replay compares every cell with its record: the verdict, each turn and each call."""

from contextlib import closing
from typing import Any

import pytest
from msgspec import structs

from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.replay import with_passages, without_passage
from oversight.protocols.transcript import Failure
from tests.fakes import APPLES, CRATES
from tests.run_folders import SWAPPED, edited, noted, overwrite


def test_only_a_store_that_this_machine_noted_is_opened(place, command, finished, caplog):
    command("run", "small.yaml", "--limit", "1", "--store", "theirs", "--run-folder", "other")
    noted(finished.folder, store=str(place / "theirs"))
    assert command("replay", finished.folder).code == 0 and not caplog.text
    noted(finished.folder, id="0123456789abcdef")
    assert command("replay", finished.folder).code == 0
    assert "it was not made on this machine" in caplog.text


def test_another_verdict_is_named(command, finished):
    edited(finished.folder, f"UPDATE cells SET {SWAPPED}")
    replay = command("replay", finished.folder)
    assert replay.code == 1 and "0 of 40 outcomes are equal to the byte" in replay.err
    assert "first difference: cell " in replay.err and " recorded, " in replay.err
    assert "the code of its row is unchanged" in replay.err


@pytest.mark.parametrize(("name", "content"), [
    ("log.txt", "The log."), ("log.txt", "\n The log.\n"),
    ("rows.jsonl", '{"id": 1, "article": "The log."}\n'),
    ("rows.jsonl", '{"id": 1, "article": {"text": " The log.\\n"}}\n'),
])  # fmt: skip
def test_a_source_text_is_restored_from_a_file_of_any_form(tmp_path, name, content):
    problem = structs.replace(APPLES, question=structs.replace(CRATES, passage="The log."))
    (tmp_path / name).write_text(content)
    for source in (tmp_path, tmp_path / name):
        assert with_passages([without_passage(problem), APPLES], source) == (problem, APPLES)


def with_field(value: Any, path: str, new: object) -> Any:
    """A value with another one at `cost.served` or `turns.0.text`."""
    name, _, inner = path.partition(".")
    if isinstance(value, tuple):
        at = int(name)
        return (*value[:at], with_field(value[at], inner, new), *value[at + 1 :])
    part = with_field(getattr(value, name), inner, new) if inner else new
    return structs.replace(value, **{name: part})


@pytest.mark.parametrize(("path", "value", "label"), [
    ("outcome.transcript.turns.0.conceded", True, "turn 1"),
    ("outcome.judgements.0.text", "B.", "judgement 1"), ("calls.1.model", "sim/other", "call 2"),
    ("calls.1.settings", "{}", "call 2"), ("calls.1.cost.stop_reason", "elsewhere", "call 2"),
    ("calls.1.cost.served", "other-1", "call 2"),
    ("calls.1.cost.identity", "another endpoint", "call 2"),
    ("calls.1.cost.input_tokens", 7, "call 2"), ("calls.1.cost.cache_read_tokens", 7, "call 2"),
])  # fmt: skip
def test_another_field_is_named_with_both_values(path, value, label, command, finished):
    """Also in a cell that failed at its provider, whose calls are not asked again."""
    with closing(RunDatabase(finished.folder)) as database:
        cell = next(cell for cell in database.cells() if len(cell.calls) > 2)
    changed = with_field(cell, path, value)
    failed = structs.replace(changed, outcome=Failure("Overloaded", "for a while"))
    cases = [(changed, f"{label}, ", " now")]
    if label == "call 2":
        cases.append((failed, f"call {cell.calls[1].address[:12]}, ", " in its reply"))
    field = path.rpartition(".")[2]
    for record, where, end in cases:
        overwrite(finished.folder, [record])
        replay = command("replay", finished.folder)
        assert replay.code == 1 and f"first difference: cell {cell.id} (" in replay.err
        assert f": {where}{field}: {value!r} recorded, " in replay.err and end in replay.err
