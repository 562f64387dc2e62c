import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.cache.call import Call
from oversight.protocols.agents.agent import Agent
from oversight.protocols.errors import Unreadable
from oversight.protocols.judges import DistributionJudge, Jury, StatedJudge, VotesJudge
from oversight.protocols.judges.jury import Pooling
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.question import Answer
from oversight.protocols.transcript import Transcript
from tests.fakes import CRATES, Scripted, addresses, prompt

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
async def test_a_pool_is_as_near_to_its_jurors_as_one_probability_can_be(
    pool: Pooling, weights: tuple[float, ...]
) -> None:
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


async def test_a_certain_juror_is_no_veto_in_the_log_odds_pool() -> None:
    pooled = await probs(Jury(THREE, "logodds"), ann=0.0, ben=99.0, cat=99.0)
    assert 0.3 < pooled[0] < 0.6


async def test_medians_that_leave_nothing_are_unreadable() -> None:
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
async def test_a_pool_is_a_probability_between_its_jurors(
    percents: list[int], pool: Pooling
) -> None:
    said = dict(zip(("ann", "ben", "cat"), map(float, percents), strict=True))
    pooled = await probs(Jury(THREE, pool), **said)
    assert math.isclose(sum(pooled), 1)
    assert min(percents) / 100 - 2e-4 <= pooled[0] <= max(percents) / 100 + 2e-4


async def test_a_jury_is_its_jurors_calls_and_keeps_their_judgements() -> None:
    mixed = Jury((ANN, VotesJudge("ben", n=3), DistributionJudge("cat")))
    said = {"percentages": "A: 60%\nB: 40%", "vote": "Answer: A", "probabilities": '{"A":1,"B":0}'}
    alone, together = (Scripted(lambda call: said[prompt(call).task]) for _ in range(2))
    verdict = await mixed.judge(TRANSCRIPT, together)
    for judge in mixed.judges:
        await judge.judge(TRANSCRIPT, alone)
    assert addresses(together) == addresses(alone)
    assert len(verdict.judgements) == 5
    assert verdict.transcript == TRANSCRIPT


@pytest.mark.parametrize(("size", "q"), [(1, 0.7), (3, 0.7), (7, 0.7), (5, 0.4)])
async def test_independent_jurors_are_right_as_often_as_condorcet_says(size: int, q: float) -> None:
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


@pytest.mark.parametrize(("pool", "low", "high"), [("mean", 0.4, 11 / 15), ("median", 0.6, 0.6)])
async def test_an_unread_juror_could_have_stated_anything(
    pool: Pooling, low: float, high: float
) -> None:
    ask = Scripted(lambda call: "Hm." if call.model == "ben" else "A: 60%\nB: 40%")
    verdict = await Jury(THREE, pool).judge(TRANSCRIPT, ask)
    assert verdict.probs == pytest.approx((0.6, 0.4)) and len(verdict.doubts) == 1
    assert verdict.bounds[0] == pytest.approx((low, high))
    assert verdict.bounds[1] == pytest.approx((1 - high, 1 - low))


async def test_a_jury_of_which_nobody_can_be_read_has_no_verdict() -> None:
    with pytest.raises(Unreadable):
        await Jury(THREE).judge(TRANSCRIPT, Scripted(lambda call: "Hm."))


async def test_the_first_juror_speaks_for_the_jury() -> None:
    jury = Jury((replace(ANN, reads_passage=True), BEN))
    transcript = structs.replace(CRATES, passage="PASSAGE")
    ask = Scripted(lambda call: "A: 60%\nB: 40%")
    await Consultancy(jury, Agent("alice")).run(transcript, CRATES.answers[0], ask)
    seen = [(call.model, "PASSAGE" in prompt(call).system) for call in ask.calls]
    assert seen == [("ann", True), ("alice", True), ("ann", True), ("ben", False)]
