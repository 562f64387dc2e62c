"""Slopes of lines by hand and by numpy: known truths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.engine.analysis.scoring.contrasts import Configuration, Slope, trend
from oversight.engine.analysis.scoring.inference import of_questions

coordinates = st.floats(-3, 3).map(lambda x: round(x, 3))


def points(*pairs: tuple[float, float]) -> list[Configuration]:
    return [
        Configuration(f"agent {n}", of_questions(("q",), (eas,)), of_questions(("q",), (asd,)))
        for n, (eas, asd) in enumerate(pairs)
    ]


@given(st.lists(st.tuples(coordinates, coordinates), min_size=4, max_size=12))
def test_the_slope_agrees_with_numpy(pairs: list[tuple[float, float]]) -> None:
    x, y = zip(*pairs, strict=True)
    line = trend(points(*pairs))
    if max(x) - min(x) < 1e-9:
        assert line is None
        return
    assert isinstance(line, Slope)
    (slope, intercept), covariance = np.polyfit(x, y, 1, cov=True)
    assert line.slope == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert line.intercept == pytest.approx(intercept, rel=1e-6, abs=1e-6)
    assert line.error == pytest.approx(covariance[0, 0] ** 0.5, rel=1e-6, abs=1e-6)
