import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache import Call
from oversight.protocols.mechanisms.amplification import Amplification, shares
from tests.fakes import ALICE, CRATES, JUDGE, A, Scripted, prompt


def subquestions(*texts: str) -> str:
    return orjson.dumps({"subquestions": texts}).decode()


def script(call: Call) -> str:
    asked = prompt(call)
    match asked.task:
        case "subquestions":
            at_hand = f"{asked.speeches[0]}." if asked.speeches else "sub "
            return subquestions(f"{at_hand}1", f"{at_hand}2", f"{at_hand}3")
        case "percentages":
            return "A: 70%\nB: 30%"
    return f"{asked.asks} on {asked.speeches[0]}"


def test_who_steers_depends_on_contents_alone_and_only_grows_with_the_dose():
    doses = [n / 20 for n in range(21)]
    subs = [f"sub {n}" for n in range(400)]
    steering = [
        {sub for sub in subs if Amplification(JUDGE, ALICE, steered=dose).steers(CRATES, sub)}
        for dose in doses
    ]
    for dose, smaller, larger in zip(doses, steering, steering[1:], strict=False):
        assert smaller <= larger
        assert abs(len(smaller) - 400 * dose) <= 4.5 * (400 * dose * (1 - dose)) ** 0.5
    assert not steering[0] and steering[-1] == set(subs)
    seeded = Amplification(JUDGE, ALICE, seed=1)
    assert {sub for sub in subs if seeded.steers(CRATES, sub)} != steering[10]


def test_the_coin_of_a_helper_is_pinned():
    protocol = Amplification(JUDGE, ALICE)
    fallen = "".join("01"[protocol.steers(CRATES, f"sub {n}")] for n in range(16))
    assert fallen == "0010011010000001"


async def test_a_subquestion_that_comes_up_again_is_the_same_call():
    """Both subquestions of the top are split into the same two: four helpers, two calls."""

    def alike(call: Call) -> str:
        asked = prompt(call)
        if asked.task == "subquestions":
            return subquestions("same", "again") if asked.speeches else subquestions("1", "2")
        return script(call)

    for steered in (0.0, 0.5, 1.0):
        ask = Scripted(alike)
        protocol = Amplification(JUDGE, ALICE, depth=2, steered=steered)
        verdict = await protocol.run(CRATES, A, ask)
        assert dict(verdict.measures)["helpers"] == 4
        # 3 splits, 2 helpers, 2 conclusions, 1 verdict.
        assert ask.distinct == 8 and len(ask.calls) == 10


@pytest.mark.parametrize(("budget", "helpers"), [(1, 1), (2, 2), (3, 3), (7, 4), (12, 9), (99, 9)])
async def test_the_budget_bounds_all_subquestions_and_is_shared_alike(budget, helpers):
    """The known truth: an overseer who always asks all that it may asks three at the top, which
    share what is left of the budget alike, three each at most. A helper answers each that is asked
    below, and each at the top for which nothing is left: with 7, 2 and 1 and 1 below make four."""
    ask = Scripted(script)
    protocol = Amplification(JUDGE, ALICE, depth=2, budget=budget, steered=0)
    verdict = await protocol.run(CRATES, A, ask)
    listed = sum(
        min(3, int(re.findall(r"at most (\d+) subquestions", prompt(call).user)[-1]))
        for call in ask.calls
        if prompt(call).task == "subquestions"
    )
    assert listed <= budget
    assert dict(verdict.measures)["helpers"] == helpers


@given(st.integers(0, 200), st.integers(1, 9))
def test_shares_are_whole_and_as_equal_as_can_be(budget, parts):
    split = shares(budget, parts)
    assert sum(split) == budget and len(split) == parts
    assert split == sorted(split, reverse=True) and split[0] - split[-1] <= 1


async def test_an_overseer_who_asks_nothing_leaves_the_judge_alone_with_the_question():
    def silent(call: Call) -> str:
        return subquestions() if prompt(call).task == "subquestions" else script(call)

    ask = Scripted(silent)
    verdict = await Amplification(JUDGE, ALICE).run(CRATES, A, ask)
    assert len(ask.calls) == 2 and verdict.transcript.turns == ()
