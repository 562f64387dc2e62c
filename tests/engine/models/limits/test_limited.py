"""The limits of one model, end to end: pace, fairness, cancellation, and what is shown of them."""

import asyncio
import random
from collections import defaultdict
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache.reply import Reply, Usage
from oversight.engine import errors
from oversight.engine.models.limits.buckets import BURST_WINDOW, LOOKAHEAD, Limits, TokenBuckets
from oversight.engine.stop import StopToken
from oversight.engine.tokens import TokenEstimate, TokenEstimator
from tests.server import Server, ask_all_at_once, busiest, call_of, mixed_sizes, sender
from tests.virtual import now, run, virtually


def estimated(call):
    """(input, output) tokens just as they are estimated: a server without surprises."""
    return round(TokenEstimator().demand(call).input), call.max_tokens


def used(book, per_minute, amount):
    """The part of a budget that was used between the first request and the last."""
    return sum(amount(request) for request in book) / ((book[-1].at - book[0].at) * per_minute / 60)


@pytest.mark.wire
@pytest.mark.parametrize("per_minute", [6_000, 600, 60])
def test_p9_requests_keep_their_rate_in_every_window_and_use_97_percent_of_it(per_minute, campaign):
    server, many = Server(), campaign.size(1_000, 5_000)
    calls = [call_of(100, n) for n in range(many if per_minute > 60 else 150)]
    run(ask_all_at_once(sender(server, Limits(requests=per_minute)), calls))
    rate, times = per_minute / 60, [(request.at, 1.0) for request in server.book]
    share = used(server.book, per_minute, lambda request: 1)
    for window in (0.05, 0.1, 1.0, 10.0, 60.0):
        assert busiest(times, window) <= rate * window + max(rate * BURST_WINDOW, 1) + 1
    assert share >= 0.97


@cache
def mixed_calls(count):
    """Calls of mixed size that all wait from the start: sizes, the server, when each was back."""
    sizes, server = mixed_sizes(count, seed=4), Server(tokens=estimated)
    limited = sender(server, Limits(requests=6_000, input_tokens=400_000))
    back = run(ask_all_at_once(limited, [call_of(size, n) for n, size in enumerate(sizes)]))
    return sizes, server, back


@pytest.mark.wire
def test_p9_waiting_calls_of_mixed_size_use_97_percent_of_the_tokens_and_no_more(campaign):
    sizes, server, _ = mixed_calls(campaign.size(1_000, 5_000))
    rate = 400_000 / 60
    times = [(request.at, float(request.input_tokens)) for request in server.book]
    share = used(server.book, 400_000, lambda request: request.input_tokens)
    for window in (0.1, 1.0, 10.0, 60.0):
        # A call drains while it waits and then arrives whole: the largest may stand out.
        assert busiest(times, window) <= rate * window + rate * BURST_WINDOW + max(sizes) + 1
    assert share >= 0.97


@pytest.mark.campaign
def test_p9_wrong_estimates_are_settled_by_reported_usage():
    rng = random.Random(2)

    def surprising(call):
        return round(estimated(call)[0] * rng.uniform(0.7, 1.9)), rng.randint(10, 400)

    limits = Limits(input_tokens=400_000, output_tokens=60_000)
    server = Server(latency=5.0, tokens=surprising)
    calls = [call_of(size, n, 1_024) for n, size in enumerate(mixed_sizes(3_000, seed=3))]
    run(ask_all_at_once(sender(server, limits), calls))
    # The first minute is left out: it is spent on learning how far off the estimates are.
    book = [request for request in server.book if request.at > 60]
    assert used(book, 60_000, lambda request: request.output_tokens) == pytest.approx(1, abs=0.03)
    assert used(book, 400_000, lambda request: request.input_tokens) < 1
    first_minute = [request for request in server.book if request.at <= 60]
    assert sum(request.output_tokens for request in first_minute) <= 60_000


@pytest.mark.wire
def test_nobody_starves_whatever_the_size_of_the_call(campaign):
    sizes, server, back = mixed_calls(campaign.size(1_000, 5_000))
    assert [request.call.draw[0] for request in server.book] == list(range(len(sizes)))
    drained, longest = 0.0, defaultdict(float)
    for n, size in enumerate(sizes):
        drained += size
        overdue = back[n] - 1.0 - drained / (400_000 / 60)
        longest[size.bit_length()] = max(longest[size.bit_length()], overdue)
    # Each leaves when the tokens of all before it have drained: small and large ones alike.
    assert len(longest) >= 6 and max(longest.values()) < 2.0


@pytest.mark.wire
def test_two_kinds_of_tokens_drain_side_by_side():
    # Readers and writers in turn: one call's output must not keep the next one's input waiting.
    limits = Limits(input_tokens=60_000, output_tokens=6_000)
    server = Server(tokens=estimated)
    calls = [call_of(1_000, n, 1) if n % 2 else call_of(10, n, 100) for n in range(200)]
    run(ask_all_at_once(sender(server, limits), calls))
    assert used(server.book, 60_000, lambda request: request.input_tokens) >= 0.9
    assert used(server.book, 6_000, lambda request: request.output_tokens) >= 0.9


def test_concurrency_is_never_exceeded_and_always_used():
    server = Server(latency=2.0)
    limited = sender(server, Limits(concurrency=40))
    run(ask_all_at_once(limited, [call_of(100, n) for n in range(1_000)]))
    assert server.most_in_flight == 40
    # 1,000 calls, 40 at once, 2 s each: 50 s, and a few rounds to widen from 16.
    assert server.answered[-1] <= 50 + 6


@virtually
async def test_slots_are_held_only_around_the_wire():
    limited = sender(Server(latency=1.0), Limits(requests=60, concurrency=1))
    asks = [asyncio.create_task(limited(call_of(10, n))) for n in range(3)]
    await asyncio.sleep(0.5)
    assert limited.limiter.statistics().in_flight == 1
    # At 1.8 s the second is back and the third waits for its turn: no slot is taken meanwhile.
    await asyncio.sleep(1.3)
    idle = limited.limiter.statistics()
    assert idle.waiting in (1, 2) and idle.in_flight <= 1
    await asyncio.gather(*asks)


@pytest.mark.wire
@given(
    st.lists(
        st.tuples(st.integers(10, 3_000), st.one_of(st.none(), st.floats(0, 30))),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 6),
)
@virtually
async def test_cancelled_callers_leave_the_line_and_nothing_leaks(callers, width):
    server = Server(latency=0.7, tokens=estimated)
    limited = sender(server, Limits(requests=300, input_tokens=60_000, concurrency=width))
    tasks = []
    for n, (size, cancelled_after) in enumerate(callers):
        tasks.append(asyncio.create_task(limited(call_of(size, n))))
        if cancelled_after is not None:
            asyncio.get_running_loop().call_later(cancelled_after, tasks[-1].cancel)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(5)
    start = now()
    await limited(call_of(100, 99))
    statistics, last = limited.limiter.statistics(), now() - start
    order = [request.call.draw[0] for request in server.book]
    assert order == sorted(order)
    for (_, cancelled_after), result in zip(callers, results, strict=True):
        assert isinstance(result, Reply) or cancelled_after is not None
    assert (statistics.in_flight, statistics.waiting) == (0, 0) and server.most_in_flight <= width
    # With nobody in line the next caller goes through at once: no slot, no turn is lost.
    assert last < 0.7 + 0.1


@virtually
async def test_call_cancelled_at_the_gate_returns_its_tokens():
    """100 tokens per second. The second has its 3000 after 30 s and waits for the slot; when it is
    cancelled, its tokens complete the third's, which leaves as soon as the slot is free."""
    server = Server(latency=45, tokens=estimated)
    limited = sender(server, Limits(input_tokens=6_000, concurrency=1))
    tasks = [asyncio.create_task(limited(call_of(size))) for size in (10, 3_000, 3_000)]
    await asyncio.sleep(40)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [request.at for request in server.book] == [
        pytest.approx(0.1, abs=0.2),
        pytest.approx(45.1, abs=0.3),
    ]


async def test_waiting_calls_are_not_overtaken_even_at_the_moment_a_slot_is_free():
    server = Server(latency=0)
    limited = sender(server, Limits(concurrency=1))

    async def twice():
        await limited(call_of(10, 0))
        await limited(call_of(10, 2))

    await asyncio.gather(twice(), limited(call_of(10, 1)))
    assert [request.call.draw for request in server.book] == [(0,), (1,), (2,)]


def test_a_call_takes_all_its_tokens_without_waiting_or_none():
    tokens = TokenBuckets(StopToken())
    tokens.learn(Limits(input_tokens=500, output_tokens=100, tokens=700))
    buckets = [*tokens._buckets.values()]

    def balances(*before: float, output: float = 20, size: float = 300, most: int = 100):
        for bucket, balance in zip(buckets, before, strict=True):
            bucket.balance = balance
        reservations = tokens.taken_at_once(TokenEstimate(size, size, output, most))
        amounts = reservations and [(r.limit.resource, r.amount) for r in reservations]
        return amounts, [bucket.balance for bucket in buckets]

    amounts = [("output tokens", 20), ("input tokens", 300), ("tokens", 400)]
    assert balances(25, 300, 450) == (amounts, [5, 0, 50])
    for short in ([19, 300, 400], [20, 299, 400], [20, 300, 399]):
        assert balances(*short) == (None, short)
    for large in ({"most": 101}, {"size": 501}, {"size": 601}):
        assert balances(900, 900, 900, **large) == (None, [900, 900, 900])


def test_a_call_larger_than_a_minutes_budget_is_refused_before_it_waits():
    server = Server()
    limited = sender(server, Limits(input_tokens=1_000, output_tokens=500))
    with pytest.raises(
        errors.ExceedsRateLimit, match=r"1,200 input tokens .* limit of 1,000 a minute; shorten"
    ):
        run(limited(call_of(1_200)))
    with pytest.raises(errors.ExceedsRateLimit, match="600 output tokens"):
        run(limited(call_of(100, max_tokens=600)))
    assert server.book == []


@pytest.mark.wire
def test_vendors_that_count_input_and_output_together_count_all_of_max_tokens():
    server = Server(tokens=lambda call: (100, 1))
    limited = sender(server, Limits(tokens=60_000))
    run(ask_all_at_once(limited, [call_of(100, n, max_tokens=900) for n in range(200)]))
    assert server.book[-1].at == pytest.approx(200, rel=0.02)


@pytest.mark.parametrize(
    ("usage", "seconds"),
    [(Usage(1_000, 10, cache_read_tokens=900), 30), (Usage(), 300)],
    ids=["what the provider had cached is given back", "without usage, what was reserved"],
)
@virtually
async def test_the_input_that_counts(usage, seconds):
    """300 calls of 1,000 tokens, at 1,000 a second."""

    async def answering(call):
        return Reply("yes", usage=usage)

    limited = sender(answering, Limits(input_tokens=60_000))
    for n in range(300):
        await limited(call_of(1_000, n))
    assert now() == pytest.approx(seconds, rel=0.05)


@virtually
async def test_a_call_that_the_server_rejected_gives_its_tokens_back():
    server = Server(
        latency=0.0,
        fault=lambda request: errors.InvalidRequest("400: no") if len(server.book) else None,
    )
    limited = sender(server, Limits(input_tokens=60_000))
    await limited(call_of(900))
    for n in range(100):
        with pytest.raises(errors.InvalidRequest):
            await limited(call_of(900, n))
    assert now() < 3


@pytest.mark.parametrize(
    ("fault", "again"),
    [(errors.Unreachable("refused"), 0.5), (errors.OutcomeUnknown("reset"), 1.0)],
)
@virtually
async def test_a_request_counts_towards_the_limit_only_if_it_left(fault, again):
    faults = iter([fault])
    server = Server(latency=0.0, fault=lambda request: next(faults, None))
    await sender(server, Limits(requests=60), lambda: 0.0)(call_of(10))
    assert now() == pytest.approx(again, abs=0.01)


@virtually
async def test_limits_that_the_server_tells_fill_what_the_sweep_file_leaves_open():
    limited = sender(Server(latency=0.0), Limits(requests=60))
    limited.limiter.learn(Limits(requests=6_000))
    await ask_all_at_once(limited, [call_of(10, n) for n in range(30)])
    by_requests = now()
    limited.limiter.learn(Limits(requests=6_000, input_tokens=6_000))
    await ask_all_at_once(limited, [call_of(500, n) for n in range(30)])
    assert by_requests == pytest.approx(29, abs=1)
    # The server counts 100 tokens a call, at 100 a second; 500 were estimated until it told.
    assert now() - by_requests >= 29
    assert limited.limiter.statistics().binding is None, "nobody waits"


@virtually
async def test_tokens_are_gathered_for_few_calls_that_cannot_leave_yet():
    server = Server(latency=100.0, tokens=estimated)
    limited = sender(server, Limits(input_tokens=60_000, concurrency=1))
    asks = asyncio.create_task(ask_all_at_once(limited, [call_of(1_000, n) for n in range(99)]))
    await asyncio.sleep(50)
    server.latency = 0.0
    await asks
    book = server.book
    at_once = [request for request in book if 99 < request.at < 101.5]
    assert len(at_once) <= LOOKAHEAD + 3, "else minutes of tokens would be spent in one moment"
    assert book[-1].at == pytest.approx(100 + 99 - LOOKAHEAD, abs=2)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("limits", "speed", "text"),
    [
        (Limits(requests=600), 10, "limited by requests 100%"),
        (Limits(requests=600, input_tokens=36_000), 6, "limited by input tokens 100%"),
        (Limits(output_tokens=3_000), 5, "limited by output tokens 100%"),
        (Limits(tokens=6_600), 1, "limited by tokens 100%"),
        (Limits(concurrency=4), 4, "limited by concurrency 4"),
    ],
)
@virtually
async def test_statistics_name_the_limit_that_binds(limits, speed, text):
    limited = sender(Server(tokens=lambda call: (100, 10)), limits)
    calls = [call_of(100, n, 10) for n in range(1_000)]
    asks = asyncio.create_task(ask_all_at_once(limited, calls))
    await asyncio.sleep(60.05)
    statistics = limited.limiter.statistics()
    asks.cancel()
    await asyncio.wait([asks])
    # Replies come in rounds of a second, of which ten seconds may hold eleven.
    assert statistics.per_second == pytest.approx(speed, rel=0.1)
    assert str(statistics.binding) == text and statistics.waiting > 100


@virtually
async def test_pause_and_outage_are_shown_with_remaining_time():
    faults = iter([errors.RateLimited("429", 30.0)] + [errors.Overloaded("down")] * 12)
    server = Server(latency=0.0, fault=lambda request: next(faults, None))
    retry = sender(server, jitter=lambda: 0.0)
    asks = [asyncio.create_task(retry(call_of(10, n))) for n in range(3)]
    lines_shown = []
    for at in (10, 50):
        await asyncio.sleep(at - now())
        lines_shown.append(str(retry.limiter.statistics().binding))
    for ask in asks:
        ask.cancel()
    await asyncio.wait(asks)
    paused, down = lines_shown
    assert paused.startswith("rate limited; resuming in 2")
    assert down.startswith("the provider does not answer; next probe in ")
