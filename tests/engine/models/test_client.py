"""One model, all layers: how often a call is tried, when, what ends it, and what is kept of it."""

import asyncio
import logging
from collections import Counter
from itertools import pairwise

import pytest

from oversight.cache.call import Call, Message, Request, ToolSpec
from oversight.cache.reply import Reply
from oversight.engine.errors import (
    BudgetReached,
    ContextLengthExceeded,
    ExceedsRateLimit,
    Halt,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    NeverAnswered,
    OutcomeUnknown,
    Overloaded,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    Unreachable,
)
from oversight.engine.models.accounting.budget import MAX_BODIES, Quarantine
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.sender import Sender
from oversight.engine.providers.fault import stated_limits
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.provider import HttpProvider
from oversight.engine.providers.transport import Response, Transport
from oversight.engine.providers.wire import WARM, PrefixWarmup
from oversight.engine.stop import StopToken
from tests.server import Server, call_of, sender
from tests.virtual import now, run, virtually

BODY = b"<html>\xff\x00 502 Bad Gateway"
MALFORMED = Malformed("a 200 that is no reply", BODY)


def tried(*faults, jitter=lambda: 0.5):
    """(outcome, when each try went out) of one call that meets these faults, one a try."""
    script = iter(faults)
    server = Server(latency=0.0, fault=lambda request: next(script, None))
    times = []

    async def noted(call):
        times.append(now())
        return await server(call)

    async def main():
        try:
            return await sender(noted, jitter=jitter)(call_of(10))
        except Exception as exc:
            return exc

    return run(main()), times


def gaps(times):
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.mark.parametrize(
    ("fault", "retries"),
    [
        (Unreachable("down"), 6), (Overloaded("down"), 6), (OutcomeUnknown("reset"), 2),
        (MALFORMED, 2), (NeverAnswered("400"), 0), (ContextLengthExceeded("context"), 0),
        (ExceedsRateLimit("a minute's budget"), 0), (ModelNotFound("404"), 0),
        (QuotaExhausted("insufficient_quota"), 0), (ProviderDown("bad certificate"), 0),
    ],
    ids=lambda exc: type(exc).__name__,
)  # fmt: skip
def test_retries_depend_on_the_cost_of_the_fault(fault, retries):
    outcome, times = tried(*[fault] * retries)
    assert isinstance(outcome, Reply)
    outcome, times = tried(*[fault] * (retries + 1))
    assert outcome is fault and gaps(times) == pytest.approx([0.75 * 2**n for n in range(retries)])


@virtually
async def test_while_the_breaker_is_open_no_probe_leaves_before_the_wait_that_was_asked_for():
    times = []

    def fault(request):
        times.append(request.at)
        return Overloaded("503", 120.0) if len(times) <= 12 else None

    retry = sender(Server(latency=0.0, fault=fault), jitter=lambda: 0.0)
    async with asyncio.TaskGroup() as group:
        for n in range(10):
            group.create_task(retry(call_of(10, n)))
    # Ten at once open the breaker; two probes fail, the third closes it and all others follow.
    assert times[:13] == pytest.approx([0.0] * 10 + [120.0, 240.0, 360.0], abs=1e-6)
    assert times[13:] == pytest.approx([360.0] * 9)


def test_each_kind_of_fault_has_its_own_count():
    faults = [Overloaded("busy"), MALFORMED, Unreachable("off"), OutcomeUnknown("reset")]
    outcome, times = tried(*faults, *[Overloaded("busy")] * 4)
    assert isinstance(outcome, Reply) and len(times) == 9
    outcome, times = tried(*faults, *[Overloaded("busy")] * 5)
    assert isinstance(outcome, Overloaded)


def test_a_429_costs_time_and_no_try():
    outcome, times = tried(*[RateLimited("slow down", 10.0)] * 50, jitter=lambda: 0.0)
    assert isinstance(outcome, Reply) and len(times) == 51
    assert all(10 <= gap < 25 for gap in gaps(times))


@virtually
async def test_a_halt_ends_a_backoff_at_once():
    retry = sender(Server(fault=lambda request: Overloaded("busy")), Limits(concurrency=9))
    ask = asyncio.create_task(retry(call_of(10)))
    await asyncio.sleep(20)
    retry.limiter.stop_token.stop(QuotaExhausted("gone"))
    with pytest.raises(QuotaExhausted):
        await ask
    assert now() == pytest.approx(20, abs=0.01)


@virtually
async def test_nothing_is_held_while_a_call_backs_off():
    faults = iter([Overloaded("busy")])
    server = Server(latency=0.1, fault=lambda request: next(faults, None))
    retry = sender(server, Limits(concurrency=1), lambda: 0.99)
    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(retry(call_of(10, n)))
    assert [request.call.draw[0] for request in server.book] == [0, 1, 2, 0]


CLAUDE = "anthropic/claude-sonnet-4-5"


def call(n: int, prefix: str = "p") -> Call:
    return Call(Request(CLAUDE, (Message("system", prefix), Message("user", str(n)))))


def warming(server: Server) -> PrefixWarmup:
    return PrefixWarmup(server, lambda call: call.messages[0].text or None)


def arrivals(server: Server) -> list[float]:
    return [request.at for request in server.book]


async def fan_out(ask: PrefixWarmup, calls: list[Call]) -> list[Reply | BaseException]:
    return await asyncio.gather(*map(ask, calls), return_exceptions=True)


@pytest.mark.parametrize(
    ("prefixes", "seconds"),
    [("pq" * 10, [0] * 2 + [1] * 18), ([""] * 20, [0] * 20)],
    ids=["the others wait for the first of theirs", "what no vendor keeps waits for nobody"],
)
def test_the_first_of_each_prefix_goes_alone(prefixes, seconds):
    server = Server()
    run(fan_out(warming(server), [call(n, prefix) for n, prefix in enumerate(prefixes)]))
    assert arrivals(server) == pytest.approx(seconds, abs=0.01)


def test_after_a_failure_the_next_one_leads():
    server = Server(fault=lambda request: InvalidRequest("no") if len(server.book) < 2 else None)
    ends = run(fan_out(warming(server), [call(n) for n in range(10)]))
    assert arrivals(server) == pytest.approx([0, 1, 2] + [3] * 7, abs=0.01)
    assert sum(isinstance(end, InvalidRequest) for end in ends) == 2


@virtually
async def test_a_cancelled_leader_hands_over():
    server = Server()
    ask = warming(server)
    leader, *others = [asyncio.create_task(ask(call(n))) for n in range(4)]
    await asyncio.sleep(0.5)
    leader.cancel()
    await asyncio.gather(*others)
    assert arrivals(server) == pytest.approx([0, 0.5, 1.5, 1.5], abs=0.01)


@virtually
async def test_a_prefix_grows_cold_unless_it_is_used():
    server = Server()
    ask = warming(server)
    await ask(call(0))
    for pause in (*[WARM - 10] * 3, WARM + 1):
        await asyncio.sleep(pause)
        await fan_out(ask, [call(n) for n in range(2)])
    pairs = arrivals(server)[1:]
    assert [round(b - a) for a, b in zip(pairs[::2], pairs[1::2], strict=True)] == [0, 0, 0, 1]


def test_a_body_is_kept_byte_for_byte_and_named_after_its_call(tmp_path, caplog):
    quarantine = Quarantine(tmp_path / "malformed")
    assert not quarantine.folder.exists(), "nothing is to be kept yet"
    with caplog.at_level(logging.WARNING):
        path = quarantine.keep(call_of(10, model="vllm/meta/Llama 3"), MALFORMED)
    assert path.read_bytes() == BODY and path.name.startswith("000-vllm-meta-Llama-3-")
    assert str(path) in caplog.text and (tmp_path / "malformed").stat().st_mode & 0o077 == 0


def test_a_server_that_sends_rubbish_all_night_does_not_fill_the_disk(tmp_path):
    quarantine = Quarantine(tmp_path)
    for n in range(MAX_BODIES + 50):
        quarantine.keep(call_of(10, n), MALFORMED)
    assert len(list(tmp_path.iterdir())) == MAX_BODIES
    assert Quarantine(tmp_path).keep(call_of(10), MALFORMED) is None, "a second run adds no more"


def test_a_folder_that_cannot_be_written_to_costs_the_evidence_and_not_the_run(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    quarantine = Quarantine(tmp_path / "file")
    assert quarantine.keep(call_of(10), MALFORMED) is None and "could not be kept" in caplog.text


def test_every_try_of_a_call_leaves_its_body(tmp_path):
    accounting = Accounting(listed(), quarantine=Quarantine(tmp_path))
    server = Server(fault=lambda request: MALFORMED)
    endpoint = Sender("sim/m", server, Limits(), StopToken(), accounting)
    with pytest.raises(Malformed):
        run(endpoint(call_of(10)))
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [BODY] * 3


def endpoint(server, limits=None):
    return sender(server, limits, lambda: 0.5, model="openai/gpt-4o")


@virtually
async def test_every_try_takes_a_slot_and_is_a_line_in_the_books():
    faults = iter([Overloaded("busy")] * 3)
    one = endpoint(Server(fault=lambda request: next(faults, None)), Limits(requests=60))
    await one(call_of(10))
    account = one.page.account()
    assert account.faults == (("failed", "Overloaded", 3),) and account.stored == 1
    # Four tries of a second each, and the waits of 0.75, 1.5 and 3 s between them.
    assert now() == pytest.approx(4 + 5.25)


def anthropic(**limits):
    return {
        f"anthropic-ratelimit-{kind.replace('_', '-')}-limit": most for kind, most in limits.items()
    }


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-limit-requests": "600"}, 10), ({"x-ratelimit-limit-tokens": "12000"}, 100),
        (anthropic(input_tokens="6000"), 100),
        (anthropic(tokens="60", input_tokens="60000", output_tokens="60000"), 10),
        ({"x-ratelimit-limit-requests": "0"}, 0), ({}, 0),
    ],
    ids=["requests", "tokens together", "input tokens", "tighter of the two", "zero", "none"],
)  # fmt: skip
@virtually
async def test_limits_that_the_server_tells_are_kept(headers, seconds):
    one = endpoint(Server(latency=0.0, tokens=lambda call: (100, 100)))
    for n in range(100):
        one.adopt_limits(stated_limits(headers))
        await one(call_of(100, n, 100))
    assert now() == pytest.approx(seconds, rel=0.05, abs=0.1)


class Canned(Transport):
    """Answers every request with one response."""

    def __init__(self, status, body):
        self.response = Response(status, {}, body)
        self.sent = 0

    async def post(self, path, headers, body, about):
        self.sent += 1
        return self.response

    def read(self, came):
        return came

    async def close(self):
        """Nothing to close."""


@virtually
async def test_unwritable_call_was_never_sent_and_rejected_call_was():
    transport = Canned(400, b'{"error": {"message": "no"}}')
    one = endpoint(HttpProvider(OpenAIWire("openai"), lambda: transport))
    rejected = call_of(10, model="openai/gpt-4o")
    unwritable = rejected.changed(tools=(ToolSpec("search", "finds things", "no JSON"),))
    for call in (rejected, unwritable):
        with pytest.raises(InvalidRequest):
            await one(call)
    account = one.page.account()
    assert transport.sent == account.sent == 1
    assert account.faults == (("failed", "UnknownFault", 1), ("unsent", "InvalidRequest", 1))


@pytest.mark.parametrize("halt", [QuotaExhausted, ModelNotFound], ids=lambda halt: halt.__name__)
@pytest.mark.parametrize(
    "limits",
    [
        Limits(concurrency=50),
        Limits(requests=600, concurrency=50),
        Limits(input_tokens=60_000, concurrency=50),
        Limits(requests=30, tokens=50_000, concurrency=50),
    ],
    ids=["concurrency", "requests", "input tokens", "both, slow"],
)
@virtually
async def test_p7_at_most_concurrency_further_requests_and_no_cell_fails(halt, limits):
    server = Server(fault=lambda request: halt("no more") if request.at >= 7.7 else None)
    retry, halted = sender(server, limits), []

    async def ask(n):
        try:
            return type(await retry(call_of(100, n)))
        except Halt as exc:
            halted.append(now())
            return type(exc)

    ends = await asyncio.gather(*map(ask, range(600)))
    assert 1 <= sum(at >= 7.7 for at in arrivals(server)) <= 50
    assert max(arrivals(server)) <= halted[0] + 1e-6
    assert Counter(ends) == {Reply: len(server.answered), halt: 600 - len(server.answered)}
    assert server.answered
    # All who waited hear it at once; only what is in flight still lands.
    assert now() <= halted[0] + 1.0 + 0.1


@virtually
async def test_a_stop_token_that_models_share_stops_them_all():
    one = sender(Server(), Limits(requests=60))
    other = sender(Server(), Limits(requests=60), stop_token=one.limiter.stop_token)
    waiting = [asyncio.create_task(other(call_of(10, n))) for n in range(10)]
    await asyncio.sleep(2.5)
    one.limiter.stop_token.stop(BudgetReached("enough"))
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(end) for end in ends] == [Reply] * 3 + [BudgetReached] * 7
