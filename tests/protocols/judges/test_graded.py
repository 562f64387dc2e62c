"""Answers that differ in degree, asked of every kind of judge; how votes of judges are weighed."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oversight.cache import Call
from oversight.protocols import Answer, Debate, NaiveJudge, Problem, Question
from oversight.protocols.datasets.forms import JsonLines
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.judges.repeated import WEIGHINGS, adaboost, logodds_weights, uniform
from oversight.protocols.scores import brier
from tests.fakes import ALICE, APPLES, CRATES, JUDGE, Scripted, prompt

ROUTES = Question(
    "Which way to the harbour?",
    (Answer("A", "over the hill"), Answer("B", "by the shore"), Answer("C", "through the town")),
    graded=True,
)
WAYS = Problem("ways", ROUTES, (2, 0.5, -1))


async def test_grades_count_by_how_much_better_an_answer_is():
    """The known truth: every speech for an answer weighs what the answer is worth, in nats, and a
    judge adds them up. In a debate it hears all three in every world, so its verdict is the softmax
    of the values, and the score difference is the sum of value times the Brier score of that
    verdict, with the values' mean taken off; a judge who finds all alike has a third of each."""

    def weighs(call: Call) -> str:
        if prompt(call).task != "percentages":
            return prompt(call).side
        heard = [WAYS.values["ABC".index(said)] for said in prompt(call).speeches]
        weights = [math.exp(value) for value in heard] or [1.0, 1.0, 1.0]
        shares = [100 * weight / sum(weights) for weight in weights]
        return "\n".join(f"{label}: {p:.9f}%" for label, p in zip("ABC", shares, strict=True))

    centred = replace(WAYS, values=tuple(value - 0.5 for value in WAYS.values))
    softmax = [math.exp(value) / sum(map(math.exp, WAYS.values)) for value in WAYS.values]
    expected = sum(v * brier(tuple(softmax), n) for n, v in enumerate(centred.values))
    asd = await Debate(JUDGE, ALICE, rounds=1).agent_score_difference(centred, Scripted(weighs))
    assert asd == pytest.approx(expected, abs=1e-6) and asd > 1
    naive = await NaiveJudge(JUDGE).agent_score_difference(centred, Scripted(weighs))
    assert naive == pytest.approx(0, abs=1e-6)


def test_a_file_says_so_by_its_grades_or_in_so_many_words(tmp_path):
    told = [WAYS, APPLES, replace(APPLES, id="said", question=replace(CRATES, graded=True))]
    told.append(Problem("denied", replace(ROUTES, graded=False), WAYS.values))
    write_jsonl(told, tmp_path / "p.jsonl")
    assert JsonLines("p.jsonl").load(tmp_path) == tuple(told)
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert [line.count('"graded"') for line in lines] == [0, 0, 1, 1]
    relabelled = JsonLines("p.jsonl", relabel=True).load(tmp_path)
    assert [each.question.graded for each in relabelled] == [True, False, True, False]


def wrong_on(*cases: int, of: int = 10) -> list[bool]:
    return [case not in cases for case in range(of)]


def test_boosting_by_hand():
    """The known truth (Freund and Schapire 1997), by hand: ten cases, three members who each err on
    three, all apart.

    Round 1: each errs on 3/10; the first is taken, e = 0.3. Its errors then count 1/6 each and the
    others 1/14. Round 2: the second errs on 3/14. Its errors then count 1/6 each, those of the
    first 7/66 and the other four 1/22. Round 3: the third errs on 3/22.
    """
    right = [wrong_on(0, 1, 2), wrong_on(3, 4, 5), wrong_on(6, 7, 8)]
    assert adaboost(right) == pytest.approx(
        (math.log(7 / 3), math.log(11 / 3), math.log(19 / 3)), abs=1e-9
    )


def test_boosting_takes_the_best_member_first_wherever_it_stands():
    right = [wrong_on(0, 1, 2), wrong_on(0), wrong_on(5, 6)]
    # The second errs on 1/10; the case it misses then counts 1/2 and the others 1/18 each, so that
    # the third errs on 1/9; its misses count 1/4 then, that case 9/32 and the other seven 1/32, and
    # the first errs on 11/32.
    assert adaboost(right) == pytest.approx((math.log(21 / 11), math.log(9), math.log(8)), abs=1e-9)


def test_neither_a_copy_of_a_member_nor_one_that_is_always_wrong_adds_anything():
    """The known truth: once a member has its weight, the cases count so that it errs on just half
    of them, and so does its copy; boosting ends where nobody errs less."""
    right = [wrong_on(0, 1), wrong_on(0, 1), wrong_on(0, 1)]
    assert adaboost(right) == pytest.approx((math.log(4), 0, 0))
    assert adaboost([*right, wrong_on(*range(10))]) == pytest.approx((math.log(4), 0, 0, 0))


def test_a_member_that_is_never_wrong_does_not_silence_the_others():
    weights = adaboost([wrong_on(), wrong_on(3)])
    assert weights == pytest.approx((math.log(19), math.log(9)))


def test_the_log_odds_of_being_right_by_hand():
    """8 of 10 gives (8 + 1)/12, odds 3; 5 of 10 gives odds 1; 2 of 10 gives odds below 1."""
    right = [wrong_on(0, 1), wrong_on(*range(5)), wrong_on(*range(8))]
    assert logodds_weights(right) == pytest.approx((math.log(3), 0, 0))


@pytest.mark.parametrize("weigh", WEIGHINGS.values())
def test_where_nobody_beats_a_coin_all_count_alike(weigh):
    assert weigh([wrong_on(*range(5)), wrong_on(*range(10))]) == (1, 1)


@given(
    st.integers(1, 8).flatmap(
        lambda cases: st.lists(
            st.lists(st.booleans(), min_size=cases, max_size=cases), min_size=1, max_size=5
        )
    )
)
def test_weights_are_finite_and_some_are_above_0(right):
    for weigh in (uniform, adaboost, logodds_weights):
        weights = weigh(right)
        assert len(weights) == len(right)
        assert min(weights) >= 0 < max(weights) < math.inf


def test_votes_weighed_by_log_odds_are_right_more_often_than_any_other_way():
    """The known truth (Nitzan and Paroush 1982): three members who are right with probability 0.9,
    0.6 and 0.6. A plain majority is right with probability 0.792, less than the best member alone;
    weighed by log odds it is that member, 0.9. All eight outcomes are counted, with no chance."""
    q = (0.9, 0.6, 0.6)
    cases = 1000
    right = [[case < round(p * cases) for case in range(cases)] for p in q]

    def accuracy(weights: tuple[float, ...]) -> float:
        total = 0.0
        for votes in product((True, False), repeat=3):
            chance = math.prod(p if ok else 1 - p for p, ok in zip(q, votes, strict=True))
            heard = sum(w if ok else -w for w, ok in zip(weights, votes, strict=True))
            total += chance * (heard > 0)
        return total

    assert accuracy(uniform(right)) == pytest.approx(0.792)
    assert accuracy(logodds_weights(right)) == pytest.approx(0.9)
    weights = [tuple(map(float, each)) for each in product(range(5), repeat=3)]
    assert max(map(accuracy, weights)) == pytest.approx(accuracy(logodds_weights(right)))
