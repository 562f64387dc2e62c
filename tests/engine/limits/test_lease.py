"""Limits that several processes share: each keeps its part, and stops when nobody renews it."""

import asyncio
import math

import pytest

from oversight.engine.accounting.budget import LeasedBudget
from oversight.engine.errors import RateLimited
from oversight.engine.limits.lease import Lease
from oversight.engine.limits.limits import Limits
from oversight.engine.limits.rate_limiter import RateLimiter
from tests.server import Server, busiest, call_of
from tests.virtual import now, run


async def ask(limiters, calls):
    """Each call at one of the limiters in turn, all at once."""
    async with asyncio.TaskGroup() as group:
        for n in range(calls):
            group.create_task(limiters[n % len(limiters)](call_of(100, n)))


@pytest.mark.parametrize("workers", [2, 4])
def test_p9_equal_shares_keep_one_rate_together_and_use_97_percent_of_it(workers):
    server = Server()

    async def main():
        leases = [Lease(1 / workers) for _ in range(workers)]
        limiters = [RateLimiter(server, Limits(requests=6_000), lease=each) for each in leases]
        await ask(limiters, 1_200)

    run(main())
    times = [(request.at, 1.0) for request in server.book]
    assert busiest(times, 10.0) <= 1_010
    assert busiest(times, 1.0) <= 112
    assert len(server.book) / (server.book[-1].at - server.book[0].at) >= 97


def test_nothing_leaves_before_the_first_lease_or_after_the_last_however_large_the_limits():
    server = Server()

    async def main():
        lease = Lease.none()
        limiter = RateLimiter(server, Limits(requests=6_000_000), lease=lease)
        asking = asyncio.create_task(ask([limiter], 50))
        await asyncio.sleep(5.0)
        assert not server.book
        lease.renew(0.001, None, now() + 0.25)
        await asyncio.sleep(5.0)
        assert 0 < len(server.book) < 50
        assert server.book[-1].at <= 5.25
        assert limiter.statistics().binding.resource == "lease"
        lease.renew(0.001, None, math.inf)
        await asking

    run(main())
    assert len(server.book) == 50


def test_a_model_without_limits_is_held_by_a_stale_lease_too():
    server = Server()

    async def main():
        lease = Lease(1.0, None, 1.0)
        limiter = RateLimiter(server, lease=lease)
        await limiter(call_of(100, 0))
        await asyncio.sleep(2.0)
        later = asyncio.create_task(limiter(call_of(100, 1)))
        await asyncio.sleep(2.0)
        assert not later.done()
        lease.renew(1.0, None, now() + 1.0)
        await later

    run(main())


def test_the_width_of_a_lease_holds_and_may_be_none_at_all_for_a_while():
    server = Server(latency=1.0)

    async def main():
        lease = Lease(1.0, 3, math.inf)
        limiter = RateLimiter(server, Limits(concurrency=20), lease=lease)
        asking = asyncio.create_task(ask([limiter], 12))
        await asyncio.sleep(0.5)
        assert limiter.statistics().in_flight == 3
        lease.renew(1.0, 0, math.inf)
        await asyncio.sleep(3.0)
        now = limiter.statistics()
        assert now.in_flight == 0
        assert str(now.binding) == "limited by concurrency 0"
        lease.renew(1.0, 5, math.inf)
        await asking

    run(main())
    assert len(server.book) == 12


def test_a_pause_that_another_met_holds_all_and_is_told_once():
    told = []
    refusing = Server(fault=lambda request: RateLimited("429", 3.0))

    async def main():
        here, there = RateLimiter(refusing), RateLimiter(server := Server())
        here.listen(told.append)
        with pytest.raises(ExceptionGroup):
            await ask([here], 8)
        assert len(told) == 1
        there.pause(told[0])
        began = now()
        await ask([there], 1)
        assert server.book[0].at >= began + 3.0
        assert math.isinf(there.statistics().pace)

    run(main())


def test_a_leased_budget_says_what_it_lacks_and_is_never_over_by_itself():
    budget, lacking = LeasedBudget(), []
    budget.on_lacking(lambda: lacking.append(budget.wants))
    assert not budget.fits(0.2)
    assert lacking == [0.2]
    assert not budget.over
    budget.lease(0.5)
    assert budget.fits(0.2)
    assert budget.wants == 0.0
    budget.reserve(0.2)
    budget.lease(0.1)
    assert budget.used == 0.2
    assert not budget.fits(0.01)
