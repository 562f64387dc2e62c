"""A store that is damaged, cut short, exchanged or gone: nothing wrong is served, all is told, and
nothing is paid again unasked."""

import random
import re
import shutil
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.databases import Server
from tests.sittings import FLIGHTS, Bench, Vendor, moody
from tests.waiting import PATIENCE

STORE = "cache.db"


def change(store: Path | str | None, *statements: str) -> None:
    with closing(sqlite3.connect(Path(str(store)) / STORE, timeout=30)) as db, db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.campaign
def test_a_run_that_meets_damage_stops_neither_guessing_nor_paying(campaign, calm, tmp_path):
    with Vendor(latency=0.05) as vendor:
        for n in range(campaign.size(1, 10)):
            bench = Bench(tmp_path / f"{n}", vendor.url, problems=10)
            assert bench.cut(vendor, 60).wait() == 130
            stored, backup = bench.stored(), tmp_path / f"backup-{n}"
            shutil.copytree(str(bench.store), backup)
            # One byte of every stored value.
            flipped = f"substr(value, 1, {n}) || x'ff00' || substr(value, {n} + 3)"
            change(bench.store, f"UPDATE Cache SET value = CAST({flipped} AS BLOB)")
            lines, sent_before = bench.lines(), len(vendor.book)
            message = bench.ends(3)
            assert "is damaged" in message and "when that is put right" in message
            assert "oversight cache import" in message and bench.lines()[: len(lines)] == lines
            assert not stored & set(vendor.prompts(sent_before)), "a damaged reply was paid again"
            # With the replies of the backup it resumes, and pays nothing
            # twice.
            brought = bench.cache("import", str(backup))
            assert brought.wait() == 0, brought.told
            bench.complete()
            assert not stored & set(vendor.prompts(sent_before))
            # The report says which replies were brought.
            assert bench.lines() == calm(10).lines()


LOSSES = ("deleted", "killed", *(pytest.param(loss, marks=pytest.mark.nightly)
          for loss in ("emptied", "cut short")))  # fmt: skip


@pytest.mark.campaign
@pytest.mark.parametrize("loss", LOSSES)
def test_a_store_that_has_lost_replies_is_refused_without_a_flag(loss, campaign, calm, tmp_path):
    with Vendor(latency=0.05) as vendor:
        for n in range(campaign.size(1, 5)):
            bench = Bench(tmp_path / f"{n}", vendor.url)
            if loss == "killed":
                bench.cut(vendor, 55, signal.SIGKILL)
            else:
                assert bench.cut(vendor, 30).wait() == 130
            assert isinstance(bench.store, Path)
            match loss:
                case "cut short":
                    file = bench.store / STORE
                    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
                case "emptied":
                    change(bench.store, "DELETE FROM Cache")
                case _:
                    shutil.rmtree(bench.store)
            sent_before = len(vendor.book)
            message = bench.ends(2)
            assert len(vendor.book) == sent_before, "it paid again without a word"
            if loss != "cut short":
                assert "--allow-missing-replies" in message and "oversight cache import" in message
            else:
                assert "malformed" in message
                shutil.rmtree(bench.store)
            bench.complete("--allow-missing-replies")
            assert bench.outcomes() == calm(6).outcomes()


@pytest.mark.campaign
def test_salvage_saves_the_rest_and_nothing_is_paid_again_unasked(campaign, calm, tmp_path):
    chance = random.Random(campaign.seed)
    saved = lost = 0
    with Vendor(latency=0.05) as vendor:
        for n in range(campaign.size(1, 20)):
            bench = Bench(tmp_path / f"{n}", vendor.url, problems=10)
            assert bench.cut(vendor, 80).wait() == 130 and isinstance(bench.store, Path)
            stored, file = bench.stored(), bench.store / STORE
            data = bytearray(file.read_bytes())
            pages = len(data) // 4096
            # Not the first pages: the schema and the roots of its tables are there.
            for page in chance.sample(range(pages // 4, pages), 2):
                data[page * 4096 : page * 4096 + 4096] = chance.randbytes(4096)
            file.write_bytes(data)
            verified, recovered = bench.cache("verify"), bench.cache("verify", "--recover")
            assert verified.wait() == 1, verified.told
            assert recovered.wait() in (0, 1), recovered.told
            salvaged, sent_before = bench.stored(), len(vendor.book)
            assert salvaged <= stored
            saved, lost = saved + len(salvaged), lost + len(stored - salvaged)
            if salvaged != stored:
                assert "--allow-missing-replies" in bench.ends(2)
            assert len(vendor.book) == sent_before
            bench.complete("--allow-missing-replies")
            assert not salvaged & set(vendor.prompts(sent_before)), "what was saved was paid again"
            assert bench.outcomes() == calm(10).outcomes()
    print(f"{saved} replies saved, {lost} lost in pages that were overwritten")


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("folder", marks=pytest.mark.wire),
        pytest.param("database", marks=pytest.mark.real),
    ],
)
def test_replies_that_go_in_the_middle_of_a_run_are_missed(tmp_path, place, request):
    with Vendor(latency=0.2) as vendor:
        bench = Bench(tmp_path / "bench", vendor.url)
        if place == "database":
            server: Server = request.getfixturevalue("postgres")
            bench.store = server.database()
        with vendor.held(40) as reached:
            sitting = bench.start()
            assert reached.wait(PATIENCE)
            if place == "database":
                import psycopg

                with psycopg.connect(str(bench.store), autocommit=True) as db:
                    db.execute("TRUNCATE replies")
            else:
                change(bench.store, "DELETE FROM Cache")
        assert sitting.wait() == 3, sitting.told
    assert re.search(r"the store has lost [\d,]+ repl(y|ies) while this run used it", sitting.told)


@pytest.mark.campaign
@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_goes_under_a_run_stops_it_and_nothing_more_is_paid(tmp_path, calm, replaced):
    with Vendor(moody, latency=0.3, spread=0.3) as vendor:
        bench = Bench(tmp_path / "bench", vendor.url)
        assert isinstance(bench.store, Path)
        other = calm(10)
        with vendor.held(30) as reached:
            sitting = bench.start()
            assert reached.wait(PATIENCE)
            gone = len(vendor.book)
            bench.store.rename(tmp_path / "gone")
            if replaced:
                shutil.copytree(str(other.store), bench.store)
        assert sitting.wait() == 3, sitting.told
        assert "was deleted, moved or replaced while it was in use" in sitting.told
        assert re.search(r"cells done, \d+ paid replies could not be saved", sitting.told)
        assert " 0 lost" not in sitting.told
        # A wave was out; the first of it to land found the store gone.
        assert len(vendor.book) - gone <= 2 * FLIGHTS
        sent_before = len(vendor.book)
        assert "--allow-missing-replies" in bench.ends(2) and len(vendor.book) == sent_before
        if replaced:
            assert bench.stored() == other.stored()
        shutil.rmtree(bench.store, ignore_errors=True)
        (tmp_path / "gone").rename(bench.store)
        bench.complete()
        bench.replays()


@pytest.mark.campaign
def test_another_store_is_refused_before_the_first_call(tmp_path, calm):
    other = shutil.copytree(str(calm(10).store), tmp_path / "other")
    with Vendor(moody, latency=0.3, spread=0.3) as vendor:
        bench = Bench(tmp_path / "bench", vendor.url, text="Are pears in crate {n}?")
        assert bench.cut(vendor, 25).wait() == 130
        sent_before = len(vendor.book)
        bench.store = other
        assert f"{other} is another store than ~/store, in which" in bench.ends(2)
        assert len(vendor.book) == sent_before
        bench.complete("--allow-missing-replies")
        bench.complete()
        assert len(vendor.book) > sent_before


@pytest.mark.campaign
def test_stopped_refresh_resumes_after_its_refreshed_calls(tmp_path):
    with Vendor(moody, latency=0.3, spread=0.3) as vendor:
        Bench(tmp_path, vendor.url).complete()
        first = len(vendor.book)
        bench = Bench(tmp_path, vendor.url)
        bench.run = tmp_path / "fresh"
        assert bench.cut(vendor, 40, signal.SIGINT, "--cache", "refresh").wait() == 130
        assert len(vendor.book) < 2 * first
        bench.complete("--cache", "refresh")
        refreshed = Counter(vendor.prompts(first))
        assert set(refreshed.values()) == {1}
        # Judges are asked about new speeches, so that the prompts of some are new.
        assert len(refreshed) == first
        bench.replays()
