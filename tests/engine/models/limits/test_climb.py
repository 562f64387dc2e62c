"""Servers of one's own: few calls at first, more while that pays, fewer once a deadline passes."""

import asyncio
import random
from itertools import pairwise

import pytest

from oversight.cache.reply import Reply, Usage
from oversight.engine.errors import Crowded, OutcomeUnknown
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.limits.climb import OWN_SERVER_START, Climb
from oversight.engine.models.limits.limits import Limits
from oversight.engine.models.sender import Sender
from oversight.engine.stop import StopToken
from tests.server import call_of
from tests.virtual import now, run

MODEL = "compatible/lab/model"


class Queueing:
    """A server of `slots` places; further calls queue. Who waits for longer than `deadline` s, all
    told, goes away with an Ambiguous."""

    def __init__(self, slots, latency=1.0, deadline=600.0, spread=0.0):
        self.places = asyncio.Semaphore(slots)
        self.latency, self.deadline, self.spread = latency, deadline, spread
        self.rng = random.Random(5)
        self.in_flight = self.most = self.answered = self.late = 0

    async def __call__(self, call):
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            async with asyncio.timeout(self.deadline), self.places:
                await asyncio.sleep(self.latency * self.rng.lognormvariate(0.0, self.spread))
        except TimeoutError:
            self.late += 1
            raise OutcomeUnknown(f"no whole answer within {self.deadline:g} s") from None
        finally:
            self.in_flight -= 1
        self.answered += 1
        return Reply("yes", usage=Usage(100, 10))

    async def close(self):
        """Nothing to close."""


def endpoint(server, limits=None, *, own=True):
    accounting = Accounting(listed())
    return Sender(MODEL, server, limits or Limits(), StopToken(), accounting, lambda: 0.5, own=own)


async def ask_all(one, count):
    """Ask so many at once; the errors that came."""
    asked = [one(call_of(100, n, model=MODEL)) for n in range(count)]
    said = await asyncio.gather(*asked, return_exceptions=True)
    return [one for one in said if isinstance(one, BaseException)]


@pytest.mark.campaign
@pytest.mark.parametrize(
    "slots", [1, 2, 4, 8, *(pytest.param(n, marks=pytest.mark.campaign) for n in (16, 64))]
)
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_a_server_that_queues_is_kept_busy_and_never_flooded(slots, spread):
    async def main():
        server = Queueing(slots, spread=spread)
        assert await ask_all(endpoint(server), 200 * slots) == []
        return server, now()

    server, took = run(main())
    mean = 1.0 if not spread else 1.133
    print(
        f"{slots} slots: {took / (200 * mean):.2f} times the least, at most {server.most} at once"
    )
    assert took <= 200 * mean / (0.95 if slots <= 8 else 0.75)
    assert server.most <= max(4 * slots, 2 * OWN_SERVER_START)


def test_each_try_in_vain_doubles_the_rest_before_the_next():
    """A server of four places: more calls in flight take longer in proportion, and nothing is
    gained."""
    slots, tries = Climb(), []
    for answers in range(5_000):
        while slots.free:
            slots.take()
        width = slots.width
        slots.answered(took=slots.busy / 4)
        slots.busy -= 1
        if slots.width >= 1.5 * width:
            tries.append(answers)
    rests = [later - earlier for earlier, later in pairwise(tries)][1:]
    assert rests[0] < rests[1] < rests[2] and set(rests[2:]) == {rests[2]}


@pytest.mark.wire
def test_a_server_that_batches_is_given_more_although_each_call_takes_longer():
    async def main():
        server = Queueing(10_000)

        async def batching(call):
            # Sixteen times as many calls take twice as long.
            server.latency = (1 + server.in_flight) ** 0.25
            return await server(call)

        batching.close = server.close
        await ask_all(endpoint(batching), 2_000)
        return server

    assert run(main()).most >= 64


def test_a_deadline_that_passes_in_a_crowd_lowers_the_width_and_fails_no_call():
    async def main():
        # One slot, and four calls to begin with: the last of them would wait for 4 s.
        server = Queueing(1, latency=1.0, deadline=2.5)
        one = endpoint(server)
        failed = await ask_all(one, 60)
        return server, failed, one.page.account()

    server, failed, account = run(main())
    assert failed == []
    assert server.late > 0
    assert account.stored == 60
    # What is too late is told in the books as what it is, and is not most of the work.
    assert account.count("ambiguous") == server.late <= 30


def test_a_vendor_is_not_asked_again_and_again_where_each_time_may_be_billed():
    async def main():
        server = Queueing(1, latency=1.0, deadline=2.5)
        return await ask_all(endpoint(server, own=False), 60)

    failed = run(main())
    assert failed
    assert not any(isinstance(fault, Crowded) for fault in failed)


def test_what_the_sweep_file_says_of_concurrency_stands():
    async def main():
        server = Queueing(100)
        await ask_all(endpoint(server, Limits(concurrency=16)), 100)
        return server

    assert run(main()).most == 16


def test_a_stated_load_widens_while_nothing_waits_and_keeps_a_short_queue():
    slots = Climb()
    for _ in range(4):
        slots.take()
    slots.load_stated(4, 0)
    assert slots.width == 8
    # Not all of the width is in use: nothing is known of more.
    slots.load_stated(4, 0)
    assert slots.width == 8
    slots.load_stated(4, 1)
    assert slots.width == 8
    slots.load_stated(2, 2)
    assert slots.width == 2.5
    # Half of what is there is somebody else's.
    slots.load_stated(4, 4)
    assert slots.width == 2.5


def test_a_server_that_states_its_load_no_more_is_climbed_again():
    slots = Climb()

    def answer(rounds: int) -> None:
        for _ in range(rounds):
            together = int(slots.width)
            for _ in range(together):
                slots.take()
            for _ in range(together):
                slots.answered(1.0)
                slots.busy -= 1

    slots.take()
    slots.load_stated(1, 0)
    slots.busy -= 1
    stated = slots.width
    answer(20)
    assert slots.width == stated, "what is stated is not tried"
    slots.load_unknown()
    answer(20)
    assert slots.width > stated
