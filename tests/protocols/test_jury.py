import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache.call import Call
from oversight.protocols.agents.agent import Agent
from oversight.protocols.errors import Unreadable
from oversight.protocols.judges import DistributionJudge, Jury, StatedJudge, VotesJudge
from oversight.protocols.judges.jury import Pooling
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.question import Answer
from oversight.protocols.transcript import Transcript
from tests.conftest import Campaign
from tests.fakes import CRATES, Scripted, addresses, prompt

ANN, BEN, CAT = (StatedJudge(name) for name in ("ann", "ben", "cat"))
THREE = (ANN, BEN, CAT)
FLOOR = Transcript(CRATES)


def stating(**percents: float) -> Scripted:
    """Each model states this percentage for A."""
    return Scripted(lambda call: f"A: {percents[call.model]}%\nB: {100 - percents[call.model]}%")


async def probs(jury: Jury, **percents: float) -> tuple[float, ...]:
    return (await jury.judge(FLOOR, stating(**percents))).probs


async def test_jurors_are_pooled_by_mean_median_or_log_odds() -> None:
    said = {"ann": 90.0, "ben": 60.0, "cat": 30.0}
    assert await probs(Jury(THREE), **said) == pytest.approx((0.6, 0.4))
    assert await probs(Jury(THREE, "median"), **said) == pytest.approx((0.6, 0.4))
    odds = math.exp((math.log(9) + math.log(1.5) + math.log(3 / 7)) / 3)
    pooled = await probs(Jury(THREE, "logodds"), **said)
    assert pooled == pytest.approx((odds / (1 + odds), 1 / (1 + odds)))


async def test_only_the_proportions_of_weights_count() -> None:
    said = {"ann": 90.0, "ben": 50.0, "cat": 10.0}
    for weights in ((2.0, 1.0, 1.0), (20.0, 10.0, 10.0)):
        jury = Jury(THREE, weights=weights)
        assert await probs(jury, **said) == pytest.approx((0.6, 0.4))
    deaf = Jury(THREE, "logodds", weights=(0.0, 1.0, 0.0))
    assert await probs(deaf, **said) == pytest.approx((0.5, 0.5))


async def test_a_certain_juror_is_no_veto_in_the_log_odds_pool() -> None:
    pooled = await probs(Jury(THREE, "logodds"), ann=0.0, ben=99.0, cat=99.0)
    assert 0.3 < pooled[0] < 0.6


async def test_a_median_resists_one_wild_juror() -> None:
    assert await probs(Jury(THREE, "median"), ann=0.0, ben=80.0, cat=90.0) == pytest.approx(
        (0.8, 0.2)
    )


async def test_medians_that_leave_nothing_are_unreadable() -> None:
    three = replace(CRATES, answers=(*CRATES.answers, Answer("C", "12")))

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


@pytest.mark.parametrize("pool", ["mean", "median", "logodds"])
async def test_jurors_who_agree_are_the_verdict(pool: Pooling) -> None:
    assert await probs(Jury(THREE, pool), ann=70.0, ben=70.0, cat=70.0) == pytest.approx((0.7, 0.3))


async def test_a_jury_is_its_jurors_calls_and_keeps_their_judgements() -> None:
    mixed = Jury((ANN, VotesJudge("ben", n=3), DistributionJudge("cat")))
    said = {"percentages": "A: 60%\nB: 40%", "vote": "Answer: A", "probabilities": '{"A":1,"B":0}'}
    alone, together = (Scripted(lambda call: said[prompt(call).task]) for _ in range(2))
    verdict = await mixed.judge(FLOOR, together)
    for judge in mixed.judges:
        await judge.judge(FLOOR, alone)
    assert addresses(together) == addresses(alone)
    assert len(verdict.judgements) == 5
    assert verdict.transcript == FLOOR


@pytest.mark.parametrize(("size", "q"), [(1, 0.7), (3, 0.7), (7, 0.7), (5, 0.4)])
async def test_independent_jurors_are_right_as_often_as_condorcet_says(
    size: int, q: float, campaign: Campaign
) -> None:
    """The known truth (Condorcet 1785): each of K jurors is sure of the right answer with
    probability q, for itself; the jury is right with the probability that most of them are: at 0.7
    that is 0.700, 0.784 and 0.874 with 1, 3 and 7 jurors."""
    n = campaign.size(500, 2000)
    most = sum(
        math.comb(size, k) * q**k * (1 - q) ** (size - k) for k in range(size // 2 + 1, size + 1)
    )

    def sure(call: Call) -> str:
        right = random.Random(call.address).random() < q
        return "A: 100%\nB: 0%" if right else "A: 0%\nB: 100%"

    jury, ask = Jury(tuple(StatedJudge(f"juror {k}") for k in range(size))), Scripted(sure)
    right = 0
    for number in range(n):
        question = replace(CRATES, text=f"Which is number {number}?")
        right += (await jury.judge(Transcript(question), ask)).probs[0] > 0.5
    assert abs(right - n * most) <= 4.5 * math.sqrt(n * most * (1 - most))


async def test_an_unreadable_juror_leaves_no_verdict() -> None:
    ask = Scripted(lambda call: "Hm." if call.model == "ben" else "A: 60%\nB: 40%")
    with pytest.raises(Unreadable):
        await Jury(THREE).judge(FLOOR, ask)


async def test_the_first_juror_speaks_for_the_jury() -> None:
    jury = Jury((replace(ANN, reads_passage=True), BEN))
    floor = replace(CRATES, passage="PASSAGE")
    ask = Scripted(lambda call: "A: 60%\nB: 40%")
    await Consultancy(jury, Agent("alice")).run(floor, CRATES.answers[0], ask)
    seen = [(call.model, "PASSAGE" in prompt(call).system) for call in ask.calls]
    assert seen == [("ann", True), ("alice", True), ("ann", True), ("ben", False)]


@pytest.mark.parametrize(
    ("settings", "mend"),
    [
        ({"judges": ()}, "a jury needs one judge or more"),
        ({"judges": (ANN, ANN)}, "two jurors are the same"),
        ({"pool": "vote"}, "there is no 'vote'; there is mean, median, logodds"),
        ({"weights": (1.0,)}, "weights: 1 for 3 judges"),
        ({"weights": (1.0, -1.0, 1.0)}, "must be 0 or more"),
        ({"weights": (0.0, 0.0, 0.0)}, "not all 0"),
        ({"weights": (1.0, math.nan, 1.0)}, "must be 0 or more"),
        ({"weights": (1.0, 1.0, 1.0), "pool": "median"}, "a median has none"),
    ],
)
def test_wrong_settings_are_refused_with_the_mend(settings: dict, mend: str) -> None:
    with pytest.raises(ValueError, match=mend):
        Jury(**{"judges": THREE} | settings)


def test_the_name_tells_pool_weights_and_jurors() -> None:
    assert Jury((ANN, BEN)).name == "jury mean (ann stated; ben stated)"
    assert Jury((ANN, BEN), weights=(2.0, 1.0)).name.startswith("jury mean weighted 2:1 (")
