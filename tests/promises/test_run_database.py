"""A run is one database: any damage to it is named, and it is restored from the sweep file and the
store, without a call."""

import random
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest

from tests.command_line import Ran, within
from tests.run_folders import recorded
from tests.sittings import Bench, Vendor

DATABASE = "run.db"


def made_again(bench: Bench, vendor: Vendor) -> None:
    """`oversight cache rebuild`, which asks nobody."""
    sent_before = len(vendor.book)
    words = f"cache rebuild {bench.run} --sweep {bench.sweep} --store {bench.store}".split()
    variables = {"OVERSIGHT_STORE": str(bench.store), "HOME": str(bench.folder)}
    result = within(*words, cwd=bench.folder, **variables)
    assert result.code == 0, result.err
    assert len(vendor.book) == sent_before, "a rebuild asked"


def reported(bench: Bench) -> Ran:
    return within("report", str(bench.run), "--json", cwd=bench.folder)


def flipped(content: bytearray, chance: random.Random) -> None:
    content[chance.randrange(4096, len(content))] ^= 0xFF


def truncated(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(1, len(content) // 4096) * 4096 :]


def overwritten(content: bytearray, chance: random.Random) -> None:
    page = chance.randrange(1, len(content) // 4096) * 4096
    content[page : page + 4096] = chance.randbytes(4096)


def emptied(content: bytearray, chance: random.Random) -> None:
    content.clear()


@pytest.mark.campaign
@pytest.mark.parametrize("damage", [flipped, truncated, overwritten, emptied])
def test_damaged_database_gives_no_other_figure_and_is_made_again(tmp_path, campaign, damage):
    chance, reports = random.Random(campaign.seed), 0
    with Vendor() as vendor:
        bench = Bench(tmp_path / "bench", vendor.url, problems=6)
        bench.complete()
        outcomes, report = bench.outcomes(), reported(bench).out
        backup = tmp_path / "kept"
        shutil.copytree(bench.run, backup)
        for _ in range(campaign.size(4, 60)):
            shutil.rmtree(bench.run)
            shutil.copytree(backup, bench.run)
            content = bytearray((backup / DATABASE).read_bytes())
            damage(content, chance)
            (bench.run / DATABASE).write_bytes(content)
            reading = reported(bench)
            if reading.code:
                assert reading.code == 2 and DATABASE in reading.err, reading.err
                assert "oversight cache rebuild" in reading.err and "Traceback" not in reading.err
                made_again(bench, vendor)
                reports += 1
            assert reported(bench).out == report
        assert damage is flipped or reports
        (bench.run / DATABASE).unlink(missing_ok=True)
        shutil.rmtree(bench.run / "report")
        (bench.run / "outcomes.jsonl").unlink()
        made_again(bench, vendor)
        bench.complete()
        assert bench.outcomes() == outcomes and reported(bench).out == report
        bench.replays()


@pytest.mark.campaign
@pytest.mark.parametrize("lost", ["log", "database"])
def test_a_run_cut_off_and_then_lost_goes_on_from_its_store_and_pays_nothing_twice(
    tmp_path, campaign, calm, lost
):
    """A power failure takes the log alone: replies are synced to the store before their cells."""
    with Vendor(latency=0.1, spread=0.3) as vendor:
        for n in range(campaign.size(1, 8)):
            bench = Bench(tmp_path / f"{n}", vendor.url, problems=8)
            assert bench.cut(vendor, 50, signal.SIGKILL).wait() == -signal.SIGKILL
            stored, lines = bench.stored(), bench.lines()
            for name in (f"{DATABASE}-wal", f"{DATABASE}-shm"):
                (bench.run / name).unlink(missing_ok=True)
            if lost == "database":
                (bench.run / DATABASE).unlink()
                message = bench.ends(2)
                assert "has lost its run.db" in message and "oversight cache rebuild" in message
                made_again(bench, vendor)
                assert set(lines) <= set(bench.lines())
            sent_before = len(vendor.book)
            bench.complete()
            assert not stored & set(vendor.prompts(sent_before)), "a stored call was sent again"
            assert bench.outcomes() == calm(8).outcomes()


@pytest.mark.wire
def test_a_settled_run_that_goes_on_settles_to_the_same_bytes(tmp_path):
    """Its lines are gone while it goes on, and there again afterwards."""
    with Vendor() as vendor:
        bench = Bench(tmp_path, vendor.url, problems=4)
        bench.complete()
        outcomes, lines = bench.outcomes(), recorded(bench.run)
        with closing(sqlite3.connect(bench.run / DATABASE)) as db, db:
            db.execute("DELETE FROM cells WHERE place % 3 = 0")
        before = len(vendor.book)
        (bench.run / "outcomes.jsonl").unlink()
        bench.complete()
        bench.complete()
        assert len(vendor.book) == before
        assert bench.outcomes() == outcomes and recorded(bench.run) == lines
        assert bench.run.joinpath("outcomes.jsonl").read_bytes() == b"".join(lines)


@pytest.mark.wire
def test_a_finished_run_is_a_few_kinds_of_file(tmp_path):
    ran = within("demo", "--run-folder", "run", cwd=tmp_path)
    assert ran.code == 0, ran.err
    names = {file.name for file in (tmp_path / "run").iterdir()}
    assert names == {"sweep.yaml", DATABASE, "outcomes.jsonl", "report"}
