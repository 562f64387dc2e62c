"""Cells that another run has of the same code are taken over, and not run again."""

import json
import os
import resource
import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from oversight.cache.disk import DiskStore
from oversight.engine.run.folders import note_run
from oversight.engine.run.manifest import read_manifest
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.record.schema import RUN_DB
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.stores import open_store
from oversight.protocols.transcript import Verdict
from tests.command_line import calls
from tests.run_folders import SWAPPED, edited, everything, noted, outcomes, with_failures, written

MORE = ("--set", "protocols.propaganda={}")
"""Two rows more, 16 cells: a propaganda of each agent."""


def test_a_new_folder_of_the_same_sweep_takes_all_over_to_equal_bytes(command, finished):
    before = everything(finished.folder)
    again = command("run", "small.yaml", "--run-folder", "runs/again")
    assert (again.code, again.out) == (0, finished.told.out)
    assert f"reused from runs/{finished.folder.name}: 40 cells" in again.err
    assert "calls" not in again.err
    assert written(finished.folder) == written(Path("runs/again"))
    assert everything(finished.folder) == before
    # What was taken over may be taken over again.
    shutil.rmtree(finished.folder)
    third = command("run", "small.yaml", "--run-folder", "runs/third")
    assert "reused from runs/again: 40 cells" in third.err
    # No run stays open.
    open_files = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.exists()]
    assert not [each for each in open_files if each.startswith(str(Path("runs").resolve()))]


def note(folder: Path, store: str) -> None:
    """As if this machine had left the folder as it is."""
    note_run(folder, read_manifest(folder).id, store, left=True)


def recorded(folder: Path) -> dict[str, tuple[object, ...]]:
    """By the id of each recorded cell, what came out, and the address and reply of each call."""
    with RunTables.open(folder) as tables:
        return {
            cell.id: (cell.outcome, *((call.address, call.text) for call in cell.calls))
            for cell in tables.cells()
        }


def origins(folder: Path) -> set[str]:
    with RunTables.open(folder) as tables:
        return {call.cost.origin for cell in tables.cells() for call in cell.calls}


def test_what_was_said_is_taken_over_with_the_outcomes(command, finished):
    said = recorded(finished.folder)
    assert len(said) == 40
    command("run", "small.yaml", "--run-folder", "runs/again")
    assert recorded(Path("runs/again")) == said
    assert origins(Path("runs/again")) == {"taken over"}
    more = command("run", "small.yaml", *MORE, "--run-folder", "runs/more")
    assert more.code == 0, more.err
    larger = recorded(Path("runs/more"))
    assert len(larger) == 56 and said.items() <= larger.items()
    assert origins(Path("runs/more")) == {"taken over", "new"}
    # Fewer rows, of which one stands elsewhere.
    fewer = ("--set", "protocols={consultancy: {turns: 2}, naive_judge: }")
    command("run", "small.yaml", *fewer, "--run-folder", "runs/fewer")
    assert recorded(Path("runs/fewer")).items() < said.items()
    assert len(recorded(Path("runs/fewer"))) == 24


def test_cells_of_several_runs_keep_their_records(command, finished):
    propaganda = ("--set", "protocols={propaganda: {}, naive_judge: }")
    other = command("run", "small.yaml", *propaganda, "--run-folder", "runs/other")
    assert other.code == 0, other.err
    more = command("run", "small.yaml", *MORE, "--run-folder", "runs/more")
    assert more.code == 0 and more.err.count("reused from ") == 2, more.err
    assert "calls" not in more.err
    alone = recorded(finished.folder) | recorded(Path("runs/other"))
    assert recorded(Path("runs/more")) == {id: alone[id] for id in recorded(Path("runs/more"))}
    assert len(recorded(Path("runs/more"))) == 56
    assert origins(Path("runs/more")) == {"taken over"}
    replayed = command("replay", "runs/more")
    assert "56 of 56 outcomes are equal to the byte" in replayed.err


@pytest.mark.wire
def test_a_larger_grid_runs_only_what_is_new(command, finished):
    more = command("run", "small.yaml", *MORE)
    assert more.code == 0 and "40 cells" in more.err
    apart = command("run", "small.yaml", *MORE, "--run-folder", "apart", "--store", "other")
    assert more.out == apart.out
    assert calls(more.err).new == calls(apart.err).new - calls(finished.told.err).new > 0
    (folder,) = set(Path("runs").iterdir()) - {finished.folder.relative_to(Path.cwd())}
    assert written(folder) == written(Path("apart"))
    # A name that tells two rows apart is this sweep's, whatever it was in the other.
    two = command("run", "small.yaml", "--set", "protocols.debate.rounds=[1, 2]")
    assert "reused from" in two.err and two.code == 0
    newest = max(Path("runs").iterdir(), key=lambda each: (each / RUN_DB).stat().st_mtime)
    assert {each.protocol for each in outcomes(newest)} >= {"debate simultaneous 1 round"}


@pytest.mark.parametrize("other", ["code", "endpoint"])
def test_what_other_code_or_another_endpoint_gave_is_not_taken_over(other, command, finished):
    if other == "code":
        code = read_manifest(finished.folder).code
        rows = dict(code.rows)
        for number, row in enumerate([*rows][-2:]):
            # Other code; and two codes, of which nobody knows which gave a cell.
            rows[row] = ("0" * 16, *rows[row])[: 1 + number]
        noted(finished.folder, code=replace(code, rows=rows))
    else:
        with closing(RunDatabase(finished.folder)) as database:
            grid = json.loads(database.told("grid"))
            grid["identities"]["sim/weak"] = "another endpoint"
            database.tell("grid", json.dumps(grid).encode())
    note(finished.folder, "store")
    again = command("run", "small.yaml", "--run-folder", "runs/again")
    assert f"reused from runs/{finished.folder.name}: 24 cells" in again.err
    assert written(finished.folder) == written(Path("runs/again"))


@pytest.mark.parametrize("change", ["deleted", "replaced", "moved", "never counted"])
def test_nothing_is_taken_over_where_replies_may_be_gone(change, place, command, finished):
    if change in ("deleted", "replaced"):
        store = DiskStore(place / "store")
        key = next(iter(store.keys()))
        value = store.get(key)
        assert value is not None
        if change == "deleted":
            assert store.delete_many([key]) == 1
        else:
            store.put_many([(key, value)])
        store.close()
    elif change == "moved":
        noted(finished.folder, store_id="0" * 32)
    elif change == "never counted":
        noted(finished.folder, losses=None)
    note(finished.folder, "store")
    again = command("run", "small.yaml", "--run-folder", "runs/again")
    assert again.code == 0 and "reused from" not in again.err
    assert written(finished.folder) == written(Path("runs/again"))


@pytest.mark.parametrize("what", ["outcomes", "another id", "seen by a run"])
def test_a_run_that_comes_back_changed_is_not_taken_over(what, command, finished):
    whole = written(finished.folder)
    if what == "another id":
        noted(finished.folder, id="../../elsewhere")
    else:
        edited(finished.folder, f"UPDATE cells SET {SWAPPED} WHERE place = 3")
    if what == "seen by a run":
        assert command("run", "small.yaml").code == 0
    again = command("run", "small.yaml", "--run-folder", "runs/again")
    assert again.code == 0 and "reused from" not in again.err
    assert written(Path("runs/again")) == whole


def test_the_store_that_a_folder_names_is_not_opened(place, command, finished, caplog):
    command("run", "small.yaml", "--limit", "1", "--store", "theirs", "--run-folder", "other")
    noted(finished.folder, store=str(place / "theirs"))
    assert command("replay", finished.folder).code == 0
    assert not caplog.text
    noted(finished.folder, id="0123456789abcdef")
    assert command("replay", finished.folder).code == 0
    assert "it was not made on this machine" in caplog.text


def test_failures_that_may_pass_and_damaged_runs_are_not_taken_over(place, command, finished):
    with_failures(finished.folder, "Overloaded", {3, 4})
    with_failures(finished.folder, "unreadable", {7})
    note(finished.folder, "store")
    (place / "runs/broken").mkdir()
    (place / "runs/broken" / RUN_DB).write_text("{")
    shutil.copytree(finished.folder, place / "runs/twice")
    twice = place / "runs/twice" / RUN_DB
    twice.write_bytes(twice.read_bytes()[:-4096])
    again = command("run", "small.yaml", "--run-folder", "runs/again")
    assert again.code == 1 and ": 38 cells" in again.err
    failed = [each.place for each in outcomes(place / "runs/again") if each.failure]
    assert failed == [7]


def test_a_replay_that_gives_something_else_says_what(command, finished):
    edited(finished.folder, f"UPDATE cells SET {SWAPPED}")
    replay = command("replay", finished.folder)
    assert replay.code == 1
    assert "0 of 40 outcomes are equal to the byte" in replay.err
    assert "first difference: cell " in replay.err and " recorded, " in replay.err
    assert "the code of its row is unchanged" in replay.err


def test_a_replay_compares_what_was_said_with_the_record(command, finished):
    assert "40 of 40 outcomes are equal to the byte" in command("replay", finished.folder).err
    with closing(RunDatabase(finished.folder)) as database:
        for cell in list(database.cells()):
            if isinstance(cell.outcome, Verdict) and cell.outcome.transcript.turns:
                first, *rest = cell.outcome.transcript.turns
                turns = (structs.replace(first, conceded=True), *rest)
                said = structs.replace(cell.outcome.transcript, turns=turns)
                end = structs.replace(cell.outcome, transcript=said)
                database.write([structs.replace(cell, outcome=end)])
    replay = command("replay", finished.folder)
    assert replay.code == 1
    assert "turn 1, conceded: True recorded, False now" in replay.err


@pytest.mark.parametrize("mode", ["refresh", "off"])
def test_who_asks_for_all_of_it_again_takes_nothing_over(mode, command, finished):
    again = command("run", "small.yaml", "--run-folder", "runs/again", "--cache", mode)
    assert again.code == 0 and "reused from" not in again.err
    assert calls(again.err).new >= calls(finished.told.err).new


@pytest.mark.real
def test_cells_are_taken_over_on_postgres_until_replies_are_lost(place, command, postgres):
    url = postgres.database()
    assert command("run", "small.yaml", "--run-folder", "runs/one", "--store", url).code == 0
    again = command("run", "small.yaml", "--run-folder", "runs/two", "--store", url)
    assert "reused from runs/one: 40 cells" in again.err, again.err
    with closing(open_store(url)) as store:
        assert store.losses == 0
        one = next(iter(store.keys()))
        value = store.get(one)
        # A reply that is deleted is known by its key, and one that is replaced ends it.
        assert store.delete_many([one]) == 1 and store.delete_many(["nothing"]) == 0
        assert store.losses == 1
        store.put_many([(one, value)])
        assert store.losses == 1
        store.put_many([(one, value)])
        assert store.losses == 2
    third = command("run", "small.yaml", "--run-folder", "runs/three", "--store", url)
    assert "reused from" not in third.err


def test_a_full_disk_is_no_damage_of_the_run_that_is_taken_over(command, finished, monkeypatch):
    take, tried = RunDatabase.take, list[int]()

    def without_room(
        self: RunDatabase, source: Path, moved: Mapping[int, tuple[int, int, int]]
    ) -> None:
        tried.append(len(moved))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, limits[1]))
        try:
            take(self, source, moved)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    monkeypatch.setattr(RunDatabase, "take", without_room)
    again = command("run", "small.yaml", "--run-folder", "runs/again")
    assert again.code == 3 and again.err.startswith("runs/again/run.db may not grow "), again.err
    assert tried == [40], "nothing is run after it"
