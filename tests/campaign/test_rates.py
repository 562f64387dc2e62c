"""How exactly rates are kept in real time, over real HTTP, with 5,000 calls that wait."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.accounting.ledger import Ledger
from oversight.engine.accounting.prices import listed
from oversight.engine.limits.limits import Limits
from oversight.engine.mock.process import counts, serving
from oversight.engine.models.client import Accounting, ModelClient
from oversight.engine.providers.catalogue import connect
from oversight.engine.providers.provider import Provider
from oversight.engine.providers.settings import Settings
from oversight.engine.stop import StopToken
from oversight.engine.system.loop import event_loop
from tests.conftest import Campaign
from tests.server import busiest, call_of, mixed_sizes

MODEL = "compatible/lab/model"
WAITING = 5_000


@dataclass(frozen=True)
class Sent:
    at: float
    """Seconds after the start."""
    number: int
    """Of the call, in the order of asking."""
    tokens: int
    """Input tokens, as the server counted them."""


@dataclass
class Watched(Provider):
    """The provider, and when each call that it answered went out."""

    inner: Provider
    sent: list[Sent] = field(default_factory=list)

    async def __call__(self, call: Call) -> Reply:
        at = asyncio.get_running_loop().time()
        reply = await self.inner(call)
        self.sent.append(Sent(at, call.draw[0], reply.usage.input_tokens))
        return reply

    async def close(self) -> None:
        await self.inner.close()


class Stalls:
    """How long this process was kept from turning its loop: by imports, and by its neighbours.

    What a limiter may be blamed for is what it does with the time that it is given.
    """

    TICK = 0.01

    def __init__(self) -> None:
        self.seconds = 0.0

    async def watch(self) -> None:
        while True:
            at = asyncio.get_running_loop().time()
            await asyncio.sleep(self.TICK)
            late = asyncio.get_running_loop().time() - at - self.TICK
            self.seconds += max(late - self.TICK, 0.0)


async def sent_within(seconds: float, limits: Limits) -> tuple[list[Sent], float]:
    """What goes out of 5,000 calls of mixed size that all wait from the start, and the seconds
    for which this process stood still meanwhile."""
    stalls = Stalls()
    with serving(["--words", "30"]) as url:
        settings = Settings("compatible/lab", f"{url}/v1", "lab", connections=200)
        provider = Watched(connect(settings))
        endpoint = ModelClient(MODEL, provider, limits, StopToken(), Accounting(Ledger(), listed()))
        began = asyncio.get_running_loop().time()
        watching = asyncio.create_task(stalls.watch())
        asking = [
            asyncio.create_task(endpoint(call_of(size, n, model=MODEL)))
            for n, size in enumerate(mixed_sizes(WAITING, seed=4))
        ]
        await asyncio.wait(asking, timeout=seconds)
        for task in (watching, *asking):
            task.cancel()
        await asyncio.wait([watching, *asking])
        await provider.close()
    sent = (replace(each, at=each.at - began) for each in provider.sent)
    kept = sorted((each for each in sent if each.at <= seconds), key=lambda each: each.at)
    return kept, stalls.seconds


@pytest.mark.nightly
@pytest.mark.campaign
@pytest.mark.parametrize("counted", ["requests", "tokens"])
def test_a_budget_is_used_evenly_and_nobody_starves(counted: str, campaign: Campaign) -> None:
    if not campaign.long:
        pytest.skip("rates by the clock are measured by `make campaign`, virtual ones always")
    seconds = 60
    limits = Limits(requests=6_000, input_tokens=400_000 if counted == "tokens" else None)
    a_second = (400_000 if counted == "tokens" else 6_000) / 60
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        sent, stalled = runner.run(sent_within(seconds, limits))
    amounts = [(each.at, each.tokens if counted == "tokens" else 1) for each in sent]
    share = sum(amount for _, amount in amounts) / (
        (min(seconds, sent[-1].at) - stalled) * a_second
    )
    second = busiest(amounts, 1.0) / a_second
    overdue: defaultdict[int, float] = defaultdict(float)
    drained = 0.0
    for each, (at, amount) in zip(sent, amounts, strict=True):
        drained += amount
        size = 2 ** (each.tokens.bit_length() - 1)
        overdue[size] = max(overdue[size], at - drained / a_second)
    print(f"{60 * a_second:,.0f} {counted} a minute, {sent[-1].at:.1f} s, {len(sent):,} calls")
    print(f"{share:.1%} of the budget used; busiest second {second:.1%} of a second's")
    print(f"for {stalled:.2f} s this process stood still")
    for size in sorted(overdue):
        print(f"  from {size:>5} tokens: at most {overdue[size]:.2f} s behind its turn")
    # First come, first served, but that some leave the machine in the same instant: two, and all
    # those whose turn came while this process stood still.
    at_once = stalled * len(sent) / sent[-1].at
    assert max(abs(each.number - place) for place, each in enumerate(sent)) <= 2 + at_once
    largest = max(amount for _, amount in amounts)
    assert second <= 1.1 + largest / a_second
    assert share >= 0.97
    # Time in which it stood still does not let more out later than it would have.
    assert share * (min(seconds, sent[-1].at) - stalled) <= 1.05 * min(seconds, sent[-1].at)
    assert max(overdue.values()) < 3.0 + stalled


async def rates(url: str, seconds: float) -> list[float]:
    """Replies a second of twenty lanes, in windows of a second. Any call that fails raises."""
    provider = connect(Settings("compatible/lab", f"{url}/v1", "lab"))
    limits, accounting = Limits(concurrency=20), Accounting(Ledger(), listed())
    endpoint = ModelClient(MODEL, provider, limits, StopToken(), accounting)
    clock = asyncio.get_running_loop().time
    began, back = clock(), list[float]()

    async def lane(first: int) -> None:
        n = first
        while clock() - began < seconds:
            await endpoint(call_of(100, n, model=MODEL))
            back.append(clock() - began)
            n += 20

    async with asyncio.TaskGroup() as group:
        for first in range(20):
            group.create_task(lane(first))
    await provider.close()
    return [float(sum(at <= each < at + 1 for each in back)) for at in range(int(seconds))]


@pytest.mark.nightly
@pytest.mark.campaign
def test_p8_a_storm_that_begins_with_the_first_request_is_over_when_it_ends(
    tmp_path: Path, campaign: Campaign
) -> None:
    if not campaign.long:
        pytest.skip("rates by the clock are measured by `make campaign`, virtual ones always")
    storm, after, quiet = 6, 60, 5
    profile = tmp_path / "storm.yaml"
    profile.write_text(
        f"latency: 0.2\ndelay: 1.0\nspells: [{{fault: rate_limit, share: 0.8, end: {storm}}}]\n"
    )
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        with serving(["--profile", str(profile)]) as url:
            stormy = runner.run(rates(url, storm + after))
            refused = counts(url)["rate_limit"]
        profile.write_text("latency: 0.2\n")
        with serving(["--profile", str(profile)]) as url:
            calm = runner.run(rates(url, quiet))
    normal = sum(calm[1:]) / (quiet - 1)
    print(f"undisturbed {normal:.0f}/s; {refused} refusals;", *map(round, stormy))
    assert refused >= 5
    # Half of the minute that is promised.
    rest = stormy[storm + 30 :]
    assert sum(rest) / len(rest) >= 0.8 * normal
