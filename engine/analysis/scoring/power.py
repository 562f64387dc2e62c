"""Power analysis of a comparison: questions needed, and the minimum detectable effect.

Miller (2024, arXiv:2411.00640), section 5; docs/statistics.md has the formula. With `ends` the
conservative interval (`inference`) stands in for t where it does in a report: for few clusters its
pseudo-clusters, not the spread, decide what it can find.
"""

import math
from dataclasses import dataclass

import numpy as np

from .estimate import LEVEL, NORMAL, Ends, Interval, t_of, t_quantile
from .inference import CONTRIBUTING, FEWEST, OF_FEW, Floats, Places, by_cluster

MIN_FOR_NORMAL = 40
"""Clusters below which t quantiles replace normal ones."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of the difference between two rows, per question."""

    between: float
    """Variance of a question's measured difference."""
    design_effect: float = 1.0
    fewest: float = FEWEST
    """Clusters below which a report uses the guard instead of t."""

    def __post_init__(self) -> None:
        if not self.between >= 0 or self.design_effect < 1:
            raise ValueError(f"{self}: a variance is at least 0, and a design effect at least 1")

    @property
    def of_a_question(self) -> float:
        """Variance of a question's measured difference, as it counts in a mean."""
        return self.design_effect * self.between


def reach(*, power: float = 0.8, degrees: int | None = None) -> float:
    """Standard errors from 0 at which a difference is found with this power. degrees: of freedom of
    t, for few clusters; None for the normal distribution. ValueError unless 0 < power < 1."""
    if not 0 < power < 1:
        raise ValueError(f"power is {power}; it lies between 0 and 1")
    if degrees is None or degrees >= MIN_FOR_NORMAL - 1:
        return NORMAL.inv_cdf((1 + LEVEL) / 2) + NORMAL.inv_cdf(power)
    return t_of(LEVEL, degrees) + t_quantile(power, degrees)


def questions_needed(
    spread: Spread,
    difference: float,
    *,
    power: float = 0.8,
    size: float = 1.0,
    ends: Ends | None = None,
    interval: Interval = "t",
) -> int:
    """Questions needed to find `difference` with this power. size: questions per cluster. ends: the
    lowest and highest possible difference. ValueError for 0, or beyond the ends."""
    if not difference:
        raise ValueError("no number of questions tells a difference of 0 from none")
    if ends is not None and not ends[0] < difference < ends[1]:
        raise ValueError(f"a difference of {difference:g} is not within its range {ends}")

    def finds(n: int) -> bool:
        return mde(
            spread, n, power=power, clusters=n / size, ends=ends, interval=interval
        ) <= abs(difference) * (1 + 1e-12)  # fmt: skip

    high = 2
    while not finds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high


def mde(
    spread: Spread,
    n: float,
    *,
    power: float = 0.8,
    clusters: float | None = None,
    ends: Ends | None = None,
    interval: Interval = "t",
) -> float:
    """Minimum detectable effect of n questions with this power; an end where the guard detects
    none. clusters: by default n."""
    g = max(2, math.ceil(n if clusters is None else clusters))
    variance = spread.of_a_question / n
    if ends is None or (interval == "t" and g >= spread.fewest):
        return reach(power=power, degrees=g - 1) * math.sqrt(variance)
    t, more = t_of(LEVEL, g - 1), t_quantile(power, g - 1)
    a = 1 / g
    real = variance * (g - 1) / g
    low, high = 0.0, max(abs(end) for end in ends)
    # The centre of the interval, and its error around it, move with the true difference.
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        centre = middle / (1 + 2 * a)
        pseudo = a**2 * ((ends[0] - centre) ** 2 + (ends[1] - centre) ** 2)
        spread_out = (real + a * (middle - centre) ** 2 + pseudo) / (1 + a) ** 2
        error = math.sqrt(spread_out * (g + 1) / (g + 2))
        short = centre < t * error + more * math.sqrt(variance) / (1 + 2 * a)
        low, high = (middle, high) if short else (low, middle)
    return high


def design_effect(values: Floats, cluster: Places) -> float:
    """Factor by which clustering inflates the variance of a mean: 1 + (mean size of the others in a
    question's cluster) × correlation (Kish 1965), by the analysis-of-variance correlation; at least
    1, and 1 if every cluster is a single question. Mean cluster size is weighted by questions, sum
    of n_c^2 / n, and so holds for unequal ones."""
    sums, sizes = by_cluster(values, cluster)
    n, g = float(sizes.sum()), len(sizes)
    if g < 2 or n == g:
        return 1.0
    means = sums / sizes
    within = float(np.square(values - means[cluster]).sum()) / (n - g)
    between = float((sizes * np.square(means - values.mean())).sum()) / (g - 1)
    size = (n - float((sizes**2).sum()) / n) / (g - 1)
    total = between + (size - 1) * within
    rho = min(1.0, max(0.0, (between - within) / total)) if total else 0.0
    return 1 + (float((sizes**2).sum()) / n - 1) * rho


def fewest_clusters(values: Floats, cluster: Places) -> float:
    """Clusters from which t stands (`Jackknife.stands`), if of more of them the same share
    contributes as of these values."""
    sums, sizes = by_cluster(values - values.mean(), cluster)
    squares = np.square(sums / (len(values) - sizes)) if len(sizes) > 1 else sums * 0
    fourth = float(np.square(squares).sum())
    share = float(squares.sum()) ** 2 / fourth / len(sizes) if fourth else 0.0
    if share >= 1 / OF_FEW:
        return FEWEST
    return CONTRIBUTING / share if share else math.inf
