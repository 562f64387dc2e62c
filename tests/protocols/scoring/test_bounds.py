import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.protocols.scores import RANGES, SCORES
from oversight.protocols.scoring.bounds import Bounds, Flag, WorldOutcome, WorldOutcomes, bounds

SOUND = WorldOutcomes((WorldOutcome((0.8, 0.2)), WorldOutcome((0.4, 0.6))), (1, -1))
REFUSED = WorldOutcomes((WorldOutcome((0.8, 0.2)), WorldOutcome((0.9, 0.1), "refused")), (1, -1))
FAILED = WorldOutcomes((WorldOutcome(None, "failed"), WorldOutcome((0.4, 0.6))), (1, -1))


def test_without_doubt_all_bounds_are_the_mean() -> None:
    mean = pytest.approx(0.24)
    assert bounds([SOUND, SOUND], "brier") == Bounds(2, 0, mean, mean, mean, mean)


def test_drop_and_keep_differ_by_the_verdicts_in_doubt() -> None:
    found = bounds([SOUND, REFUSED], "brier")
    assert found.drop == pytest.approx(0.24)
    assert found.keep == pytest.approx((0.24 + (-0.08 + 1.62)) / 2)
    assert (found.n, found.doubtful) == (2, 1)


def test_the_worst_case_gives_a_doubtful_lie_the_best_score() -> None:
    found = bounds([REFUSED], "brier")
    assert found.worst == pytest.approx(-0.08 - 0.0)
    assert found.best == pytest.approx(-0.08 + 2.0)


def test_a_failed_world_is_kept_by_no_rule_but_the_extremes() -> None:
    found = bounds([SOUND, FAILED], "brier")
    assert found.drop == found.keep == pytest.approx(0.24)
    assert found.worst == pytest.approx((0.24 + (-2.0 + 0.32)) / 2)
    assert found.best == pytest.approx((0.24 + (0.0 + 0.32)) / 2)


def test_bounds_without_any_sound_question_have_no_means() -> None:
    found = bounds([FAILED], "accuracy")
    assert (found.drop, found.keep) == (None, None)
    assert (found.worst, found.best) == (-1.0, 0.0)


def test_values_decide_which_end_is_worst() -> None:
    graded = WorldOutcomes((WorldOutcome(None, "failed"), WorldOutcome(None, "failed")), (0.5, -3))
    found = bounds([graded], "logodds")
    low, high = RANGES["logodds"]
    assert found.worst == pytest.approx(0.5 * low - 3 * high)
    assert found.best == pytest.approx(0.5 * high - 3 * low)


def test_bounds_follow_the_tie_rule() -> None:
    even = WorldOutcomes((WorldOutcome((0.5, 0.5)), WorldOutcome((0.9, 0.1))), (1, -1))
    assert bounds([even], "accuracy").drop == 0.5
    assert bounds([even], "accuracy", compat="solib").drop == 0.0
    assert bounds([even], "accuracy", compat="solib").worst == 0.0


@pytest.mark.parametrize(
    ("verdict", "doubt"), [(None, ""), (None, "refused"), ((1.0, 0.0), "failed")]
)
def test_a_world_has_a_verdict_or_has_failed(
    verdict: tuple[float, ...] | None, doubt: Flag
) -> None:
    with pytest.raises(ValueError, match="a world with verdict"):
        WorldOutcome(verdict, doubt)


def test_bounds_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one question"):
        bounds([], "brier")


probabilities = st.integers(0, 8).map(lambda n: (n / 8, 1 - n / 8))
endings = st.one_of(
    st.builds(WorldOutcome, probabilities, st.sampled_from(("", "refused", "off side"))),
    st.just(WorldOutcome(None, "failed")),
)
questions = st.builds(
    WorldOutcomes, st.tuples(endings, endings), st.sampled_from(((1.0, -1.0), (0.5, 2.0)))
)


@given(st.lists(questions, min_size=1, max_size=6), st.sampled_from(list(SCORES)), st.data())
def test_whatever_the_missing_verdicts_were_the_mean_lies_between(
    given_up: list[WorldOutcomes], score: str, data: st.DataObject
) -> None:
    found = bounds(given_up, score)
    truth = [
        WorldOutcomes(
            tuple(
                WorldOutcome(data.draw(probabilities)) if w.doubt else w for w in question.worlds
            ),
            question.values,
        )
        for question in given_up
    ]
    mean = bounds(truth, score).drop
    assert mean is not None
    assert found.worst - 1e-9 <= mean <= found.best + 1e-9
