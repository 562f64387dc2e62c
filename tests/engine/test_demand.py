"""How many tokens a call will take, and how the guess learns."""

import random
from pathlib import Path

import pytest

from oversight.cache import call as calls
from oversight.cache.call import Call, Message, Request
from oversight.cache.reply import Usage
from oversight.engine import tokens
from oversight.engine.tokens import TokenEstimator
from tests.sessions import sessions
from tests.tables import expressions


def saying(*messages, **more):
    return Call(Request("m", messages, **more))


def call(text="x" * 400, **more):
    return saying(Message("user", text), **more)


def test_the_estimate_learns_the_models_own_tokens():
    rng, estimator = random.Random(1), TokenEstimator()
    for _ in range(300):
        demand = estimator.demand(call("x" * rng.randint(100, 40_000), max_tokens=1_000))
        estimator.observe(demand, Usage(round(demand.raw * rng.uniform(1.2, 1.6)), 100))
    demand = estimator.demand(call("x" * 4_000, max_tokens=1_000))
    assert demand.input == pytest.approx(1.4 * demand.raw, rel=0.05)
    assert demand.output == pytest.approx(100, rel=0.1)


def taught(*replies, times=200, most=1_000):
    """The estimate for a call of at most `most` tokens after replies: (most, usage) of each."""
    estimator = TokenEstimator()
    for _ in range(times):
        for cap, usage in replies:
            estimator.observe(estimator.demand(call(max_tokens=cap)), usage)
    return estimator.demand(call(max_tokens=most))


@sessions(Path(__file__).with_name("demand.md"))
def test_all_that_the_model_reads_and_writes_counts(session, request):
    session.check(request, expressions(vars(calls) | vars(tokens) | globals()))
