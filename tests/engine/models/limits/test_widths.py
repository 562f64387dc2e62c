"""Calls in flight at one's own servers: few at first, more while that pays, fewer once a deadline
passes. One budget: pace, fairness, cancellation, settling. Elsewhere additive increase,
multiplicative decrease, and a ceiling."""

import asyncio
import itertools
import math
import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache.reply import Reply, Usage
from oversight.engine import errors
from oversight.engine.models import router
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.directory import Directory
from oversight.engine.models.limits.buckets import BURST_WINDOW, MAX_SAVED, Bucket, Limits
from oversight.engine.models.limits.concurrency import OWN_SERVER_START, Connections
from oversight.engine.providers.fault import stated_limits
from oversight.engine.stop import StopToken
from oversight.engine.sweep.document import Document
from tests import virtual
from tests.server import Server, ask_in_lanes, busiest, call_of, sender
from tests.virtual import VirtualLoop, now, virtually

MODEL = "compatible/lab/model"


class Queueing:
    """A server with `slots` slots; further calls queue. A call that takes longer than `deadline` s
    in all gets an OutcomeUnknown."""

    def __init__(self, slots, latency=1.0, deadline=600.0, spread=0.0):
        self.places = asyncio.Semaphore(slots)
        self.latency, self.deadline, self.spread = latency, deadline, spread
        self.rng = random.Random(5)
        self.in_flight = self.most = self.late = 0

    async def __call__(self, call):
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            async with asyncio.timeout(self.deadline), self.places:
                await asyncio.sleep(self.latency * self.rng.lognormvariate(0.0, self.spread))
        except TimeoutError:
            self.late += 1
            raise errors.OutcomeUnknown(f"no whole answer within {self.deadline:g} s") from None
        finally:
            self.in_flight -= 1
        return Reply("yes", usage=Usage(100, 10))


def endpoint(server, limits=None, *, own=True):
    return sender(server, limits, lambda: 0.5, model=MODEL, own=own)


async def ask_all(one, count):
    """Ask many calls at once; returns their errors."""
    tasks = [one(call_of(100, n, model=MODEL)) for n in range(count)]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [one for one in results if isinstance(one, BaseException)]


@pytest.mark.campaign
@pytest.mark.parametrize(
    "slots", [1, 2, 4, 8, *(pytest.param(n, marks=pytest.mark.campaign) for n in (16, 64))]
)
@pytest.mark.parametrize("spread", [0.0, 0.5])
@virtually
async def test_a_server_that_queues_is_kept_busy_and_never_flooded(slots, spread):
    server = Queueing(slots, spread=spread)
    assert await ask_all(endpoint(server), 200 * slots) == []
    took = now()
    mean = 1.0 if not spread else 1.133
    assert took <= 200 * mean / (0.95 if slots <= 8 else 0.75)
    assert server.most <= max(4 * slots, 2 * OWN_SERVER_START)


@pytest.mark.wire
@virtually
async def test_a_server_that_batches_is_given_more_although_each_call_takes_longer():
    server = Queueing(10_000)

    async def batching(call):
        # Sixteen times as many calls take twice as long.
        server.latency = (1 + server.in_flight) ** 0.25
        return await server(call)

    await ask_all(endpoint(batching), 2_000)
    assert server.most >= 64


@virtually
async def test_a_deadline_that_passes_in_a_crowd_lowers_the_width_and_fails_no_call():
    # One slot, and sixteen calls to begin with: the last of them would wait for 16 s.
    server = Queueing(1, latency=1.0, deadline=2.5)
    one = endpoint(server)
    assert await ask_all(one, 60) == []
    account = one.page.account()
    assert server.late > 0 and account.stored == 60
    # Late calls are counted as such, and are a minority.
    assert account.count("unconfirmed") == server.late <= 30


@virtually
async def test_a_vendor_is_not_asked_again_and_again_where_each_time_may_be_billed():
    failed = await ask_all(endpoint(Queueing(1, latency=1.0, deadline=2.5), own=False), 60)
    assert failed and not any(isinstance(fault, errors.ServerBusy) for fault in failed)


@virtually
async def test_concurrency_of_the_sweep_file_is_kept():
    server = Queueing(100)
    await ask_all(endpoint(server, Limits(concurrency=16)), 100)
    assert server.most == 16


@virtually
async def test_models_of_a_provider_take_its_connections_in_turn():
    server, shared = Server(latency=3.0), Connections(2)
    one, other = (sender(server, connections=shared) for _ in range(2))
    first = [asyncio.create_task(one(call_of(10, n))) for n in range(20)]
    await asyncio.sleep(1)
    second = [asyncio.create_task(other(call_of(10, 100 + n))) for n in range(5)]
    await asyncio.sleep(0)
    second.pop(0).cancel()
    binding = str(one.limiter.statistics().binding)
    await asyncio.gather(*first, *second)
    assert binding == "limited by connections 2" and server.most_in_flight == 2
    # Both models wait: one call of each leaves in each round.
    assert [at.at for at in server.book if at.call.draw[0] > 99] == pytest.approx([3, 6, 9, 12])
    assert now() == pytest.approx(36)
    # The wait here is not the server's latency.
    assert one.page.account().latency.quantile(1.0) == pytest.approx(3, rel=0.05)


def test_a_free_connection_goes_to_the_model_that_waits_longest():
    shared, first, second = Connections(1), *"ab"
    shared.busy = 1
    assert not shared.free(first) and not shared.free(second)
    shared.busy = 0
    assert not shared.free(second) and shared.free(first)
    assert shared.line == [second] and shared.free(second) and not shared.line


@virtually
async def test_a_paused_model_holds_no_connection_back():
    shared, refusals = Connections(1), iter([errors.RateLimited("429", 60.0)])
    paused = sender(Server(fault=lambda request: next(refusals, None)), connections=shared)
    other = sender(Server(), connections=shared)
    waiting = asyncio.gather(*(paused(call_of(10, n)) for n in range(3)))
    await asyncio.gather(*(other(call_of(10, n)) for n in range(10)))
    assert now() < 15
    await waiting
    assert (shared.busy, shared.line) == (0, [])


PROVIDERS = {"compatible/lab": {"base_url": "http://127.0.0.1:9/v1"}}


@pytest.mark.parametrize(
    ("workers", "width", "connections"), [(1, 9, 50), (3, 3, 16), (20, 1, 2), (99, 1, 1)]
)
def test_workers_divide_all_limits_of_the_sweep_file_and_of_the_server(workers, width, connections):
    model, name = "compatible/lab/a", "compatible/lab chat"
    limits = {model: {"concurrency": 9, "requests": 600}}
    providers = {"compatible/lab": PROVIDERS["compatible/lab"] | {"connections": 50}}
    directory = Directory(Document.parse("", "s.yaml"), limits, providers, (), {})
    models = router.Router(
        *(directory, [(model, "agent")], Accounting(listed()), StopToken()),
        give_up=90.0,
        sharers=workers,
    )
    assert models._senders[model].limiter.breaker.give_up == 90.0
    models._providers[name]._on_limits(model, stated_limits({"x-ratelimit-limit-tokens": "6000"}))
    assert models._senders[model].limiter._limits == Limits(
        requests=600 / workers, tokens=6_000 / workers, concurrency=width
    )
    assert models.limits_of(model) == Limits(requests=600 / workers, concurrency=width)
    assert models._connections[name].most == connections


@virtually
async def test_an_account_that_ends_after_five_answers_gets_few_more_calls():
    stop_token, requests = StopToken(), itertools.count()

    async def spent(call):
        number = next(requests)
        await asyncio.sleep(0.1 + number / 1_000)
        if number >= 5:
            raise errors.QuotaExhausted("the budget is spent")
        return Reply("yes", usage=Usage(100, 10))

    agent, judge = (sender(spent, own=True, stop_token=stop_token) for _ in range(2))
    calls = (model(call_of(100, n)) for n in range(60) for model in (agent, judge))
    await asyncio.gather(*calls, return_exceptions=True)
    assert next(requests) < 30


RATE = 100.0
"""Units a second in these tests."""


def bucket() -> Bucket:
    return Bucket(RATE * 60, StopToken())


@given(st.lists(st.tuples(st.floats(0.01, 200), st.booleans(), st.floats(0, 4)), max_size=30))
@virtually
async def test_cancelled_takers_leave_the_queue_and_give_back_just_what_they_took(takers):
    tank, admitted = bucket(), []

    async def taker(which: int, amount: float) -> None:
        await tank.take(amount)
        admitted.append((which, now(), tank.balance))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(taker(n, amount)) for n, (amount, *_) in enumerate(takers)]
        for task, (_, cancelled, after) in zip(tasks, takers, strict=True):
            if cancelled:
                asyncio.get_running_loop().call_later(after, task.cancel)
    served = [which for which, _, _ in admitted]
    assert served == sorted(served)
    assert set(served) >= {which for which, (_, cancelled, _) in enumerate(takers) if not cancelled}
    total = 0.0
    for which, when, balance in admitted:
        total += takers[which][0]
        # All admitted tokens have drained, except for one window, and no time was lost: tokens of
        # cancelled calls served those behind them, or are left for them.
        assert RATE * when - 1e-3 <= total + balance <= RATE * (when + BURST_WINDOW) + 1e-3


@virtually
async def test_too_small_reservation_is_paid_by_the_next_call():
    tank = bucket()
    await tank.take(1)
    tank.settle(1, 501)
    await tank.take(1)
    assert now() == pytest.approx(5, abs=2 * BURST_WINDOW)


@virtually
async def test_returned_units_serve_waiting_callers():
    tank = bucket()
    await tank.take(10)
    waiting = asyncio.create_task(tank.take(1_000))
    await asyncio.sleep(1)
    tank.settle(2_000, 0)
    await waiting
    assert now() == pytest.approx(1, abs=BURST_WINDOW)


@virtually
async def test_little_is_saved_up_while_nobody_waits():
    tank = bucket()
    tank.settle(100_000, 0)
    times = []
    for _ in range(1_000):
        await tank.take(1)
        times.append((now(), 1.0))
    assert busiest(times, 0.05) <= RATE * (MAX_SAVED + BURST_WINDOW + 0.05) + 1


@pytest.mark.parametrize(
    ("tank", "amount"),
    [(partial(Bucket, RATE * 60), 100_000), (partial(Bucket, 1, least=1), 1)],
    ids=["a large amount", "a slow rate"],
)
@virtually
async def test_a_halt_reaches_a_call_that_waits_within_a_window(tank, amount):
    stop_token = StopToken()
    full = tank(stop_token=stop_token)
    await full.take(1)
    waiting = asyncio.create_task(full.take(amount))
    await asyncio.sleep(3)
    stop_token.stop(errors.QuotaExhausted("gone"))
    with pytest.raises(errors.QuotaExhausted):
        await waiting
    assert now() == pytest.approx(3, abs=BURST_WINDOW)


@pytest.mark.wire
@virtually
async def test_at_one_request_a_minute_the_first_leaves_at_once_and_each_other_after_a_minute():
    tank, times = Bucket(1, StopToken(), least=1), []
    for _ in range(4):
        await tank.take(1)
        times.append(now())
    await asyncio.sleep(600)
    await tank.take(1)
    assert [*times, now() - 600] == pytest.approx([0, 60, 120, 180, 180], abs=0.1)


class Coarse(VirtualLoop):
    """A loop like uvloop, whose clock and timers have a resolution of a millisecond."""

    turns = 0

    def time(self) -> float:
        return math.floor(super().time() * 1000) / 1000

    def call_at(self, when, callback, *args, context=None):
        moment = self.time() + round((when - self.time()) * 1000) / 1000
        return super().call_at(moment, callback, *args, context=context)

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()


def test_a_fast_budget_waits_on_a_coarse_clock_and_does_not_turn(monkeypatch):
    monkeypatch.setattr(virtual, "TICK", 1e-5)

    async def main():
        fast = Bucket(60_000, StopToken(), least=1.0)
        async with asyncio.TaskGroup() as group:
            for _ in range(600):
                group.create_task(fast.take(1.0))
        return now()

    with asyncio.Runner(loop_factory=Coarse) as runner:
        loop = runner.get_loop()
        took = runner.run(main())
        # 100 at once, and 500 that each take a millisecond.
        assert took == pytest.approx(0.5, abs=0.01) and loop.turns < 3 * 600


@pytest.mark.wire
@virtually
async def test_a_server_that_takes_40_calls_at_once_is_kept_busy_and_seldom_overloaded():
    rng = random.Random(3)
    serving = turned_away = answered = 0

    async def server(call):
        nonlocal serving, turned_away, answered
        if serving == 40:
            turned_away += 1
            await asyncio.sleep(0.05)
            raise errors.Overloaded("503: busy")
        serving += 1
        await asyncio.sleep(rng.uniform(0.5, 1.5))
        serving -= 1
        answered += 1
        return Reply("yes")

    await ask_in_lanes(sender(server, Limits(concurrency=200)), 200, lambda: now() < 120)
    assert answered / 120 >= 0.8 * 40 and turned_away <= 0.01 * 120 * 40
