"""Figures of known numbers: marks, intervals and bars are drawn at these numbers."""

import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from oversight.engine.analysis.findings.chart import Chart, Series, point
from oversight.engine.analysis.pictures.kinds import Forest, ForestLine
from oversight.engine.analysis.pictures.painting import (
    STYLES,
    chart_axes,
    facets,
    forest_axes,
    forest_layout,
)
from oversight.engine.analysis.scoring.estimate import Estimate

X, Y = Estimate(0.2, 9, stated=(0.1, 0.25)), Estimate(0.5, 9, stated=(0.4, 0.8))
SIZE = STYLES["paper"]


def test_a_point_has_both_ends_of_both_intervals() -> None:
    figure, chart = Figure(), Chart("t", "x", "y", (Series("row", (point("p", X, Y),)),))
    chart_axes(chart, facets(chart), (1, 1), SIZE, figure)
    bars = [part for part in figure.axes[0].collections if isinstance(part, LineCollection)]
    ends = [end for bar in bars for line in bar.get_segments() for end in line.ravel()]
    assert ends == pytest.approx([0.1, 0.5, 0.25, 0.5, 0.2, 0.4, 0.2, 0.8])
    # The table has the point, then the ends of x and of y.
    assert chart.table()[1] == [("row", "p", 0.2, 0.5, 0.1, 0.25, 0.4, 0.8)]


def test_a_row_has_its_mean_interval_bounds_and_naive_judge() -> None:
    line = ForestLine(0, "debate", "", "judge", Y, bounds=(-0.1, 0.9), naive=0.3)
    figure, forest = Figure(), Forest("ASD", "brier", (line,))
    forest_axes(forest, forest_layout(forest, SIZE), SIZE, figure)
    (axes,) = figure.axes
    marks = [mark for mark in axes.lines if isinstance(mark, Line2D)]
    places = sorted(sorted({*mark.get_xdata()}) for mark in marks)
    assert places == [[0.0], [0.3], [0.4, 0.8], [0.5]]
    (bar,) = axes.patches
    assert isinstance(bar, Rectangle)
    assert (bar.get_x(), bar.get_width()) == pytest.approx((-0.1, 1.0))
    names, (row,) = forest.table()
    table = dict(zip(names, row, strict=True))
    assert [table[key] for key in ("mean", "low", "high", "worst", "best", "naive")] == [
        *(0.5, 0.4, 0.8, -0.1, 0.9, 0.3)
    ]
