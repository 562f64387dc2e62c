"""Two runs at one folder, two on one store, and a clock that jumps."""

from collections import Counter

import pytest

from tests.command_line import ROOT
from tests.sittings import Bench, Vendor, moody
from tests.waiting import PATIENCE

BUSY = 7
"""The exit code of a command whose run somebody else runs."""

JUMPS = """\
import random, time
_chance, _true = random.Random({seed}), time.time
time.time = lambda: _true() + _chance.choice((0, 0, 86400 * 365, -3600, -3 * 10**9, 10**12))
"""
"""A wall clock that is wrong in another way whenever it is read: before 1970, after 9999."""


@pytest.mark.wire
def test_a_second_run_at_one_folder_names_the_first_and_touches_nothing(tmp_path):
    with Vendor() as vendor:
        bench = Bench(tmp_path / "bench", vendor.url)
        with vendor.held(1) as arrived:
            first = bench.start()
            assert arrived.wait(PATIENCE)
            message, status = bench.ends(BUSY), bench.ends(0, command=("status",))
        assert f"another process (pid {first.process.pid}, since " in message
        assert "Watch it: oversight status " in message and f"pid {first.process.pid}" in status
        assert first.wait() == 0, first.told
        assert len(vendor.book) == len(set(vendor.prompts()))


@pytest.mark.campaign
def test_two_runs_on_one_store_end_alike_and_lose_nothing(campaign, tmp_path):
    paid_twice = 0
    with Vendor(moody, latency=0.1, spread=0.3) as vendor:
        for n in range(campaign.size(1, 10)):
            sent_before, shared = len(vendor.book), tmp_path / f"store-{n}"
            pair = [Bench(tmp_path / f"{n}-{k}", vendor.url, store=shared) for k in range(2)]
            sittings = [bench.start() for bench in pair]
            assert [sitting.wait() for sitting in sittings] == [0, 0], sittings[0].told
            prompts = Counter(vendor.prompts(sent_before))
            # Each process asks for a call once at most, and all of it is in the store.
            assert max(prompts.values()) <= 2 and pair[0].stored() == prompts.keys()
            paid_twice += len(vendor.book) - sent_before - len(prompts)
            assert pair[0].outcomes() == pair[1].outcomes()
            for bench in pair:
                bench.replays()
    # Otherwise the two never met, and the test has seen nothing.
    assert paid_twice


@pytest.mark.campaign
def test_a_wall_clock_that_jumps_changes_nothing(campaign, calm, tmp_path):
    with Vendor() as vendor:
        for n in range(campaign.size(1, 10)):
            site = tmp_path / f"site-{n}"
            site.mkdir()
            (site / "sitecustomize.py").write_text(JUMPS.format(seed=campaign.seed + n))
            bench = Bench(tmp_path / f"{n}", vendor.url)
            bench.environment = {"PYTHONPATH": f"{site}:{ROOT}"}
            bench.complete()
            assert bench.outcomes() == calm(6).outcomes() and bench.stored() == calm(6).stored()
            bench.replays()
