import math
import random

import pytest

from oversight.cache.call import Call
from oversight.protocols.agents.agent import Agent
from oversight.protocols.judges import Jury, StatedJudge
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.mechanisms.weak_to_strong import WeakToStrong
from oversight.protocols.question import Problem, Question
from tests.conftest import Campaign
from tests.fakes import CRATES, Scripted, paid, prompt

JUDGE = StatedJudge("judge")
ANN, BEN = StatedJudge("ann"), StatedJudge("ben")
ALICE, BOB = Agent("alice"), Agent("bob")
A, B = CRATES.answers


def script(call: Call) -> str:
    asked = prompt(call)
    if asked.task == "percentages":
        p = 10 * call.draw[0] if call.draw else {"judge": 80, "ann": 60, "ben": 40}[call.model]
        return f"A: {p}%\nB: {100 - p}%"
    return f"{asked.asks} by {call.model}"


async def test_a_debate_and_then_every_weak_judge_reads_it():
    ask = Scripted(script)
    verdict = await WeakToStrong(JUDGE, ALICE, BOB, rounds=1).run(CRATES, A, ask)
    assert [(call.model, prompt(call).asks) for call in ask.calls] == [
        ("alice", "speak A"),
        ("bob", "speak B"),
        *[("judge", "percentages")] * 5,
    ]
    assert {prompt(call).speakers for call in ask.calls[2:]} == {("Debater A", "Debater B")}
    assert verdict.probs == pytest.approx((0.2, 0.8))
    assert verdict.measures == (("spread", pytest.approx(0.12)),)


async def test_named_weak_judges_join_that_of_the_row_each_once():
    ask = Scripted(script)
    protocol = WeakToStrong(JUDGE, ALICE, weak=(ANN, BEN, JUDGE))
    verdict = await protocol.run(CRATES, A, ask)
    assert [call.model for call in ask.calls[-3:]] == ["judge", "ann", "ben"]
    assert {call.draw for call in ask.calls} == {()}
    assert verdict.probs == pytest.approx((0.6, 0.4))
    assert dict(verdict.measures)["spread"] == pytest.approx(0.4 / 3)


async def test_the_worlds_share_what_the_debate_shares():
    in_a, in_b = await paid(WeakToStrong(JUDGE, ALICE), script)
    assert in_a == in_b and len(in_a) == 4 + 5
    in_a, in_b = await paid(WeakToStrong(JUDGE, ALICE, simultaneous=False), script)
    assert len(in_a) == len(in_b) == 4 + 5 and not in_a & in_b


async def test_it_pays_for_no_speech_that_a_plain_debate_has_paid_for():
    weak, _ = await paid(WeakToStrong(JUDGE, ALICE, weak=(ANN,)), script)
    for judge in (JUDGE, ANN):
        plain, _ = await paid(Debate(judge, ALICE), script)
        assert plain < weak


@pytest.mark.parametrize("size", [1, 4, 16])
async def test_the_error_that_each_judge_makes_for_itself_falls_with_their_number(
    size: int, campaign: Campaign
):
    """The known truth: judges who hear the debate state 0.7 of the answer for which the debaters
    have evidence, plus an error of their own, uniform over ±0.3; without it they would be at 0.5.
    The mean of K of them is off from 0.7 with variance 0.03/K; so its expected Brier score is
    -2 (0.3^2 + 0.03/K)."""
    n = campaign.size(100, 400)

    def noisy(call: Call) -> str:
        if prompt(call).task == "percentages":
            heard = sum(speech == "evidence" for speech in prompt(call).speeches)
            p = 50 + 20 * heard + 30 * random.Random(call.address).uniform(-1, 1)
            return f"A: {p:.6f}%\nB: {100 - p:.6f}%"
        return "evidence" if prompt(call).side == "A" else "assertion"

    protocol = WeakToStrong(JUDGE, ALICE, rounds=1, size=size)
    scores = []
    for number in range(n):
        question = Question(f"Which is {number}?", CRATES.answers)
        (verdict, _) = await protocol.worlds(Problem("x", question, (1, -1)), Scripted(noisy))
        scores.append(-2 * (1 - verdict.probs[0]) ** 2)
    mean = sum(scores) / n
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / (n - 1))
    assert abs(mean + 2 * (0.09 + 0.03 / size)) <= 4.5 * deviation / math.sqrt(n)


def test_settings_that_cannot_be_averaged_are_refused():
    with pytest.raises(ValueError, match="1 or more"):
        WeakToStrong(JUDGE, ALICE, size=0)
    with pytest.raises(ValueError, match="no debate"):
        WeakToStrong(JUDGE, ALICE, rounds=0)
    with pytest.raises(ValueError, match="judge of one model"):
        WeakToStrong(Jury((ANN, BEN)), ALICE)
    assert WeakToStrong(Jury((ANN, BEN)), ALICE, weak=(JUDGE,)).panel().name.startswith("jury")


def test_its_row_tells_how_many_judge():
    assert WeakToStrong(JUDGE, ALICE).name == "weak to strong labels debate simultaneous 2 5 draws"
    assert WeakToStrong(JUDGE, ALICE, weak=(ANN,)).name.endswith("2 judges")
