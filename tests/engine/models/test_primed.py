"""The first call of a prefix goes alone, in virtual time."""

import asyncio
from dataclasses import dataclass, field

import pytest

from oversight.cache.call import Call, Message, Request, ToolSpec
from oversight.cache.reply import Reply
from oversight.engine.errors import InvalidRequest
from oversight.engine.models.prefix_warmup import WARM, PrefixWarmup
from oversight.engine.providers.prompt_cache import kept_prefix
from tests.virtual import now, run

CLAUDE = "anthropic/claude-sonnet-4-5"
LONG = "A long passage. " * 600


@dataclass
class Vendor:
    """Answers after a second, and notes when it was asked; the first so many fail."""

    fail: int = 0
    asked: list[float] = field(default_factory=list)

    async def __call__(self, call: Call) -> Reply:
        self.asked.append(now())
        number = len(self.asked)
        await asyncio.sleep(1)
        if number <= self.fail:
            raise InvalidRequest("no")
        return Reply("yes")


def call(n: int, prefix: str = "p") -> Call:
    return Call(Request(CLAUDE, (Message("system", prefix), Message("user", str(n)))))


def primed(vendor: Vendor) -> PrefixWarmup:
    return PrefixWarmup(vendor, lambda call: call.messages[0].text or None)


def seconds(vendor: Vendor) -> list[int]:
    return [round(each) for each in vendor.asked]


async def fan_out(ask: PrefixWarmup, calls: list[Call]) -> list[Reply | BaseException]:
    return await asyncio.gather(*map(ask, calls), return_exceptions=True)


def test_the_others_wait_for_the_first_of_their_prefix_alone() -> None:
    vendor = Vendor()
    run(fan_out(primed(vendor), [call(n, "pq"[n % 2]) for n in range(20)]))
    assert seconds(vendor) == [0] * 2 + [1] * 18


def test_what_no_vendor_keeps_waits_for_nobody() -> None:
    vendor = Vendor()
    run(fan_out(primed(vendor), [call(n, "") for n in range(20)]))
    assert seconds(vendor) == [0] * 20


def test_after_a_failure_the_next_one_leads() -> None:
    vendor = Vendor(fail=2)
    found = run(fan_out(primed(vendor), [call(n) for n in range(10)]))
    assert seconds(vendor) == [0, 1, 2] + [3] * 7
    assert sum(isinstance(each, InvalidRequest) for each in found) == 2


def test_a_cancelled_leader_hands_over() -> None:
    vendor = Vendor()

    async def main() -> None:
        ask = primed(vendor)
        leader, *others = [asyncio.create_task(ask(call(n))) for n in range(4)]
        await asyncio.sleep(0.5)
        leader.cancel()
        await asyncio.gather(*others)

    run(main())
    assert vendor.asked == pytest.approx([0, 0.5, 1.5, 1.5], abs=0.01)


def test_a_prefix_grows_cold_unless_it_is_used() -> None:
    vendor = Vendor()

    async def main() -> None:
        ask = primed(vendor)
        await ask(call(0))
        for _ in range(3):
            await asyncio.sleep(WARM - 10)
            await fan_out(ask, [call(n) for n in range(2)])
        await asyncio.sleep(WARM + 1)
        await fan_out(ask, [call(n) for n in range(2)])

    run(main())
    pairs = vendor.asked[1:]
    apart = [round(b - a) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    assert apart == [0, 0, 0, 1]


def test_vendors_keep_long_marked_prefixes_with_their_tools() -> None:
    short, long = call(0, "Who?"), call(0, LONG)
    assert kept_prefix(short) is None
    assert kept_prefix(long) == kept_prefix(call(1, LONG)) is not None
    tool = ToolSpec("calculator", "computes", "{}")
    armed = Call(Request(CLAUDE, long.messages, tools=(tool,)))
    assert kept_prefix(armed) not in (None, kept_prefix(long))
    # OpenAI keeps prefixes of its own accord, and charges nothing for writing them.
    assert kept_prefix(Call(Request("openai/gpt-4o", long.messages))) is None
