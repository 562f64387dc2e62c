"""The circuit breaker: when it opens, probes and stops the run. The reasons shown for a wait: last
fault, oldest request, proxies, and one message for all calls."""

import asyncio
import io
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from oversight.cache.call import Ask
from oversight.engine.display.progress import Clock, Snapshot, plain
from oversight.engine.display.throughput import lines
from oversight.engine.errors import (
    AllRefused,
    AuthenticationFailed,
    GaveUp,
    InvalidRequest,
    NeverAnswered,
    Overloaded,
    ProviderDown,
    UnknownFault,
    Unreachable,
)
from oversight.engine.models.limits import breaker
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.settings import Settings
from tests.lines import talking
from tests.server import Server, ask_in_lanes, call_of, sender
from tests.sittings import Bench, Vendor, opinion
from tests.virtual import now, run, virtually


def outage(begin: float, end: float, fault: type[Exception] = Overloaded):
    return lambda request: fault("down") if begin <= request.at < end else None


def faults_of(
    server: Ask, calls: int, lanes: int, *, last: bool = True, give_up: float = breaker.GIVE_UP
):
    """(faults of calls by number, when all had ended) of calls asked in lanes, after one that is
    answered. last: whether all cells have begun."""

    async def main():
        retry = sender(server, Limits(concurrency=lanes), lambda: 0.0, give_up=give_up)
        retry.limiter.stop_token.last_cells = last
        await retry(call_of(10, -1))
        gate, faults = asyncio.Semaphore(lanes), {}

        async def ask(n):
            async with gate:
                try:
                    await retry(call_of(10, n))
                except Exception as exc:
                    faults[n] = exc

        await asyncio.gather(*map(ask, range(calls)))
        return faults, now()

    return run(main())


BAD = (3, 17, 30, 41)


@pytest.mark.parametrize("fault", [Overloaded, UnknownFault])
@pytest.mark.parametrize("lanes", [5, 100])
@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_calls_that_always_fail_fail_alone_while_others_pass(fault, lanes, seconds):
    """seconds: after which they fail."""
    server, tries = Server(), Counter[int]()

    async def ask(call):
        tries[(number := call.draw[0])] += 1
        if number in BAD:
            await asyncio.sleep(seconds)
            raise fault("HTTP 500")
        return await server(call)

    faults, end = faults_of(ask, 100, lanes)
    assert {n: type(raised) for n, raised in faults.items()} == dict.fromkeys(BAD, fault)
    assert {tries[n] for n in BAD} == {breaker.MAX_ALONE} and end <= 100 / lanes + 60


@pytest.mark.parametrize("lanes", [1, 2, 20])
def test_unknown_faults_in_a_row_after_answers_pause_the_model_and_fail_no_call(lanes):
    server = Server(fault=outage(20, 200, UnknownFault))
    faults, end = faults_of(server, 100 * lanes, lanes)
    assert faults == {} and 200 < end < 500
    assert sum(20 <= request.at < 200 for request in server.book) <= max(lanes, 5) + 8


def test_a_model_that_is_given_up_fails_the_last_calls_and_else_stops_the_run():
    """Both calls that are left fail, and nothing tells whether the server is down."""
    server = Server(fault=lambda request: Overloaded("no") if request.call.draw[0] >= 98 else None)
    faults, end = faults_of(server, 100, 2, give_up=120.0)
    assert {n: type(fault) for n, fault in faults.items()} == {98: Overloaded, 99: Overloaded}
    assert end == pytest.approx(50 + 120, abs=15)
    server = Server(fault=outage(20, 1e9))
    faults, end = faults_of(server, 100, 3, last=False, give_up=120.0)
    assert {type(fault) for fault in faults.values()} == {GaveUp}
    assert "no answer for 2 minutes; last: down" in str(faults[60])


@virtually
async def test_a_wait_is_reported_with_the_server_message_and_how_to_end_it():
    words = Overloaded("lab says: 500: CUDA error")
    words.words = 'HTTP 500 "CUDA error"'
    retry = sender(Server(latency=0.0, fault=lambda request: words), jitter=lambda: 0.0)
    asks = [asyncio.create_task(retry(call_of(10, n))) for n in range(20)]
    await asyncio.sleep(70)
    (line,) = lines({"compatible/lab/odd": retry.limiter.statistics()}, lambda model: 20)
    assert line == (
        'waiting for compatible/lab/odd: HTTP 500 "CUDA error", 20 cells held, next try in 0:05 '
        "(--give-up 30m ends the wait)"
    )
    for ask in asks:
        ask.cancel()
    await asyncio.wait(asks)


@virtually
async def test_a_log_has_a_line_for_each_change_of_a_wait_and_none_between():
    out, clock = io.StringIO(), Clock()

    def snapshot() -> Snapshot:
        pace = 5 if now() < 65 else 300
        waits = (f"m: HTTP 500: every {pace} s",) if 35 <= now() < 200 else ()
        return Snapshot(9, 1, 0, in_flight=not waits, waits=waits)

    telling = asyncio.create_task(plain(snapshot, clock, out, 1.0))
    await asyncio.sleep(221.5)
    telling.cancel()
    times = re.findall(r"(\d:\d\d) elapsed", out.getvalue())
    assert times == ["0:10", "0:20", "0:30", "0:35", "1:05", "3:20", "3:30", "3:40"]


def asked_by_lanes(server: Server, lanes: int, until: float):
    """Ask steadily; (how many were answered, the exceptions that ended a call, when all ended)."""

    async def main():
        retry = sender(server, Limits(concurrency=lanes))
        answered, faults = 0, []

        async def ask(call):
            nonlocal answered
            try:
                await retry(call)
                answered += 1
            except Exception as exc:
                faults.append(exc)

        await ask_in_lanes(ask, lanes, lambda: now() < until and not retry.limiter.stop_token.halt)
        return answered, faults, now()

    return run(main())


@pytest.mark.wire
@pytest.mark.parametrize("fault", [Overloaded, Unreachable])
@pytest.mark.parametrize("lanes", [2, 20])
def test_an_outage_of_20_minutes_fails_no_cell_and_sends_few_probes(fault, lanes):
    tries = []

    def down(request):
        if 20 <= request.at < 1_220:
            tries.append(request.at)
            return fault("down")
        return None

    server = Server(fault=down)
    answered, faults, _ = asked_by_lanes(server, lanes, until=1_400)
    assert faults == []
    # In flight when it began, the retries of these until the tenth failure, and the probes.
    assert len(tries) <= max(lanes, 10) + 12
    assert len([at for at in server.answered if at > 1_300]) >= 0.9 * lanes * 100
    assert answered == len(server.answered)


def test_half_an_hour_without_an_answer_stops_the_run_to_the_minute():
    server = Server(fault=outage(60, 1e9))
    answered, faults, end = asked_by_lanes(server, 20, until=1e6)
    assert end == pytest.approx(60 + breaker.GIVE_UP, abs=60)
    assert {type(fault) for fault in faults} == {GaveUp} and len(faults) == 20
    assert "no answer for 30 minutes; last: down" in str(faults[0])
    assert answered == len(server.answered)


def test_while_it_is_open_one_call_at_a_time_goes_out():
    server = Server(fault=outage(0, 600))
    asked_by_lanes(server, 50, until=600)
    probes = [request.at for request in server.book if 30 < request.at < 600]
    assert 3 <= len(probes) <= 7
    assert all(later - earlier >= 10 for earlier, later in pairwise(probes))


def test_a_401_pauses_all_and_one_probe_after_5_seconds_decides():
    server = Server(fault=outage(60, 1e9, AuthenticationFailed))
    answered, faults, end = asked_by_lanes(server, 30, until=1e6)
    assert {type(fault) for fault in faults} == {AuthenticationFailed}
    assert answered == len(server.answered)
    # Those in flight together were refused together; then one probe, and no more.
    after = [request.at for request in server.book if request.at > 60]
    assert len(after) == 30 + 1 and after[-1] == pytest.approx(after[0] + 1 + 5, abs=0.1)
    assert end < 70


@virtually
async def test_after_a_probe_that_was_cancelled_in_flight_the_next_call_is_one():
    retry = sender(Server(9.0, fault=outage(0, 9)))
    with pytest.raises(TimeoutError):  # 5 s after ten have failed one leaves, and is not back
        await asyncio.wait_for(asyncio.gather(*(retry(call_of(10, n)) for n in range(10))), 20)
    assert (await asyncio.wait_for(retry(call_of(10)), 20)).text == "yes"


def test_a_401_that_passes_costs_five_seconds_and_no_cell():
    server = Server(fault=outage(60, 63, AuthenticationFailed))
    _, faults, _ = asked_by_lanes(server, 30, until=120)
    assert faults == [] and server.answered[-1] > 119


@virtually
async def test_one_request_that_hangs_does_not_hold_back_all_others():
    """Sporadic overloads narrow what is in flight, and one call in it never comes back."""
    server = Server(
        latency=0.1, fault=lambda request: Overloaded("busy") if len(server.book) % 4 == 1 else None
    )
    hung = asyncio.Event()

    async def ask(call):
        if call.draw == (40,):
            await hung.wait()
        return await server(call)

    retry = sender(ask, Limits(concurrency=20), lambda: 0.0)
    asks = [asyncio.create_task(retry(call_of(10, n))) for n in range(200)]
    await asyncio.sleep(300)
    finished = sum(ask.done() for ask in asks)
    hung.set()
    await asyncio.gather(*asks)
    assert finished == 199


async def fails_alike(server, calls):
    """(kinds of results, number of requests sent, the stop token's Halt)."""
    retry = sender(server, Limits(concurrency=5))
    gate, kinds = asyncio.Semaphore(5), []

    async def ask(n):
        async with gate:
            try:
                await retry(call_of(10, n))
            except (InvalidRequest, AllRefused) as exc:
                kinds.append(type(exc))

    await asyncio.gather(*(ask(n) for n in range(calls)))
    return kinds, len(server.book), retry.limiter.stop_token.halt


def test_a_model_of_which_every_call_fails_alike_is_stopped_after_twenty():
    server = Server(fault=lambda _: InvalidRequest(f"400: top_p in request {len(server.book)}"))
    kinds, sent, halt = run(fails_alike(server, 500))
    assert isinstance(halt, AllRefused) and "400: top_p in request" in str(halt)
    assert "Fix the cause" in str(halt) and breaker.MAX_ALIKE <= sent <= breaker.MAX_ALIKE + 5
    assert InvalidRequest not in kinds and NeverAnswered in kinds


def test_failures_of_many_causes_or_after_an_answer_stop_nothing():
    server = Server(fault=lambda request: InvalidRequest("400: " + "x" * len(server.book)))
    kinds, sent, halt = run(fails_alike(server, 60))
    assert (sent, halt) == (60, None)
    server = Server(fault=lambda _: InvalidRequest("400: no") if len(server.book) > 5 else None)
    kinds, sent, halt = run(fails_alike(server, 60))
    assert (sent, halt) == (60, None) and set(kinds) == {InvalidRequest}
    assert server.book[-1].at < 20, "it answers, be it with a refusal: there is no outage"


@pytest.mark.wire
def test_a_grid_that_the_server_turns_down_stops_and_a_resume_runs_all_of_it(tmp_path):
    mended = False

    def answer(call):
        if not mended:
            raise InvalidRequest("max_tokens is above what this server was started with")
        return opinion(call)

    with Vendor(answer=answer) as vendor:
        bench = Bench(tmp_path, vendor.url, problems=12, lanes=8)
        sitting = bench.start()
        assert sitting.wait() == 3, sitting.told
        assert "max_tokens is above what this server was started with" in sitting.told
        # Two models, and a width of eight each.
        assert vendor.requests <= 2 * (breaker.MAX_ALIKE + 8)
        mended = True
        bench.complete()
        assert b'"failure"' not in (bench.run / "outcomes.jsonl").read_bytes()


@pytest.mark.wire
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_a_password_stops_the_provider(scheme):
    settings = Settings("compatible/lab", f"{scheme}://lab.invalid/v1", "lab")
    refuses = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"
    async with talking(refuses) as url:
        provider = connect(replace(settings, proxy=url))
        with pytest.raises(ProviderDown, match=r"407.*NAME:PASSWORD@HOST"):
            await provider(call_of(10, model="compatible/lab/model"))
        await provider.close()
