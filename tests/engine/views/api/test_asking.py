"""An `ask` for Python, without a sweep."""

import asyncio
from contextlib import closing
from dataclasses import replace

import pytest
from msgspec import structs

from oversight import asking, run_async
from oversight.cache.call import Call, Message, Request, ToolSpec
from oversight.cache.entry import StoreEntry, read_entry
from oversight.cache.errors import ReplayMiss
from oversight.engine.errors import BudgetReached, UsageError
from oversight.engine.extensions.mock.process import counts, serving
from oversight.engine.run.settings import open_store, store_name
from oversight.protocols import Agent, Debate, Problem, StatedJudge
from tests.world import shipments

pytestmark = pytest.mark.usefixtures("place")
DEBATE = Debate(StatedJudge("sim/judge"), Agent("sim/strong"))
CALL = Call(Request("openai/gpt-4o-mini", (Message("user", "Say hello."),)))


def stored_entries() -> list[StoreEntry]:
    with closing(open_store(store_name(None))) as store:
        return [read_entry(*item) for item in store.items()]


@pytest.fixture
def problem() -> Problem:
    return shipments(1)[0]


async def test_protocol_is_run_on_one_question_and_no_call_is_sent_twice(problem):
    async with asking([problem]) as ask:
        first = await DEBATE.agent_score_difference(problem, ask)
        assert ask.statistics.new > 0
    async with asking([problem]) as ask:
        again = await DEBATE.agent_score_difference(problem, ask)
        assert (ask.statistics.new, ask.statistics.stored > 0) == (0, True)
    assert first == again


async def test_run_and_asking_share_replies_in_either_order(problem: Problem) -> None:
    ran = await run_async([DEBATE], [problem], quiet=True)
    assert ran.stopped is None
    async with asking([problem]) as ask:
        await DEBATE.agent_score_difference(problem, ask)
        assert (ask.statistics.new, ask.statistics.stored > 0) == (0, True)
    other = replace(DEBATE, rounds=3)
    async with asking([problem]) as ask:
        await other.agent_score_difference(problem, ask)
        assert ask.statistics.new > 0
    replayed = await run_async([other], [problem], cache="replay", quiet=True)
    assert replayed.stopped is None and replayed.results.failed == 0


async def test_replay_sends_no_call(problem: Problem) -> None:
    async with asking([problem], cache="replay") as ask:
        with pytest.raises(ReplayMiss):
            await DEBATE.agent_score_difference(problem, ask)


@pytest.mark.wire
async def test_real_models_answer_over_http_and_calls_are_paid_once(monkeypatch):
    with serving([]) as url:
        providers = {"openai": {"base_url": f"{url}/v1", "identity": "here"}}
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        async with asking(providers=providers) as ask:
            first = await ask(CALL)
        assert first.text
        # Stored replies need neither key nor server.
        monkeypatch.delenv("OPENAI_API_KEY")
        async with asking(providers=providers) as ask:
            assert await ask(CALL) == first
            with pytest.raises(
                UsageError, match=r"OPENAI_API_KEY is not set, and openai/gpt-4o-mini needs it"
            ):
                await ask(structs.replace(CALL, draw=(1,)))
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        async with asking(providers=providers, max_cost=0.0) as ask:
            with pytest.raises(BudgetReached):
                await ask(structs.replace(CALL, draw=(1,)))
        assert counts(url)["requests"] == 1


@pytest.mark.wire
async def test_calls_with_tools_use_the_api_that_takes_them(monkeypatch):
    """The vendor refuses tools of such models over chat completions, which other calls use."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    plain = Call(Request("openai/gpt-5.6-luna", (Message("user", "2 + 2?"),)))
    with_tools = plain.changed(tools=(ToolSpec("calculator", "adds", '{"type":"object"}'),))
    with serving(["--profile", "2026"]) as url:
        async with asking(providers={"openai": {"base_url": f"{url}/v1"}}) as ask:
            first = await ask(plain)
            assert (await ask(with_tools)).outcome == "ok"
            assert counts(url)["requests"] == counts(url)["ok"] == 2
        async with asking(providers={"openai": {"base_url": f"{url}/v1"}}) as ask:
            assert await ask(plain) == first
            await ask(with_tools)
        assert counts(url)["requests"] == 2
        # At once: the endpoint changes after the plain call was looked up, before it is sent.
        later = [plain.drawn(1).changed(max_tokens=77), with_tools.changed(max_tokens=77)]
        for _ in range(2):
            async with asking(providers={"openai": {"base_url": f"{url}/v1"}}) as ask:
                await asyncio.gather(*map(ask, later))
            assert counts(url)["requests"] == 4
            # Stored as what it was sent to.
            assert sum("responses" in entry.identity for entry in stored_entries()) == 3
