"""A sweep that has grown records what a fresh run records, and takes old replies from the store."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from oversight.engine.run.reader import RunReader
from tests.command_line import calls
from tests.run_folders import everything, written

MORE = ("--set", "protocols.propaganda={}", "--set", "judges.model=[sim/judge, sim/weak]")
"""Rows of a new protocol and of a new judge: 112 cells."""


def asked(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """By the id of each cell: the address of each call, and what is recorded of its reply."""
    with RunReader(folder) as run:
        return {
            cell.id: [
                (call.address, call.model, call.text, structs.replace(call.cost, at=None))
                for call in cell.calls
            ]
            for cell in run.cells(range(len(run.sweep))).values()
        }


@pytest.mark.wire
@pytest.mark.known_truth
@pytest.mark.parametrize("before", [("--limit 3", ""), ("",), ("--limit 1", "--limit 2", "")])
def test_a_run_after_others_records_what_a_fresh_run_records(place, command, before):
    """The fresh run has the same store and no run folder next to it."""
    for words in before:
        assert command("run", "small.yaml", *words.split()).code == 0
    for name in ("runs", "store"):
        shutil.copytree(place / name, place / "kept" / name)
    grown = command("run", "small.yaml", *MORE, "--run-folder", "runs/grown")
    fresh = command("run", "small.yaml", *MORE, "--run-folder", "fresh", "--store", "kept/store")
    assert grown.code == 0 and grown.out == fresh.out
    assert asked(place / "runs/grown") == asked(place / "fresh")
    assert written(place / "runs/grown") == written(place / "fresh")
    replayed = command("replay", "runs/grown")
    assert replayed.code == 0 and "112 of 112 outcomes are equal to the byte" in replayed.err


def test_a_new_row_asks_its_own_calls_alone(place, command, finished):
    old, before = asked(finished.folder), everything(finished.folder)
    more = command("run", "small.yaml", *MORE[:2], "--run-folder", "runs/more")
    assert more.code == 0, more.err
    cells = asked(place / "runs/more")
    sent = {
        call[0]
        for calls_of_cell in cells.values()
        for call in calls_of_cell
        if call[-1].origin == "new"
    }
    assert calls(more.err).new == len(sent) > 0
    assert f"calls: {len(sent)} sent, " in more.err and " from cache" in more.err
    assert old.keys() < cells.keys()
    assert sent.isdisjoint(call[0] for calls_of_cell in old.values() for call in calls_of_cell)
    # The same sweep in another folder: nothing is sent, and the other run is not touched.
    again = command("run", "small.yaml", "--run-folder", "runs/again")
    assert (again.code, again.out) == (0, finished.told.out)
    assert "calls: 0 sent, " in again.err
    assert written(place / "runs/again") == written(finished.folder)
    assert everything(finished.folder) == before


@pytest.mark.parametrize(
    ("case", "expected"),
    [("elsewhere", True), ("deleted", False), ("in both", False), ("nothing shared", False)],
)
def test_another_store_with_the_replies_is_named_before_the_first_call(
    case, expected, place, command, finished, caplog
):
    (place / "store").rename(place / "theirs")
    other = "theirs"
    command("run", "small.yaml", "--run-folder", "runs/again", "--store", other)
    shutil.rmtree(finished.folder)
    words = MORE[:2]
    if case == "deleted":
        shutil.rmtree(place / other)
    elif case == "in both":
        shutil.copytree(place / other, place / "store")
    elif case == "nothing shared":
        words = ("--set", "protocols={propaganda: {}}", "--set", "agents.model=sim/medium")
    grown = command("run", "small.yaml", *words, "--run-folder", "runs/more")
    assert grown.code == 0
    assert (f"has replies to calls of this run, and {place / 'store'}" in caplog.text) == expected
    if expected:
        assert f"add --store {place / other} (runs/again left them there)" in caplog.text
