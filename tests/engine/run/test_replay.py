"""A replay compares every cell with its record: the verdict and each turn."""

from contextlib import closing

import pytest
from msgspec import structs

from oversight.engine.run.record.database import RunDatabase
from oversight.protocols.transcript import Failure, Verdict
from tests.run_folders import SWAPPED, edited, noted, overwrite


def test_only_a_store_that_this_machine_noted_is_opened(place, command, finished, caplog):
    command("run", "small.yaml", "--limit", "1", "--store", "theirs", "--run-folder", "other")
    noted(finished.folder, store=str(place / "theirs"))
    assert command("replay", finished.folder).code == 0
    assert not caplog.text
    noted(finished.folder, id="0123456789abcdef")
    assert command("replay", finished.folder).code == 0
    assert "it was not made on this machine" in caplog.text


def test_another_verdict_is_named(command, finished):
    edited(finished.folder, f"UPDATE cells SET {SWAPPED}")
    replay = command("replay", finished.folder)
    assert replay.code == 1
    assert "0 of 40 outcomes are equal to the byte" in replay.err
    assert "first difference: cell " in replay.err and " recorded, " in replay.err
    assert "the code of its row is unchanged" in replay.err


def test_another_turn_is_named(command, finished):
    assert "40 of 40 outcomes are equal to the byte" in command("replay", finished.folder).err
    with closing(RunDatabase(finished.folder)) as database:
        cells = list(database.cells())
    changed = []
    for cell in cells:
        if isinstance(cell.outcome, Verdict) and cell.outcome.transcript.turns:
            first, *others = cell.outcome.transcript.turns
            turns = (structs.replace(first, conceded=True), *others)
            transcript = structs.replace(cell.outcome.transcript, turns=turns)
            changed.append(
                structs.replace(cell, outcome=structs.replace(cell.outcome, transcript=transcript))
            )
    overwrite(finished.folder, changed)
    replay = command("replay", finished.folder)
    assert replay.code == 1
    assert "turn 1, conceded: True recorded, False now" in replay.err


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "sim/other"),
        ("settings", "{}"),
        ("cost.stop_reason", "elsewhere"),
        ("cost.served", "other-1"),
        ("cost.identity", "another endpoint"),
        ("cost.input_tokens", 7),
        ("cost.cache_read_tokens", 7),
    ],
)
def test_another_model_stop_reason_or_token_count_is_named(field, value, failed, command, finished):
    """failed: in a cell that failed at its provider, which is not run again."""
    with closing(RunDatabase(finished.folder)) as database:
        cell = next(cell for cell in database.cells() if len(cell.calls) > 2)
    first, second, *others = cell.calls
    part, _, name = field.rpartition(".")
    changed = structs.replace(getattr(second, part) if part else second, **{name: value})
    second = structs.replace(second, cost=changed) if part else changed
    cell = structs.replace(cell, calls=(first, second, *others))
    if failed:
        cell = structs.replace(cell, outcome=Failure("Overloaded", "for a while"))
    overwrite(finished.folder, [cell])
    replay = command("replay", finished.folder)
    assert replay.code == 1
    where, now = (f"call {second.address[:12]}", "in its reply") if failed else ("call 2", "now")
    assert f"first difference: cell {cell.id} (" in replay.err
    assert f": {where}, {name}: {value!r} recorded, " in replay.err and now in replay.err
