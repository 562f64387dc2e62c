"""Figures of known numbers: marks, intervals and bars are drawn at these numbers."""

import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from oversight.engine.analysis.findings.chart import Chart, Series, point
from oversight.engine.analysis.pictures import painting
from oversight.engine.analysis.pictures.kinds import Forest, ForestLine
from oversight.engine.analysis.scoring.estimate import Estimate

X, Y = Estimate(0.2, 9, stated=(0.1, 0.25)), Estimate(0.5, 9, stated=(0.4, 0.8))
SIZE = painting.STYLES["paper"]


def test_a_point_has_both_ends_of_both_intervals() -> None:
    figure, chart = Figure(), Chart("t", "x", "y", (Series("row", (point("p", X, Y),)),))
    painting.chart_axes(chart, painting.facets(chart), (1, 1), SIZE, figure)
    bars = [part for part in figure.axes[0].collections if isinstance(part, LineCollection)]
    ends = [end for bar in bars for line in bar.get_segments() for end in line.ravel()]
    assert ends == pytest.approx([0.1, 0.5, 0.25, 0.5, 0.2, 0.4, 0.2, 0.8])
    # The table has the point, then the ends of x and of y.
    assert chart.table()[1] == [("row", "p", 0.2, 0.5, 0.1, 0.25, 0.4, 0.8)]


def test_a_row_has_its_mean_interval_bounds_and_naive_judge() -> None:
    line = ForestLine(0, "debate", "", "judge", Y, bounds=(-0.1, 0.9), naive=0.3)
    figure, forest = Figure(), Forest("ASD", "brier", (line,))
    painting.forest_axes(forest, painting.forest_layout(forest, SIZE), SIZE, figure)
    marks = [mark for mark in figure.axes[0].lines if isinstance(mark, Line2D)]
    places = sorted(sorted({*mark.get_xdata()}) for mark in marks)
    assert places == [[0.0], [0.3], [0.4, 0.8], [0.5]]
    assert [bar.get_xy()[0] for bar in figure.axes[0].patches] == [-0.1]
    # The table has n, the mean and its interval, then the bounds and the naive judge.
    assert forest.table()[1][0][3:] == (9, 0.5, 0.4, 0.8, -0.1, 0.9, 0.3)


def test_lines_in_the_axes_of_a_protocol_have_one_look_and_a_name_each() -> None:
    def chart(agents: str) -> Chart:
        names = [f"{protocol} · {agent}" for protocol in ("debate", "critique") for agent in agents]
        lines = (Series(name, (point("0", 0.0, 0.1), point("1", 1.0, 0.2)), True) for name in names)
        return Chart("t", "x", "y", tuple(lines))

    five = chart("abcde")
    looks = painting.looks_within(five, SIZE)
    assert list(looks) == [*"abcde"] and len({*looks.values()}) == 5
    figure = painting.draw(five, "paper")
    assert [text.get_text() for text in figure.legends[0].texts] == [*"abcde"]
    for axes in figure.axes:
        drawn = [(one.get_color(), one.get_marker(), one.get_linestyle()) for one in axes.lines]
        assert [look for look in drawn if look[1] != "None"] == [*looks.values()]
    # A legend of a column has six entries.
    assert not painting.looks_within(chart("abcdefg"), painting.STYLES["column"])
