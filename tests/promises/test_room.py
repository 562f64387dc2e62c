"""A full disk, for every kind of write: nothing is corrupted, and the run resumes with room."""

import random
import re
from pathlib import Path

import pytest

from tests.desk import Desk, counts
from tests.disks import MOUNTS, disk, read_only
from tests.sittings import FLIGHTS, Bench, Vendor, moody
from tests.waiting import PATIENCE, end, until

needs_a_disk = pytest.mark.skipif(not MOUNTS, reason="needs a file system of its own")


@pytest.mark.campaign
def test_p4_full_at_any_write_corrupts_nothing_and_goes_on_with_room(campaign, calm, tmp_path):
    """The first write after that fails: of store, log, outcomes, manifest or sweep files."""
    chance = random.Random(campaign.seed)
    stops = points = 0
    with Vendor(latency=0.05) as vendor:
        while points < campaign.size(4, 120):
            with disk(tmp_path / f"disk-{points}") as small:
                bench = Bench(small.folder / "bench", vendor.url, problems=8, logs=tmp_path)
                room = chance.choice((chance.randrange(60_000), chance.randrange(600_000)))
                points += 1
                if MOUNTS:
                    small.leave(room)
                else:
                    bench.largest_file = room
                sent_before = len(vendor.book)
                sitting = bench.start()
                code = sitting.wait()
                assert code in (0, 2, 3), sitting.told
                assert "Traceback" not in sitting.told, sitting.told
                small.make_room()
                bench.largest_file = None
                # Where nothing was asked yet, the store may have been cut off while it was made.
                resumed = len(vendor.book)
                stored = bench.stored() if resumed > sent_before else set()
                if code == 3:
                    stops += 1
                    # Only what was out is lost; nothing more was admitted.
                    assert resumed - sent_before - len(stored) <= 2 * FLIGHTS
                bench.complete()
                assert not stored & set(vendor.prompts(resumed)), "a stored call was sent again"
                assert stored <= bench.stored(), "a stored reply was lost"
                assert bench.outcomes() == calm(8).outcomes()
    print(f"{stops} stops at {points} disks")
    assert stops


@pytest.mark.campaign
@needs_a_disk
def test_cost_of_a_full_disk_is_reported(tmp_path):
    with Vendor(moody, latency=0.3, spread=0.3) as vendor, disk(tmp_path / "disk") as small:
        bench = Bench(tmp_path / "bench", vendor.url, problems=20, store=small.folder / "store")
        with vendor.held(40) as reached:
            sitting = bench.start()
            assert reached.wait(PATIENCE)
            small.fill()
        assert sitting.wait() == 3, sitting.told
        stored = bench.stored()
        match = re.search(r"cells done, ([\d,]+) paid replies could not be saved", sitting.told)
        assert match, sitting.told
        assert int(match[1]) == len(vendor.book) - len(stored) > 0
        small.make_room()
        sent_before = len(vendor.book)
        bench.complete()
        assert not stored & set(vendor.prompts(sent_before))


@pytest.mark.campaign
@needs_a_disk
def test_a_full_disk_where_the_run_folder_is_to_be_made_is_a_stop(tmp_path):
    with Vendor() as vendor, disk(tmp_path / "disk") as small:
        bench = Bench(tmp_path / "bench", vendor.url)
        bench.run = small.folder / "run"
        small.fill()
        message = bench.ends(3)
        assert f"{bench.run}" in message and "No space left on device" in message
        assert not vendor.book
        small.make_room()
        bench.complete()


@pytest.mark.campaign
@needs_a_disk
def test_a_finished_run_on_a_read_only_disk_says_how_to_read_it(tmp_path):
    with Vendor() as vendor:
        bench = Bench(tmp_path / "bench", vendor.url, logs=tmp_path)
        bench.complete()
    assert isinstance(bench.store, Path)
    assert [file.name for file in bench.store.iterdir()] == ["cache.db"]
    with read_only(bench.folder):
        message = bench.ends(2)
        assert "cannot be written, which a running sweep requires" in message
        assert "cut off" not in message and bench.start(command=("report",)).wait() in (0, 2)


@pytest.mark.wire
@needs_a_disk
@pytest.mark.parametrize("room", [2**20, 2**21])
def test_batches_stop_on_a_full_disk_and_continue_when_it_has_room(tmp_path, room):
    (tmp_path / "desk").mkdir()
    desk = Desk(tmp_path / "desk", problems=2)
    with desk.server({"batch": {"delay": 0.3}}) as url, disk(tmp_path / "disk") as small:
        small.leave(room)
        words = ["run", "sweep.yaml", "--limit", "2", "--store", "store", "--batch"]
        words += ["--run-folder", str(small.folder / "run")]
        process = desk.start_words(*words)
        until(lambda: counts(url).get("batches", 0) >= 1)
        small.fill()
        stopped = end(process)
        assert stopped.returncode == 3, stopped.stderr
        assert "Traceback" not in stopped.stderr
        small.make_room()
        result = end(desk.start_words(*words))
        assert result.returncode == 0, result.stderr
        assert counts(url)["lines_twice"] == 0
