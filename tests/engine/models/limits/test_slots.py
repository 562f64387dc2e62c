"""How many calls may be in flight: additive increase, multiplicative decrease, a ceiling."""

import asyncio
import random

import pytest

from oversight.cache.reply import Reply
from oversight.engine.errors import Overloaded
from oversight.engine.models.limits.concurrency import CUT, START, AdaptiveConcurrency
from oversight.engine.models.limits.limits import Limits
from tests.server import ask_in_lanes, sender
from tests.virtual import now, run


def fill(slots: AdaptiveConcurrency) -> int:
    while slots.free:
        slots.take()
    return slots.busy


def round_of_answers(slots: AdaptiveConcurrency) -> None:
    for _ in range(fill(slots)):
        slots.answered()
        slots.busy -= 1


def test_the_width_doubles_each_round_until_the_ceiling():
    slots, widths = AdaptiveConcurrency(200), []
    for _ in range(6):
        widths.append(int(slots.width))
        round_of_answers(slots)
    assert widths == [START, 2 * START, 4 * START, 8 * START, 200, 200]


def test_a_fault_narrows_once_for_all_calls_that_were_in_flight_with_it():
    slots = AdaptiveConcurrency(16)
    for _ in range(fill(slots)):
        slots.overloaded(sent=1.0, now=2.0)
        slots.busy -= 1
    assert slots.width == pytest.approx(16 * CUT)


@pytest.mark.parametrize(("ceiling", "step"), [(1_000, 0.025 * 700), (100, 0.025 * 70), (4, 1)])
def test_after_a_fault_a_round_widens_by_a_fortieth_and_at_least_by_one(ceiling, step):
    slots = AdaptiveConcurrency(ceiling)
    slots.width = float(ceiling)
    fill(slots)
    slots.overloaded(sent=1.0, now=2.0)
    slots.busy = 0
    before = slots.width
    round_of_answers(slots)
    assert slots.width - before == pytest.approx(step, rel=0.35)


def test_a_width_that_is_not_used_does_not_grow():
    slots = AdaptiveConcurrency(100)
    for _ in range(1_000):
        slots.take()
        slots.answered()
        slots.busy -= 1
    assert slots.width == START


def test_overloads_leave_as_many_as_they_must_and_refusals_one():
    slots, widths = AdaptiveConcurrency(100, least=4.0), []
    for narrow in (lambda n: slots.overloaded(n, n), lambda n: slots.refused()):
        for n in range(20):
            fill(slots)
            narrow(n)
            slots.busy = 0
        widths.append(slots.width)
    assert widths == [4, 1]


def test_without_a_ceiling_a_fault_sets_a_width_that_is_lifted_when_it_proves_too_low():
    slots = AdaptiveConcurrency(None)
    assert slots.unlimited
    for _ in range(100):
        slots.take()
    slots.overloaded(sent=1.0, now=2.0)
    assert slots.width == pytest.approx(70)
    slots.busy = 0
    rounds = 0
    while not slots.unlimited:
        round_of_answers(slots)
        rounds += 1
    assert 20 < rounds < 60


def test_a_server_that_takes_40_calls_at_once_is_kept_busy_and_seldom_overloaded():
    async def main():
        rng = random.Random(3)
        serving = turned_away = answered = 0

        async def server(call):
            nonlocal serving, turned_away, answered
            if serving == 40:
                turned_away += 1
                await asyncio.sleep(0.05)
                raise Overloaded("503: busy")
            serving += 1
            await asyncio.sleep(rng.uniform(0.5, 1.5))
            serving -= 1
            answered += 1
            return Reply("yes")

        await ask_in_lanes(sender(server, Limits(concurrency=200)), 200, lambda: now() < 120)
        return answered / 120, turned_away

    per_second, turned_away = run(main())
    assert per_second >= 0.8 * 40
    assert turned_away <= 0.01 * 120 * 40
