"""Trend of ASD over EAS across agent configurations: does a better agent help the truth more?

An ordinary least-squares line through one point per agent configuration, for one protocol, score,
judge and beta (Sudhir, Kaunismaa and Panickssery 2025, arXiv:2504.03731): x is its mean expected
agent score, y its mean agent score difference. A slope above 0 says that oversight gets better as
agents do.

Two warnings belong beside every slope. With values (+1, -1), ASD and EAS are functions of the
same agent scores: measured on the same elicitations, they would have a trend even if every
verdict were noise. And an x that is itself an estimate pulls the slope toward 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .estimate import Estimate
from .inference import Influences

MIN_POINTS = 3
"""Any two points lie on a line: a slope with an error needs a third."""

SAME_EAS = 1e-9
"""Values of EAS closer than this differ by rounding alone."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One agent with its settings, measured under one protocol."""

    agent: str
    eas: Influences
    asd: Influences


@dataclass(frozen=True, slots=True)
class Slope:
    """A regression line with its caveats."""

    slope: float
    """Change of ASD per unit of EAS."""
    error: float
    """Standard error of the slope, from the residuals, with n - 2 degrees of freedom."""
    intercept: float
    n: int
    """Agent configurations, one point each."""

    @property
    def estimate(self) -> Estimate:
        """The slope with its interval; of points on one line, without."""
        error, degrees = self.error or None, self.n - 2
        return Estimate(self.slope, self.n, self.n, error, degrees, method="t of the residuals")


def trend(configurations: Sequence[Configuration]) -> Slope | None:
    """Least-squares line of mean ASD on mean EAS, one point per configuration; None for fewer than
    three, or if all have the same EAS."""
    if len(configurations) < MIN_POINTS:
        return None
    eas = np.array([each.eas.value for each in configurations])
    asd = np.array([each.asd.value for each in configurations])
    x, y, n = eas - eas.mean(), asd - asd.mean(), len(eas)
    if np.ptp(x) < SAME_EAS:
        return None
    squares = (x * x).sum()
    slope = float((x * y).sum() / squares)
    residuals = y - slope * x
    error = float(np.sqrt((residuals * residuals).sum() / (n - 2) / squares))
    return Slope(slope, error, float(asd.mean() - slope * eas.mean()), n)
