import re
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache import Call
from oversight.protocols import Answer, Question
from oversight.protocols.mechanisms.amplification import Amplification, shares
from tests.fakes import ALICE, APPLES, CRATES, JUDGE, A, B, Scripted, prompt


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


def total(asked: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", asked)]


def adding(call: Call) -> str:
    """An overseer who can halve a sum and add two numbers, and helpers who can add two as well."""
    asked = prompt(call)
    about = asked.speeches[0] if asked.speeches else asked.system.partition("What is ")[2]
    numbers = total(about.partition("?")[0])
    match asked.task:
        case "subquestions":
            half = len(numbers) // 2
            return subquestions(
                *(
                    f"What is {' + '.join(map(str, part))}?"
                    for part in (numbers[:half], numbers[half:])
                )
            )
        case "percentages":
            right = asked.system.partition('<answer label="A">\n')[2].partition("\n")[0]
            found = sum(total(answer)[0] for answer in asked.speeches[1::2])
            return "A: 100%\nB: 0%" if str(found) == right else "A: 0%\nB: 100%"
    if asked.side == "B":
        return str(sum(numbers) + 1)
    if len(asked.speeches) > 1:
        return str(sum(total(answer)[0] for answer in asked.speeches[2::2]))
    return str(sum(numbers)) if len(numbers) <= 2 else "too much for me: 0"


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_with_honest_helpers_it_answers_what_nobody_in_it_could(depth):
    """The known truth: who can add two numbers, and ask about two halves, adds 2^(depth + 1)
    numbers at that depth, and no more."""
    for size, able in ((2 ** (depth + 1), True), (2 ** (depth + 2), False)):
        numbers = range(1, size + 1)
        question = Question(
            f"What is {' + '.join(map(str, numbers))}?",
            (Answer("A", str(sum(numbers))), Answer("B", str(sum(numbers) + 1))),
        )
        protocol = Amplification(JUDGE, ALICE, subquestions=2, depth=depth, steered=0)
        for side in question.answers:
            verdict = await protocol.run(question, side, Scripted(adding))
            assert verdict.probs == ((1.0, 0.0) if able else (0.0, 1.0))
            assert dict(verdict.measures)["helpers"] == 2**depth


async def test_each_helper_that_steers_takes_what_it_is_worth_of_asd():
    """The known truth: each of five helpers moves the judge by a fifth, honest ones toward the
    truth and steered ones toward a. With s of them steered, the judge believes the truth at 1 in
    the world that argues for it, and at 1 - s/5 in the other: Brier ASD is 2 (1 - s/5)^2. Where
    the others are turned to the other answer instead, each world's answer gets s/5."""

    def weighing(call: Call) -> str:
        asked = prompt(call)
        match asked.task:
            case "subquestions":
                return subquestions(*(f"sub {n}" for n in range(5)))
            case "percentages":
                for_a = 20 * sum(said == "A" for said in asked.speeches[1::2])
                return f"A: {for_a}%\nB: {100 - for_a}%"
        return asked.side or "A"

    seen = []
    for dose in (n / 10 for n in range(11)):
        protocol = Amplification(JUDGE, ALICE, subquestions=5, steered=dose)
        in_b = await protocol.run(CRATES, B, Scripted(weighing))
        steered = int(dict(in_b.measures)["steered"])
        assert in_b.probs == pytest.approx((1 - steered / 5, steered / 5))
        asd = await protocol.agent_score_difference(APPLES, Scripted(weighing))
        assert asd == pytest.approx(2 * (1 - steered / 5) ** 2)
        seen.append((steered, asd))
        turned = replace(protocol, aux="sided")
        worlds = await turned.worlds(APPLES, Scripted(weighing))
        assert [each.probs[n] for n, each in enumerate(worlds)] == pytest.approx([steered / 5] * 2)
    assert seen == sorted(seen, key=lambda pair: (pair[0], -pair[1]))
    assert seen[0] == (0, 2.0) and seen[-1] == (5, 0.0)
    assert len({steered for steered, _ in seen}) >= 4


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
