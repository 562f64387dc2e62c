import pytest

from oversight.protocols.scores import brier
from oversight.protocols.scoring.bounds import WorldOutcome, WorldOutcomes, bounds
from oversight.protocols.scoring.difference_bounds import difference_bounds
from oversight.protocols.scoring.worlds import Worlds

SURE = WorldOutcomes((WorldOutcome((0.9, 0.1)), WorldOutcome((0.2, 0.8))), (1, -1))
OTHER = WorldOutcomes((WorldOutcome((0.6, 0.4)), WorldOutcome((0.5, 0.5))), (1, -1))
LOST = WorldOutcomes((WorldOutcome((0.9, 0.1)), WorldOutcome(None, "failed")), (1, -1))


def asd(endings: WorldOutcomes) -> float:
    worlds = endings.complete()
    assert isinstance(worlds, Worlds)
    return worlds.asd(brier)


def test_without_doubts_the_difference_is_one_number() -> None:
    found = difference_bounds({"a": SURE, "b": OTHER}, {"a": OTHER, "b": OTHER}, "brier")
    exact = (asd(SURE) - asd(OTHER)) / 2
    assert (found.n, found.low, found.high) == (2, pytest.approx(exact), pytest.approx(exact))


def test_a_lost_world_opens_the_difference_as_far_as_the_score_goes() -> None:
    found = difference_bounds({"a": LOST}, {"a": OTHER}, "brier")
    alone = bounds([LOST], "brier")
    assert found.low == pytest.approx(alone.worst - asd(OTHER))
    assert found.high == pytest.approx(alone.best - asd(OTHER))


def test_a_world_that_both_rows_lost_together_moves_neither_against_the_other() -> None:
    apart = difference_bounds({"a": LOST}, {"a": LOST}, "brier")
    assert (apart.low, apart.high) == pytest.approx((-2, 2))
    one = difference_bounds({"a": LOST}, {"a": LOST}, "brier", same={"a": (False, True)})
    assert (one.low, one.high) == (0, 0)


def test_a_question_that_one_row_lacks_may_be_anything_there() -> None:
    found = difference_bounds({"a": SURE}, {}, "brier")
    assert (found.low, found.high) == pytest.approx((asd(SURE) - 2, asd(SURE) + 2))
    with pytest.raises(ValueError, match="at least one question"):
        difference_bounds({}, {}, "brier")
    with pytest.raises(ValueError, match="question a: values"):
        difference_bounds({"a": SURE}, {"a": WorldOutcomes(SURE.worlds, (-1, 1))}, "brier")
