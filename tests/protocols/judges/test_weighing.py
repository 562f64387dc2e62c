import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.protocols.judges.weighing import WEIGHINGS, adaboost, logodds_weights, uniform


def wrong_on(*cases: int, of: int = 10) -> list[bool]:
    return [case not in cases for case in range(of)]


def test_boosting_by_hand() -> None:
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


def test_boosting_takes_the_best_member_first_wherever_it_stands() -> None:
    right = [wrong_on(0, 1, 2), wrong_on(0), wrong_on(5, 6)]
    # The second errs on 1/10; the case it misses then counts 1/2 and the others 1/18 each, so that
    # the third errs on 1/9; its misses count 1/4 then, that case 9/32 and the other seven 1/32, and
    # the first errs on 11/32.
    assert adaboost(right) == pytest.approx((math.log(21 / 11), math.log(9), math.log(8)), abs=1e-9)


def test_neither_a_copy_of_a_member_nor_one_that_is_always_wrong_adds_anything() -> None:
    """The known truth: once a member has its weight, the cases count so that it errs on just half
    of them, and so does its copy; boosting ends where nobody errs less."""
    right = [wrong_on(0, 1), wrong_on(0, 1), wrong_on(0, 1)]
    assert adaboost(right) == pytest.approx((math.log(4), 0, 0))
    assert adaboost([*right, wrong_on(*range(10))]) == pytest.approx((math.log(4), 0, 0, 0))


def test_a_member_that_is_never_wrong_does_not_silence_the_others() -> None:
    weights = adaboost([wrong_on(), wrong_on(3)])
    assert weights == pytest.approx((math.log(19), math.log(9)))


def test_the_log_odds_of_being_right_by_hand() -> None:
    """8 of 10 gives (8 + 1)/12, odds 3; 5 of 10 gives odds 1; 2 of 10 gives odds below 1."""
    right = [wrong_on(0, 1), wrong_on(*range(5)), wrong_on(*range(8))]
    assert logodds_weights(right) == pytest.approx((math.log(3), 0, 0))


@pytest.mark.parametrize("weigh", WEIGHINGS.values())
def test_where_nobody_beats_a_coin_all_count_alike(weigh) -> None:
    assert weigh([wrong_on(*range(5)), wrong_on(*range(10))]) == (1, 1)


@given(
    st.integers(1, 8).flatmap(
        lambda cases: st.lists(
            st.lists(st.booleans(), min_size=cases, max_size=cases), min_size=1, max_size=5
        )
    )
)
def test_weights_are_finite_and_some_are_above_0(right: list[list[bool]]) -> None:
    for weigh in (uniform, adaboost, logodds_weights):
        weights = weigh(right)
        assert len(weights) == len(right)
        assert min(weights) >= 0 < max(weights) < math.inf


def test_votes_weighed_by_log_odds_are_right_more_often_than_any_other_way() -> None:
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
