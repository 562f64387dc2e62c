"""A replay compares every cell with its record: the verdict and each turn."""

from contextlib import closing

from msgspec import structs

from oversight.engine.run.record.database import RunDatabase
from oversight.protocols.transcript import Verdict
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
