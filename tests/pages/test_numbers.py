"""Numbers as pages write them: digits that compare, ticks that agree, and a rate not yet known."""

from collections import deque

import numpy as np

from oversight.engine.analysis.pictures.kinds import ordered_by_mean
from oversight.engine.views.pages.live import recent_rate


def test_a_map_begins_with_the_hardest_problem_and_the_best_row() -> None:
    values = np.array([[np.nan, np.nan, np.nan], [np.nan, 2.0, 3.0], [np.nan, 0.0, 1.0]])
    assert ordered_by_mean(values) == ([2, 1, 0], [2, 1, 0])


def test_a_rate_is_unknown_at_first_and_nothing_where_all_stands_still() -> None:
    marks: deque[tuple[float, int]] = deque()
    assert recent_rate(marks, 0.0, 5, over=5.0) is None
    assert recent_rate(marks, 2.0, 9, over=5.0) == 2.0
    for now in (4.0, 6.0, 8.0):
        last = recent_rate(marks, now, 9, over=5.0)
    assert last == 0.0
