"""Slopes of lines by hand, by numpy and of planted agents: known truths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.engine.analysis.scoring.inference import of_questions
from oversight.engine.analysis.scoring.trend import Configuration, Slope, split_half_trend, trend

coordinates = st.floats(-3, 3).map(lambda x: round(x, 3))


def points(*pairs: tuple[float, float]) -> list[Configuration]:
    return [
        Configuration(f"agent {n}", of_questions(("q",), (eas,)), of_questions(("q",), (asd,)))
        for n, (eas, asd) in enumerate(pairs)
    ]


def agents(seed: int, count: int, slope: float, questions: int = 200) -> list[Configuration]:
    """Agents of growing skill, each measured with noise on the same questions, two a text."""
    rng = np.random.default_rng(seed)
    ids = tuple(f"q{n}" for n in range(questions))
    groups = tuple(f"text {n // 2}" for n in range(questions))
    made = []
    for n, skill in enumerate(np.linspace(-1, 1, count)):
        # One noise on both axes: what makes a trend of its own when both are taken together.
        shared = rng.normal(size=questions)
        eas = of_questions(ids, tuple((skill + shared).tolist()), groups)
        asd = of_questions(ids, tuple((slope * skill + shared).tolist()), groups)
        made.append(Configuration(f"agent {n}", eas, asd))
    return made


def test_the_slope_agrees_with_a_line_by_hand() -> None:
    """x = 0, 1, 2 and y = 0, 1, 1: slope 1/2, residuals -1/6, 1/3, -1/6."""
    found = trend(points((0, 0), (1, 1), (2, 1)))
    assert found == Slope(
        pytest.approx(0.5), pytest.approx((1 / 6 / 1 / 2) ** 0.5), pytest.approx(1 / 6), 3
    )


def test_points_on_a_line_have_no_error() -> None:
    found = trend(points((0, 1), (1, 3), (3, 7), (4, 9)))
    assert isinstance(found, Slope)
    assert (found.slope, found.intercept) == (pytest.approx(2), pytest.approx(1))
    assert found.error == pytest.approx(0, abs=1e-9)


@given(st.lists(st.tuples(coordinates, coordinates), min_size=4, max_size=12))
def test_the_slope_agrees_with_numpy(pairs: list[tuple[float, float]]) -> None:
    x, y = zip(*pairs, strict=True)
    found = trend(points(*pairs))
    if max(x) - min(x) < 1e-9:
        assert found is None
        return
    assert isinstance(found, Slope)
    (slope, intercept), covariance = np.polyfit(x, y, 1, cov=True)
    assert found.slope == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert found.intercept == pytest.approx(intercept, rel=1e-6, abs=1e-6)
    assert found.error == pytest.approx(covariance[0, 0] ** 0.5, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_configurations_have_no_slope(count: int) -> None:
    few = points((0, 0), (1, 1))[:count]
    assert trend(few) is split_half_trend(few) is None


def test_agents_of_one_eas_have_no_slope() -> None:
    found = trend(points((0.3, 0), (0.1 + 0.2, 1), (0.3, 2)))
    assert found is None


def test_split_halves_find_a_slope_that_is_there() -> None:
    found = split_half_trend(agents(1, 8, slope=2.0, questions=2000))
    assert isinstance(found, Slope)
    assert found.slope == pytest.approx(2.0, abs=0.2)
    assert found.n == 8


def test_split_halves_do_not_find_the_slope_of_shared_noise() -> None:
    """Agents of one skill: all that their points have is noise, the same on both axes."""
    together, apart = [], []
    for seed in range(40):
        alike = [
            Configuration(
                each.agent,
                of_questions(each.asd.questions, each.asd.values, each.asd.ways),
                each.asd,
            )
            for each in agents(seed, 6, slope=0.0)
        ]
        both, halves = trend(alike), split_half_trend(alike, seed=seed)
        assert isinstance(both, Slope)
        assert isinstance(halves, Slope)
        together.append(both.slope)
        apart.append(halves.slope)
    assert np.mean(together) == pytest.approx(1.0)
    assert abs(np.mean(apart)) < 0.2


def test_splits_repeat_with_their_seed() -> None:
    some = agents(3, 5, slope=1.0)
    assert split_half_trend(some, seed=4) == split_half_trend(some, seed=4)
    assert split_half_trend(some, seed=4) != split_half_trend(some, seed=5)


def test_one_group_has_no_halves() -> None:
    found = split_half_trend(points((0, 0), (1, 1), (2, 1)))
    assert found is None
