"""Juries and ensembles: what several judges or votes make of one transcript."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.cache.call import Call
from oversight.protocols import Ensemble, Question, Shot
from oversight.protocols.agents.agent import Agent
from oversight.protocols.errors import Unreadable
from oversight.protocols.judges import Jury, StatedJudge
from oversight.protocols.judges.jury import Pooling
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.question import Answer
from oversight.protocols.transcript import Transcript
from tests.fakes import CRATES, JUDGE, Scripted, prompt

ANN, BEN, CAT = (StatedJudge(name) for name in ("ann", "ben", "cat"))
THREE = (ANN, BEN, CAT)
TRANSCRIPT = Transcript(CRATES)


def stating(**percents: float) -> Scripted:
    """Each model states this percentage for A."""
    return Scripted(lambda call: f"A: {percents[call.model]}%\nB: {100 - percents[call.model]}%")


async def probs(jury: Jury, **percents: float) -> tuple[float, ...]:
    return (await jury.judge(TRANSCRIPT, stating(**percents))).probs


LOSSES: dict[Pooling, Callable[[float, float], float]] = {
    "mean": lambda pool, juror: (pool - juror) ** 2,
    "median": lambda pool, juror: abs(pool - juror),
    "logodds": lambda pool, juror: (
        pool * math.log(pool / juror) + (1 - pool) * math.log((1 - pool) / (1 - juror))
    ),
}


WEIGHTS = ((), (2.0, 1.0, 1.0), (20.0, 10.0, 10.0), (0.0, 1.0, 0.0))


@pytest.mark.parametrize(
    ("pool", "weights"), [("median", ()), *product(("mean", "logodds"), WEIGHTS)]
)
async def test_a_pool_is_as_near_to_its_jurors_as_one_probability_can_be(pool, weights):
    """The known truth: of all probabilities the weighted mean has the least squared distance from
    the jurors, the median the least distance, and the pool of log odds the least Kullback-Leibler
    divergence from them. The least of 9999 is searched for."""
    said = {"ann": 90.0, "ben": 60.0, "cat": 20.0}
    shares, loss = weights or (1.0, 1.0, 1.0), LOSSES[pool]

    def total(each: float) -> float:
        jurors = zip(shares, said.values(), strict=True)
        return sum(share * loss(each, p / 100) for share, p in jurors)

    pooled = await probs(Jury(THREE, pool, weights), **said)
    nearest = min((n / 10_000 for n in range(1, 10_000)), key=total)
    assert pooled == pytest.approx((nearest, 1 - nearest), abs=1e-4)


async def test_a_certain_juror_is_no_veto_in_the_log_odds_pool():
    pooled = await probs(Jury(THREE, "logodds"), ann=0.0, ben=99.0, cat=99.0)
    assert 0.3 < pooled[0] < 0.6


async def test_medians_that_leave_nothing_are_unreadable():
    three = structs.replace(CRATES, answers=(*CRATES.answers, Answer("C", "12")))

    def script(call: Call) -> str:
        favourite = "ABC"[["ann", "ben", "cat"].index(call.model)]
        return "\n".join(f"{label}: {100 * (label == favourite)}%" for label in "ABC")

    with pytest.raises(Unreadable, match="add up to nothing"):
        await Jury(THREE, "median").judge(Transcript(three), Scripted(script))


@given(
    st.lists(st.integers(0, 100), min_size=3, max_size=3),
    st.sampled_from(["mean", "median", "logodds"]),
)
async def test_a_pool_is_a_probability_between_its_jurors(percents, pool):
    said = dict(zip(("ann", "ben", "cat"), map(float, percents), strict=True))
    pooled = await probs(Jury(THREE, pool), **said)
    assert math.isclose(sum(pooled), 1)
    assert min(percents) / 100 - 2e-4 <= pooled[0] <= max(percents) / 100 + 2e-4


@pytest.mark.parametrize(("size", "q"), [(1, 0.7), (3, 0.7), (7, 0.7), (5, 0.4)])
async def test_independent_jurors_are_right_as_often_as_condorcet_says(size, q):
    """The known truth (Condorcet 1785): each of K jurors is sure of the right answer with
    probability q, for itself; the jury is right with the probability that most of them are: at 0.7
    that is 0.700, 0.784 and 0.874 with 1, 3 and 7 jurors. All 2^K outcomes are counted."""
    most = sum(
        math.comb(size, k) * q**k * (1 - q) ** (size - k) for k in range(size // 2 + 1, size + 1)
    )
    jury, right = Jury(tuple(StatedJudge(f"juror {k}") for k in range(size))), 0.0
    for pattern in product((True, False), repeat=size):
        sure = {f"juror {k}": 100.0 * ok for k, ok in enumerate(pattern)}
        found = await probs(jury, **sure)
        right += math.prod(q if ok else 1 - q for ok in pattern) * (found[0] > 0.5)
    assert right == pytest.approx(most)


async def test_the_first_juror_speaks_for_the_jury():
    jury = Jury((replace(ANN, reads_passage=True), BEN))
    transcript = structs.replace(CRATES, passage="PASSAGE")
    ask = Scripted(lambda call: "A: 60%\nB: 40%")
    await Consultancy(jury, Agent("alice")).run(transcript, CRATES.answers[0], ask)
    seen = [(call.model, "PASSAGE" in prompt(call).system) for call in ask.calls]
    assert seen == [("ann", True), ("alice", True), ("ann", True), ("ben", False)]


HEARD = Transcript(CRATES)
YES_NO = (Answer("A", "yes"), Answer("B", "no"))
EXAMPLES = tuple(
    Shot(Transcript(Question(f"Is {n} even?", YES_NO)), (1 - n % 2, n % 2)) for n in range(12)
)


def percent(p: float) -> str:
    return f"A: {p}%\nB: {100 - p}%"


async def test_members_are_draws_of_the_judge_at_the_temperature_of_the_ensemble():
    ask = Scripted(lambda call: percent(10 * call.draw[0]))
    verdict = await Ensemble(JUDGE).judge(HEARD, ask)
    assert [call.draw for call in ask.calls] == [(0,), (1,), (2,), (3,), (4,)]
    assert {call.temperature for call in ask.calls} == {1.0}
    assert verdict.probs == pytest.approx((0.2, 0.8)) and len(verdict.judgements) == 5


async def test_each_member_has_its_own_bag_of_examples_the_same_for_every_question():
    ensemble = Ensemble(JUDGE, examples=EXAMPLES)
    bags = [ensemble.taught(n, EXAMPLES).shots for n in range(5)]
    assert all(len(bag) == 4 for bag in bags) and len(set(bags)) == 5
    assert bags == [ensemble.taught(n, EXAMPLES).shots for n in range(5)]
    assert bags[0] != replace(ensemble, seed=1).taught(0, EXAMPLES).shots
    ask = Scripted(lambda call: percent(50))
    await ensemble.judge(HEARD, ask)
    for call, bag in zip(ask.calls, bags, strict=True):
        for shot in bag:
            assert shot.floor.question.text in prompt(call).system


async def test_an_unread_member_of_an_ensemble_bounds_its_verdict():
    """The known truth: of five members the first is read, at 50 %; the others may be any."""
    ensemble = Ensemble(JUDGE, examples=EXAMPLES)
    half = await ensemble.judge(HEARD, Scripted(lambda c: "hm" if c.draw[0] else percent(50)))
    assert half.probs == (0.5, 0.5) and half.bounds[0] == pytest.approx((0.1, 0.9))
    with pytest.raises(Unreadable):
        await ensemble.judge(HEARD, Scripted(lambda call: "hm"))
