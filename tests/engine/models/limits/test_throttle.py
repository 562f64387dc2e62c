"""Effects of a 429 on all callers: pause, slower pace, recovery, and throughput. P8, P9."""

import asyncio
import math
import random
from datetime import datetime, timedelta
from functools import partial

import pytest

from oversight.cache.reply import Reply, Usage
from oversight.engine.errors import Overloaded, ProviderDown, QuotaExhausted, RateLimited
from oversight.engine.models.limits.breaker import overlong_delay
from oversight.engine.models.limits.buckets import Limits
from tests.server import Server, ask_in_lanes, call_of, sender, sent_inside
from tests.virtual import now, run, virtually


@pytest.mark.parametrize("kind", [RateLimited, Overloaded, QuotaExhausted])
@pytest.mark.parametrize(
    ("delay", "message"),
    [
        (7_200, r"daily limit; .* 2 hours: resume at .* 20\d\d$"),
        (1e12, "more than a year"),
        (1e300, "more than a year"),
    ],
)
@virtually
async def test_delay_of_over_15_minutes_stops_the_run_and_says_when_to_return(kind, delay, message):
    server = Server(fault=lambda request: kind("daily limit", delay))
    with pytest.raises((ProviderDown, QuotaExhausted), match=message):
        await sender(server, Limits(requests=600))(call_of(10))
    assert now() < 2 and len(server.book) == 1


def test_time_to_resume_follows_the_servers_delay():
    earliest = datetime.now() + timedelta(hours=2)
    message = str(overlong_delay(RateLimited("429", 7_200)))
    end = datetime.strptime(message.partition("resume at ")[2], "%H:%M on %d %B %Y")
    assert earliest - timedelta(minutes=1) < end <= datetime.now() + timedelta(hours=2)


@virtually
async def test_half_an_hour_of_nothing_but_429s_stops_the_run():
    retry = sender(Server(fault=lambda request: RateLimited("429", 60)), Limits(requests=600))
    with pytest.raises(ProviderDown, match="no answer for 30 minutes; last: 429"):
        await retry(call_of(10))
    assert 1_800 <= now() < 1_900


@virtually
async def test_one_refusal_leaves_nothing_behind():
    refusals = iter([RateLimited("429", 1.0)])
    retry = sender(Server(latency=0.1, fault=lambda request: next(refusals, None)))
    for _ in range(1_000):
        await retry(call_of(10))
    statistics = retry.limiter.statistics()
    assert statistics.per_second == pytest.approx(10, rel=0.02) and statistics.pace == math.inf


class Refusing:
    """A server that refuses at once, by chance or by a bucket, and takes `latency` s to answer."""

    def __init__(self, refuses, delay, latency=0.204):
        self.refuses, self.delay, self.latency = refuses, delay, latency
        self.came, self.refusals, self.answered = [], [], []

    async def __call__(self, call):
        self.came.append(now())
        if self.refuses(now()):
            await asyncio.sleep(0.001)
            self.refusals.append(now())
            raise RateLimited("429: slow down", self.delay)
        await asyncio.sleep(self.latency)
        self.answered.append(now())
        return Reply("yes", usage=Usage(100, 10))

    def rate(self, begin, end):
        return sum(begin <= at < end for at in self.answered) / (end - begin)


def chance(share, until=math.inf, begin=0.0):
    rng = random.Random(3)
    return lambda at: begin <= at < until and rng.random() < share


def bucket(rate, burst):
    balance, last = burst, 0.0

    def refuses(at):
        nonlocal balance, last
        balance, last = min(burst, balance + (at - last) * rate), at
        if balance < 1:
            return True
        balance -= 1
        return False

    return refuses


def curve(server, limits, lanes, seconds):
    """Replies a second by windows of five seconds; nothing fails, no pause is broken."""
    retry = sender(server, limits, random.Random(1).random)
    run(ask_in_lanes(retry, lanes, lambda: now() < seconds))
    windows = [server.rate(at, at + 5) for at in range(0, seconds, 5)]
    assert sent_inside(server.came, server.refusals, server.delay) == 0
    return windows


UNDISTURBED = 20 / 0.204
in_campaigns = partial(pytest.param, marks=pytest.mark.campaign)


@pytest.mark.campaign
@pytest.mark.parametrize("delay", [1.0, 5.0, 20.0])
@pytest.mark.parametrize(
    ("limits", "normal"),
    [
        (Limits(requests=1_200, concurrency=100), 20),
        (Limits(input_tokens=120_000), 20),
        (Limits(concurrency=30), 60),
    ],
    ids=["known rate", "known tokens", "unknown rate"],
)
def test_p8_a_minute_of_429s_sends_nothing_in_the_pauses_and_fails_nothing(limits, normal, delay):
    """Four calls in five are refused from 40 to 100 s, and the last pause is over by 125 s."""
    server = Refusing(chance(0.8, begin=40, until=100), delay, latency=0.5)
    windows = curve(server, limits, 100, 185)
    assert len(server.refusals) >= 3 and sum(windows[4:8]) / 4 == pytest.approx(normal, rel=0.05)
    assert sum(windows[33:]) / 4 >= 0.8 * normal


@pytest.mark.wire
@pytest.mark.parametrize("length", [6, in_campaigns(60)])
@pytest.mark.parametrize(
    ("limits", "normal"),
    [
        (Limits(concurrency=20), UNDISTURBED),
        (Limits(), UNDISTURBED),
        (Limits(concurrency=20, requests=3_000), 50),
    ],
    ids=["width", "nothing known", "known rate"],
)
def test_p8_after_a_storm_that_begins_with_the_first_request(limits, normal, length):
    windows = curve(Refusing(chance(0.8, until=length), 1.0), limits, 20, length + 64)
    after = length // 5 + 1
    # A third of the minute that is promised is enough.
    assert min(windows[after + 4 : after + 12]) >= 0.8 * normal


@pytest.mark.wire
@pytest.mark.parametrize(
    ("share", "least"), [in_campaigns(0.01, 0.89), (0.05, 0.70), in_campaigns(0.15, 0.55)]
)
def test_refusals_by_chance_cost_their_pauses_and_no_more(share, least):
    """Twenty calls at once and 0.3 s of pause for all: of waves of 0.204 s, with (1 - share)^20 a
    wave without a refusal, no program gets more than 91, 73 and 58 %."""
    windows = curve(Refusing(chance(share), 0.3), Limits(concurrency=20), 20, 120)
    assert sum(windows) / len(windows) >= least * UNDISTURBED


@pytest.mark.wire
@pytest.mark.parametrize("latency", [in_campaigns(1.0), 4.0])
def test_refusals_by_chance_cost_little_where_calls_take_longer_than_pauses(latency):
    windows = curve(Refusing(chance(0.05), 0.3, latency), Limits(concurrency=50), 50, 240)
    assert sum(windows[4:]) / len(windows[4:]) >= 0.75 * 50 / latency


@pytest.mark.wire
@pytest.mark.parametrize(
    ("limits", "burst", "delay", "most"),
    [
        (Limits(concurrency=50), 20, 1.0, 0.035),
        (Limits(requests=6_000), 20, 1.0, 0.01),
        in_campaigns(Limits(requests=6_000), 1_200, 0.05, 0.03),
        in_campaigns(Limits(), 20, 1.0, 0.2),
    ],
    ids=["nothing known", "file says 6,000", "file says 6,000, a minute saved up", "no ceiling"],
)
def test_p9_lower_limit_than_stated_is_found_and_kept_with_few_refusals(limits, burst, delay, most):
    server = Refusing(bucket(20, burst), delay, latency=0.5)
    settled = curve(server, limits, 200, 205)[6:]
    assert sum(settled) / len(settled) >= 0.9 * 20
    assert len(server.refusals) <= most * len(server.answered)
