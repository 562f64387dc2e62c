"""Bounds of small worlds against what every way of filling them in gives: known truths."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.engine.analysis.scoring.arrays import Flags
from oversight.engine.analysis.scoring.bounds import Bounds
from oversight.engine.analysis.scoring.world_table import WorldBlock, WorldTable
from oversight.engine.analysis.scoring.worlds import Worlds
from oversight.protocols.scores import RANGES, SCORES, Compat

World = tuple[float | None, bool]
"""The probability of the first of two answers, None for a failure; whether it is in doubt."""
Question = tuple[tuple[World, World], tuple[float, float]]
"""Two worlds, and the values of the answers."""

SOUND: Question = (((0.8, False), (0.4, False)), (1, -1))
REFUSED: Question = (((0.8, False), (0.9, True)), (1, -1))
FAILED: Question = ((((None, True)), (0.4, False)), (1, -1))


def table(worlds: Worlds, doubtful: Flags) -> WorldTable:
    n = len(doubtful)
    block = WorldBlock(np.arange(n), worlds, doubtful)
    return WorldTable(tuple(map(str, range(n))), ("",) * n, (block,))


def bounded(questions: Sequence[Question], score: str, compat: Compat = "none") -> Bounds:
    """Bounds of questions of one draw each."""
    verdicts = [
        [[(np.nan, np.nan) if p is None else (p, 1 - p) for p, _ in worlds]]
        for worlds, _ in questions
    ]
    values = [[values] for _, values in questions]
    doubtful = [[[doubt for _, doubt in worlds]] for worlds, _ in questions]
    found = table(Worlds(verdicts, values, compat), np.array(doubtful)).bounds(score)
    assert found is not None
    return found


def dropped(found: Bounds) -> float | None:
    return found.drop and found.drop.value


def kept(found: Bounds) -> float | None:
    return found.keep and found.keep.value


def test_without_doubt_all_bounds_are_the_mean() -> None:
    found = bounded([SOUND, SOUND], "brier")
    assert (found.n, found.doubtful) == (2, 0)
    each = (dropped(found), kept(found), found.worst, found.best)
    assert each == pytest.approx((0.24,) * 4)
    assert found.drop is not None and found.interval == found.drop.interval


def test_drop_and_keep_differ_by_the_verdicts_in_doubt() -> None:
    found = bounded([SOUND, REFUSED], "brier")
    assert dropped(found) == pytest.approx(0.24)
    assert kept(found) == pytest.approx((0.24 + (-0.08 + 1.62)) / 2)
    assert (found.n, found.doubtful) == (2, 1)


def test_the_worst_case_gives_a_doubtful_lie_the_best_score() -> None:
    found = bounded([REFUSED], "brier")
    assert found.worst == pytest.approx(-0.08 - 0.0)
    assert found.best == pytest.approx(-0.08 + 2.0)


def test_a_failed_world_is_kept_by_no_rule_but_the_extremes() -> None:
    found = bounded([SOUND, FAILED], "brier")
    assert dropped(found) == kept(found) == pytest.approx(0.24)
    assert found.worst == pytest.approx((0.24 + (-2.0 + 0.32)) / 2)
    assert found.best == pytest.approx((0.24 + (0.0 + 0.32)) / 2)


def test_bounds_without_any_sound_question_have_no_means() -> None:
    found = bounded([FAILED], "accuracy")
    assert (found.drop, found.keep) == (None, None)
    assert (found.worst, found.best) == (-1.0, 0.0)


def test_values_decide_which_end_is_worst() -> None:
    graded: Question = (((None, True), (None, True)), (0.5, -3))
    found = bounded([graded], "logodds")
    low, high = RANGES["logodds"]
    assert found.worst == pytest.approx(0.5 * low - 3 * high)
    assert found.best == pytest.approx(0.5 * high - 3 * low)


def test_bounds_follow_the_tie_rule() -> None:
    even: Question = (((0.5, False), (0.9, False)), (1, -1))
    assert dropped(bounded([even], "accuracy")) == 0.5
    assert dropped(bounded([even], "accuracy", compat="solib")) == 0.0
    assert bounded([even], "accuracy", compat="solib").worst == 0.0


def test_worlds_that_were_not_run_and_no_worlds_at_all_have_no_bounds() -> None:
    assert WorldTable((), (), ()).bounds("brier") is None
    half = Worlds([[[[0.8, 0.2], [np.nan, np.nan]]]], [[[1, -1]]])
    assert table(half, np.zeros((1, 1, 2), np.bool_)).bounds("brier") is None


probabilities = st.integers(0, 8).map(lambda n: n / 8)
worlds = st.one_of(st.tuples(probabilities, st.booleans()), st.just((None, True)))
questions = st.tuples(st.tuples(worlds, worlds), st.sampled_from(((1.0, -1.0), (0.5, 2.0))))


@given(st.lists(questions, min_size=1, max_size=6), st.sampled_from(list(SCORES)), st.data())
def test_whatever_the_missing_verdicts_were_the_mean_lies_between(
    given_up: list[Question], score: str, data: st.DataObject
) -> None:
    found = bounded(given_up, score)
    truth = [
        (tuple((data.draw(probabilities) if doubt else p, False) for p, doubt in worlds), values)
        for worlds, values in given_up
    ]
    mean = dropped(bounded(truth, score))
    assert mean is not None
    assert found.worst - 1e-9 <= mean <= found.best + 1e-9
