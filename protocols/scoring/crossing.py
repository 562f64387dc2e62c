"""Zero crossing of a falling curve, with the interval of where the curve may cross.

The curve at each grid point is a mean over problems with THE interval
(`oversight.protocols.scoring.inference`). A point belongs to the interval of the crossing if the
curve may be 0 there: the crossing lies between those of the curve's lower and upper ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Floats, Places
from .estimate import Ends
from .inference import means


@dataclass(frozen=True, slots=True)
class Crossing:
    """The point at which the falling fit of a curve reaches zero."""

    at: float | None
    """None if there is no crossing within the range of the curve."""
    interval: tuple[float | None, float | None]
    """95 %; an end is None if the curve may cross beyond the grid on that side."""


def falling(values: Floats) -> Floats:
    """Least-squares fit of a curve that never rises (Barlow et al. 1972), in the given order."""
    from scipy.optimize import isotonic_regression

    return isotonic_regression(values, increasing=False).x


def zero_of(at: Floats, values: Floats) -> float | None:
    """The point at which the falling fit of `values` reaches 0, interpolated between grid points;
    None if it starts at 0 or below, or stays above."""
    fit = falling(values)
    below = np.flatnonzero(fit <= 0)
    if not len(below):
        return None
    first = int(below[0])
    if first == 0:
        return float(at[0]) if fit[0] == 0 and values[0] == 0 else None
    high, low = fit[first - 1], fit[first]
    return float(at[first - 1] + (at[first] - at[first - 1]) * high / (high - low))


def crossing(at: Sequence[float], curves: Floats, of: Places, ends: Ends | None = None) -> Crossing:
    """Zero crossing of the mean of problems' curves.

    at: the grid points, rising. curves: problems × points. of: the cluster of each problem. ends:
    the lowest and highest point that a curve may have.
    """
    points = np.asarray(at, dtype=np.float64)
    figures = means([column.tolist() for column in curves.T], of, [ends] * len(points))
    bands = [each.interval or (each.value, each.value) for each in figures]
    low, high = (zero_of(points, np.array(band)) for band in zip(*bands, strict=True))
    return Crossing(zero_of(points, curves.mean(axis=0)), (low, high))
