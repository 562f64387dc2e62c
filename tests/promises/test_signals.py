"""Signals at any moment, twice in a row, and a process that is put to sleep."""

import random
import signal
import threading
import time

import pytest

from tests.sittings import FLIGHTS, Bench, Sitting, Vendor
from tests.waiting import PATIENCE, until

HEARD = "Ctrl-C again"
"""Output of a run when it notices a signal."""


def _reached(event: threading.Event, sitting: Sitting) -> bool:
    """Whether the event is set before the process ends by itself."""
    while not event.wait(0.01):
        if sitting.process.poll() is not None:
            return False
    return sitting.process.poll() is None


@pytest.mark.wire
def test_p6_a_signal_saves_every_flight_and_lets_nothing_more_out(campaign, calm, tmp_path):
    chance = random.Random(campaign.seed)
    goal, problems, late = campaign.size(3, 50), campaign.size(6, 10), []
    signals = rounds = 0
    distinct = len(calm(problems).stored())
    with Vendor(latency=0.1, spread=0.3) as vendor:
        while signals < goal:
            bench = Bench(tmp_path / f"round-{rounds}", vendor.url, problems=problems)
            bench.sweep.write_text(bench.sweep.read_text().replace("lab,", "lab, connections: 2,"))
            sent_before, code = len(vendor.book), -1
            while code:
                number = chance.choice((signal.SIGINT, signal.SIGTERM))
                reached = vendor.after(chance.randrange(1, 50))
                sitting = bench.start()
                if signals < goal and _reached(reached, sitting):
                    sitting.signal(number)
                    until(lambda s=sitting: HEARD in s.told or s.process.poll() is not None)
                    sent_at_signal = len(vendor.book)
                    code = sitting.wait()
                    assert code in (0, 128 + number), sitting.told
                    late.append(len(vendor.book) - sent_at_signal)
                    signals += code != 0
                else:
                    code = sitting.wait()
                assert bench.stored() == set(vendor.prompts(sent_before)), "a flight was not saved"
            assert len(vendor.book) - sent_before == distinct, "a call was paid twice"
            assert bench.outcomes() == calm(problems).outcomes()
            rounds += 1
    print(f"{signals} signals in {rounds} rounds; requests that came after one: {late}")
    # Calls in flight may arrive; waiting calls, also for a connection, are not sent.
    assert max(late, default=0) <= 2 < FLIGHTS


@pytest.mark.wire
def test_p6_a_second_signal_abandons_flights_and_keeps_what_landed(campaign, tmp_path):
    chance = random.Random(campaign.seed)
    for n in range(campaign.size(1, 10)):
        with Vendor() as quick:
            bench = Bench(tmp_path / f"{n}", quick.url, problems=4)
            bench.complete("--limit", "2", "--run-folder", str(tmp_path / f"{n}" / "first"))
            completed = bench.stored()
        with Vendor(latency=300.0) as stuck:
            arrived = stuck.after(chance.randrange(1, 4))
            bench = Bench(tmp_path / f"{n}", stuck.url, problems=4)
            sitting = bench.start()
            assert arrived.wait(PATIENCE)
            first, second = chance.choices((signal.SIGINT, signal.SIGTERM), k=2)
            sitting.signal(first)
            until(lambda s=sitting: HEARD in s.told)
            sitting.signal(second)
            assert sitting.wait() == 128 + first, sitting.told
            assert "abandoned" in sitting.told and "resume with" in sitting.told
            assert completed and bench.stored() == completed
            assert bench.lines(), "cells that the store could answer were finished"


@pytest.mark.campaign
def test_a_process_that_sleeps_for_a_while_goes_on_as_if_nothing_had_been(campaign, calm, tmp_path):
    chance = random.Random(campaign.seed)
    with Vendor(latency=0.1, spread=0.3) as vendor:
        for n in range(campaign.size(1, 10)):
            sent_before = len(vendor.book)
            reached = vendor.after(chance.randrange(1, 60))
            bench = Bench(tmp_path / f"{n}", vendor.url)
            sitting = bench.start()
            assert reached.wait(PATIENCE)
            sitting.signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.2, 2.0))
            sitting.signal(signal.SIGCONT)
            assert sitting.wait() == 0, sitting.told
            assert len(vendor.book) - sent_before == len(calm(6).stored())
            assert bench.outcomes() == calm(6).outcomes()


@pytest.mark.campaign
def test_questions_of_ten_megabytes_are_asked_stored_and_resumed(campaign, tmp_path):
    text = "Crate {n}: " + "how many apples? " * (campaign.size(2_000_000, 10_000_000) // 17)
    with Vendor() as vendor:
        bench = Bench(tmp_path / "large", vendor.url, problems=2, text=text, lanes=2)
        sitting = bench.cut(vendor, 5)
        assert sitting.wait() in (0, 130), sitting.told
        stored, sent_before = bench.stored(), len(vendor.book)
        bench.complete()
        assert not stored & set(vendor.prompts(sent_before))
        assert len(vendor.book) == len(set(vendor.prompts()))
        bench.replays()
