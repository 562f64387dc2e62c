"""Answers that models write: the cost of a model that is down, refuses or fails. The output of
the commands is in their sessions."""

import pytest
from msgspec.structs import replace

from oversight.cache.cache import Cache
from oversight.cache.store import MemoryStore
from oversight.engine.errors import InvalidRequest, ProviderDown, UsageError
from oversight.engine.extensions.datasets.generating import Generator, Known, Production
from oversight.engine.extensions.simulation import GroundTruth, SimProvider
from oversight.engine.stop import StopToken
from oversight.protocols.question import Answer
from tests.fakes import Scripted, prompt

QUESTIONS = tuple(
    Known(f"q{n}", f"How many are {n} and {n}?", Answer("", str(2 * n))) for n in range(2, 8)
)


def simulated(call):
    return SimProvider(GroundTruth(())).reply(call)


async def generation_over(ask, lanes=2, store=None):
    """A generation, and why it stopped early, if it did."""
    production = Production(QUESTIONS, Generator("sim/strong", drafts=2))
    cache = Cache(MemoryStore() if store is None else store, ask, identity=lambda call: call.model)
    return production, await production.run(cache, StopToken(), lanes)


async def test_a_provider_that_is_down_stops_it_and_the_store_resumes_it():
    spoken = 0

    def answer(call):
        nonlocal spoken
        spoken += 1
        if spoken > 12:
            raise ProviderDown("down")
        return simulated(call)

    store, ask = MemoryStore(), Scripted(simulated)
    stopped, halt = await generation_over(Scripted(answer), store=store)
    assert isinstance(halt, ProviderDown)
    assert stopped.done < len(stopped.questions)
    again, halt = await generation_over(ask, store=store)
    assert halt is None
    assert len(ask.calls) == len(QUESTIONS) * 5 - 12
    assert again.done == len(again.questions)
    assert not again.failures


async def test_the_outcome_does_not_depend_on_how_many_run_at_once():
    ask = Scripted(simulated)
    one, _ = await generation_over(ask, lanes=1)
    assert len(ask.calls) == len({call.address for call in ask.calls}), "no call is asked twice"
    many, _ = await generation_over(ask, lanes=64)
    assert one.problems(0) == many.problems(0)
    assert [problem.id for problem in one.problems(0)] == [known.id for known in QUESTIONS]


async def test_a_call_that_fails_a_refusal_or_a_bug_costs_its_question_alone(caplog):
    def answer(call):
        shown = prompt(call).system
        if QUESTIONS[0].text in shown:
            raise InvalidRequest("too long")
        if QUESTIONS[2].text in shown:
            raise ZeroDivisionError("a bug")
        reply = simulated(call)
        return replace(reply, outcome="refused") if QUESTIONS[1].text in shown else reply

    production, halt = await generation_over(Scripted(answer))
    assert halt is None
    assert {id: failure.kind for id, failure in production.failures.items()} == {
        "q2": "InvalidRequest",
        "q3": "declined",
        "q4": "crash",
    }
    assert production.failures["q4"].message == "ZeroDivisionError: a bug"
    assert "question q4 crashed" in caplog.text
    assert [problem.id for problem in production.problems(0)] == ["q5", "q6", "q7"]


def test_a_setting_that_the_model_does_not_take_is_told_with_the_mend():
    lacking = Production(QUESTIONS, Generator("openai/o3", temperature=0.7))
    with pytest.raises(UsageError, match=r"temperature: .*\nNothing was sent"):
        lacking.require_abilities()
