"""A sweep that has grown records what a fresh run records, and takes old replies from the store."""

import shutil
from pathlib import Path

import pytest
from msgspec import structs

from oversight.engine.run.record.tables import RunTables
from tests.command_line import calls
from tests.run_folders import everything, written

MORE = ("--set", "protocols.propaganda={}", "--set", "judges.model=[sim/judge, sim/weak]")
"""Rows of a new protocol and of a new judge: 112 cells."""


def asked(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """Address, origin, cost and model of each call, by the id of its cell."""
    with RunTables.open(folder) as tables:
        return {
            cell.id: [
                (call.address, call.cost.origin, structs.replace(call.cost, at=None), call.model)
                for call in cell.calls
            ]
            for cell in tables.cells()
        }


@pytest.mark.wire
@pytest.mark.known_truth
@pytest.mark.parametrize("before", [("--limit 3", ""), ("",), ("--limit 1", "--limit 2", "")])
def test_run_after_others_records_what_a_fresh_run_records(before, place, command):
    """The fresh run has the same store and no run folder next to it."""
    for words in before:
        assert command("run", "small.yaml", *words.split()).code == 0
    shutil.copytree(place / "store", place / "kept")
    files = everything(place / "runs")
    old = {call[0] for folder in place.glob("runs/*") for c in asked(folder).values() for call in c}
    grown = command("run", "small.yaml", *MORE, "--run-folder", "runs/grown")
    fresh = command("run", "small.yaml", *MORE, "--run-folder", "fresh", "--store", "kept")
    assert grown.code == 0 and grown.out == fresh.out
    cells = asked(place / "runs/grown")
    assert cells == asked(place / "fresh") and len(cells) == 112
    assert written(place / "runs/grown") == written(place / "fresh")
    # Only calls of the new rows are sent, and no other run is touched.
    sent = {call[0] for calls in cells.values() for call in calls if call[1] == "new"}
    assert calls(grown.err).new == len(sent) > 0 and sent.isdisjoint(old)
    assert f"calls ({len(sent)} sent, " in grown.err and " from cache, " in grown.err
    assert everything(place / "runs").items() >= files.items()
    again = command("run", "small.yaml", *MORE, "--run-folder", "runs/again")
    assert (again.code, again.out) == (0, grown.out) and "calls (0 sent, " in again.err


@pytest.mark.parametrize(("case", "words", "expected"), [
    ("elsewhere", MORE[:2], True), ("deleted", MORE[:2], False), ("in both", MORE[:2], False),
    ("elsewhere", ("--set", "agents.model=sim/medium", "--set", "protocols=propaganda"), False),
])  # fmt: skip
def test_another_store_with_the_replies_is_named_before_the_first_call(
    case, words, expected, place, command, finished, caplog
):
    (place / "store").rename(place / "theirs")
    command("run", "small.yaml", "--run-folder", "runs/again", "--store", "theirs")
    shutil.rmtree(finished.folder)
    if case == "in both":
        shutil.copytree(place / "theirs", place / "store")
    elif case == "deleted":
        shutil.rmtree(place / "theirs")
    assert command("run", "small.yaml", *words, "--run-folder", "runs/more").code == 0
    line = f"{place / 'theirs'} has replies to calls of this run, and {place / 'store'} lacks them"
    assert (line in caplog.text) == expected
    assert (f"add --store {place / 'theirs'} (runs/again left" in caplog.text) == expected
