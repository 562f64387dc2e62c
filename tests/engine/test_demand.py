"""How many tokens a call will take, and how the guess learns."""

import random

import pytest

from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec
from oversight.cache.reply import ToolCall, Usage
from oversight.engine.tokens import CAUTION, TokenEstimator, prompt_tokens


def saying(*messages, **more):
    return Call(Request("m", messages, **more))


def call(text="x" * 400, **more):
    return saying(Message("user", text), **more)


def test_without_replies_it_is_four_bytes_a_token_and_all_of_max_tokens():
    demand = TokenEstimator().demand(call("x" * 4_000, max_tokens=500))
    assert demand.input == pytest.approx(1_000, rel=0.01)
    assert demand.output == demand.max_output == 500


@pytest.mark.parametrize(
    "bigger",
    [
        call(tools=(ToolSpec("search", "finds things", '{"type": "object"}'),)),
        call(response_format=ResponseFormat("verdict", '{"type": "object"}')),
        saying(Message("assistant", "x" * 400, (ToolCall("1", "search", '{"q": "crates"}'),))),
        saying(Message("assistant", "x" * 400, opaque='[{"type": "thinking"}]')),
        saying(Message("user", "x" * 400), Message("user", "")),
        call("é" * 400),
        call("数" * 400),
    ],
    ids=["tools", "format", "tool calls", "opaque", "another message", "accents", "characters"],
)
def test_all_that_the_model_reads_counts(bigger):
    assert prompt_tokens(bigger) > prompt_tokens(call())


def test_lone_surrogates_are_counted_and_not_fallen_over():
    assert prompt_tokens(call("\ud800" * 40)) > 0


def test_the_estimate_learns_the_models_own_tokens():
    rng, estimator = random.Random(1), TokenEstimator()
    for _ in range(300):
        demand = estimator.demand(call("x" * rng.randint(100, 40_000), max_tokens=1_000))
        estimator.observe(demand, Usage(round(demand.raw * rng.uniform(1.2, 1.6)), 100))
    demand = estimator.demand(call("x" * 4_000, max_tokens=1_000))
    assert demand.input == pytest.approx(1.4 * demand.raw, rel=0.05)
    assert demand.output == pytest.approx(100, rel=0.1)


def test_short_and_long_answers_are_learned_apart():
    estimator = TokenEstimator()
    for _ in range(200):
        estimator.observe(estimator.demand(call(max_tokens=16)), Usage(100, 16))
        estimator.observe(estimator.demand(call(max_tokens=2_000)), Usage(100, 200))
    assert estimator.demand(call(max_tokens=16)).output == pytest.approx(16)
    assert estimator.demand(call(max_tokens=2_000)).output == pytest.approx(200, rel=0.1)


def taught(usage, times=200, **more):
    """The estimate for a call after this usage of many similar ones."""
    estimator = TokenEstimator()
    for _ in range(times):
        estimator.observe(estimator.demand(call(**more)), usage)
    return estimator.demand(call(**more))


def test_one_odd_reply_does_not_turn_the_estimate():
    assert taught(Usage(1, 1), times=1, max_tokens=1_000).output > 300


def test_a_reply_without_usage_teaches_nothing():
    assert taught(Usage(), times=1) == TokenEstimator().demand(call())


def test_the_worst_case_is_cautious_even_when_replies_were_cheap():
    demand = taught(Usage(50, 1))
    assert demand.input < 0.6 * demand.raw
    assert demand.max_input == CAUTION * demand.raw
