"""A run folder: recorded cells, its lock, and refusals."""

import asyncio
import fcntl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.cache.writer import MAX_HELD, GroupCommit
from oversight.engine.errors import FolderBusy, RunFolderError, UsageError
from oversight.engine.run import run_folder
from oversight.engine.run.folders import read_manifest
from oversight.engine.run.reader import Follower, RunReader
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.run.record.schema import RUN_DB
from oversight.engine.run.run_folder import OUTCOMES, SWEEP
from oversight.engine.sweep.sweep import Sweep
from oversight.engine.system.files import holder, let_go, locked, take_lock
from tests.disks import read_only
from tests.run_folders import (
    CELLS,
    GRID,
    TEXT,
    end_of,
    ended,
    folder,
    land,
    outcome,
    outcomes,
    refused,
    written,
)


def test_recorded_cells_are_read_back(half):
    with folder(half) as run:
        assert [run.has(cell.place) for cell in CELLS] == [True] * 4 + [False] * 4
        assert (run.finished, run.failed, run.complete) == (4, 0, False)
        land(run, CELLS[4:], failed=[6])
        assert (run.finished, run.failed, run.complete) == (8, 1, True)


def test_a_cell_outside_the_sweep_is_refused_by_name(half):
    beyond = ended(structs.replace(CELLS[0], place=8), end_of(CELLS[0]))
    with closing(RunDatabase(half)) as database:
        database.write([beyond])
    message = refused(half)
    assert "cell 8 is none of this sweep" in message and str(half / RUN_DB) in message
    assert holder(half) is None
    with pytest.raises(RunFolderError, match="none of this sweep"):
        outcomes(half)


def test_lines_go_when_a_run_goes_on_and_are_there_again_when_it_settles(half):
    """Settled, resumed, settled again."""
    with folder(half) as run:
        land(run, CELLS[4:], failed=[5])
        run.finalize()
    first = written(half)
    with folder(half) as run:
        assert run.complete and written(half) == first and run.forget_failures() == (5,)
        assert not (half / OUTCOMES).exists()
        land(run, [CELLS[5]])
        run.finalize()
    assert written(half) == b"".join(map(outcome, CELLS)) != first


def test_outcomes_are_followed_as_they_land_and_from_the_first_when_cells_run_again(half):
    again = list[None]()
    follower = Follower(RunReader(half), lambda: again.append(None))
    with folder(half) as run:
        assert [outcome.place for outcome in follower.new()] == [0, 1, 2, 3]
        assert not list(follower.new())
        land(run, [CELLS[7], CELLS[5]], failed=[5])
        assert [outcome.place for outcome in follower.new()] == [7, 5]
        run.forget_failures()
        land(run, [CELLS[5]])
        assert not again and [outcome.place for outcome in follower.new()] == [0, 1, 2, 3, 5, 7]
        assert not list(follower.new()) and len(again) == 1


@pytest.mark.wire
@given(st.permutations(CELLS), st.sets(st.integers(0, 7)))
def test_finished_run_is_equal_to_the_byte_in_any_order_of_cells(tmp_path_factory, order, failed):
    path = tmp_path_factory.mktemp("run") / "s"
    with folder(path) as run:
        land(run, order, sorted(failed))
        run.finalize()
        assert written(path) == b"".join(outcome(cell, cell.place in failed) for cell in CELLS)
        assert (run.finished, run.failed) == (8, len(failed))
        run.finalize()
    assert [record.place for record in outcomes(path)] == list(range(8))


def test_the_folder_of_another_sweep_is_refused_by_name(half):
    assert refused(half, Sweep("t", GRID.problems, GRID.rows)) == (
        f"{half} was made from a different sweep (s, 8 cells), settings or --limit; "
        "choose another folder with --run-folder"
    )


def test_a_folder_whose_run_was_refused_before_it_began_is_gone(tmp_path):
    created, existing = tmp_path / "made", tmp_path / "found"
    existing.mkdir()
    for path in (created, existing):
        with pytest.raises(UsageError, match="no key"), folder(path):
            raise UsageError("no key")
    assert (created.exists(), existing.exists()) == (False, True)
    for fault in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(fault), folder(created):
            raise fault
        assert created.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "truncated"), (b'{"overrides": [], "color": "red"}', "unknown field `color`")],
)
def test_a_damaged_manifest_is_reported(half, content, message):
    with closing(RunDatabase(half)) as database:
        database.tell("manifest", content)
    refusal = refused(half)
    assert refusal.startswith(f"{half / RUN_DB}: its manifest is damaged: ") and message in refusal


@pytest.mark.parametrize(
    "theirs", [{"thesis.tex": b"x"}, {SWEEP: b"another sweep"}, {RUN_DB: b"my own database"}]
)
def test_a_folder_of_the_users_is_never_written_into(tmp_path, theirs):
    for name, content in theirs.items():
        (tmp_path / name).write_bytes(content)
    (strange,) = theirs
    message = refused(tmp_path)
    assert strange in message and (
        "not a run folder" in message or "not the database of a run" in message
    )
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == theirs


@pytest.mark.parametrize("names", [(), (SWEEP,), (SWEEP, RUN_DB)])
def test_a_folder_whose_making_was_cut_off_is_made_whole(half, tmp_path, names):
    path = tmp_path / "cut"
    path.mkdir()
    for name in names:
        (path / name).write_bytes(b"" if name == RUN_DB else (half / name).read_bytes())
    (path / f".{SWEEP}.new").write_bytes(b"{")
    (path / "lock").touch()
    with folder(path) as run:
        assert run.finished == 0
    assert {SWEEP, RUN_DB} == {file.name for file in path.iterdir()}
    assert (path / SWEEP).read_bytes() == TEXT and RunReader(path).problems == GRID.problems
    assert read_manifest(path).identity == GRID.identity


def test_a_folder_without_its_database_names_the_command_to_rebuild_it(half):
    (half / "ledger").touch()
    (half / RUN_DB).unlink()
    message = refused(half)
    assert f"{half} has lost its run.db" in message and f"oversight cache rebuild {half}" in message
    with pytest.raises(RunFolderError, match=r"has no run\.db; make it again"):
        read_manifest(half)
    assert {file.name for file in half.iterdir()} == {SWEEP, "ledger"}


def test_a_file_in_the_way_is_reported(path):
    path.parent.mkdir()
    path.write_text("x")
    assert refused(path) == f"{path} is a file, but a folder is needed: choose another name"


@pytest.mark.wire
def test_a_read_only_folder_is_reported_and_can_be_read(half):
    with read_only(half):
        assert refused(half).startswith(f"{half} cannot be written: ") and holder(half) is None
        assert len(outcomes(half)) == 4


def test_a_cell_that_could_not_be_written_has_no_outcome_and_is_added_later(half, monkeypatch):
    def full(self: RunDatabase, cells: object) -> None:
        raise RunFolderError("no room")

    with folder(half) as run:
        with monkeypatch.context() as patch, pytest.raises(RunFolderError, match="no room"):
            patch.setattr(RunDatabase, "write", full)
            land(run, CELLS[4:])
        assert [run.has(cell.place) for cell in CELLS] == [True] * 4 + [False] * 4
        land(run, CELLS[4:])
        assert run.complete


def test_a_store_with_fewer_replies_than_the_run_saved_is_reported(half):
    with folder(half) as run:
        run.check_store(lambda: 1, Path("/store"))
        with pytest.raises(RunFolderError, match="1 or more there"):
            run.check_store(lambda: 0, Path("/store"))
        run.change(replies=1500, store_id="ours")
    with folder(half) as run:
        for id in ("", "ours"):
            run.check_store(lambda: 1500, Path("/store"), id)
        with pytest.raises(RunFolderError, match="/store is another store than"):
            run.check_store(lambda: 1500, Path("/store"), "theirs")
        with pytest.raises(RunFolderError) as fault:
            run.check_store(lambda: 1499, Path("/other"))
    assert str(fault.value) == (
        f"/other holds 1,499 replies, and {half} left 1,500 or more there: name the right store "
        "with --store, bring them back with oversight cache import BACKUP --store /other, or pay "
        "again for lost replies with --allow-missing-replies"
    )


def test_one_folder_is_not_run_twice_in_one_process_either(half):
    with folder(half):
        assert "another process (pid " in refused(half)
    with folder(half):
        pass


def test_a_network_file_system_is_reported(path, monkeypatch, caplog):
    monkeypatch.setattr(run_folder, "is_network", lambda place: place == path)
    with folder(path):
        assert f"{path} lies on a network file system: run it from one machine" in caplog.text


def test_first_fault_is_reported_if_closing_fails_as_well(half, monkeypatch):
    close = RunDatabase.close

    def full(self: RunDatabase) -> None:
        close(self)
        raise RunFolderError("no room")

    monkeypatch.setattr(RunDatabase, "close", full)
    with pytest.raises(UsageError, match="no key"), folder(half):
        raise UsageError("no key")
    with pytest.raises(RunFolderError, match="no room"), folder(half):
        pass


def test_one_at_a_time_has_the_lock_though_its_file_comes_and_goes(half):
    count = half / "count"
    count.write_text("0")

    def add(times: int) -> None:
        while times:
            with suppress(FolderBusy), locked(half):
                count.write_text(str(int(count.read_text()) + 1))
                times -= 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, [50] * 4))
    assert count.read_text() == "200" and not (half / "lock").exists()


def test_one_of_two_waiting_threads_takes_the_lock_after_a_look(half):
    def taken(_: int) -> int | None:
        try:
            return take_lock(half)
        except FolderBusy:
            return None

    with (half / "lock").open("w") as looks, ThreadPoolExecutor(2) as threads:
        fcntl.flock(looks, fcntl.LOCK_SH)
        both = threads.map(taken, range(2))
        time.sleep(0.05)
        fcntl.flock(looks, fcntl.LOCK_UN)
        got = [lock for lock in both if lock is not None]
    assert len(got) == 1
    let_go(half, got[0])


def test_the_lock_of_a_folder_that_took_the_name_of_another_stays(half):
    with locked(half):
        half.rename(half.with_name("moved"))
        half.mkdir()
        other = take_lock(half)
    with pytest.raises(FolderBusy), locked(half):
        pass
    let_go(half, other)
    assert not (half / "lock").exists()


def test_a_group_that_is_written_while_it_is_closed_is_the_last() -> None:
    writing, written = threading.Event(), list[int]()

    def write(items: Sequence[int]) -> None:
        writing.set()
        written.extend(items)

    async def main() -> None:
        group = GroupCommit[int, None](write, lambda *_: None, name="one", seconds=0, most=1)
        group.put(1)
        group.put(2)
        writing.wait()
        group.close()
        await asyncio.sleep(0.01)
        assert "one" not in {thread.name for thread in threading.enumerate()}

    asyncio.run(main())
    assert written == [1]


def test_the_loop_hears_while_the_disk_stands_still() -> None:
    """A slow disk delays the run, but not the event loop, which handles signals."""
    moving, landed = threading.Event(), list[int]()

    def write(items: Sequence[int]) -> None:
        moving.wait()

    async def main() -> None:
        group = GroupCommit[int, None](
            write, lambda items, _: landed.extend(items), name="slow", seconds=0.1, most=256
        )
        for n in range(256 + MAX_HELD):
            group.put(n)
        assert group.full and not landed
        waiting = asyncio.create_task(group.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        moving.set()
        await waiting
        await group.flush()
        group.close()

    asyncio.run(main())
    assert landed == [*range(256 + MAX_HELD)]
