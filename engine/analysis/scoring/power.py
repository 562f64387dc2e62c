"""Power analysis of a comparison: questions needed, and the minimum detectable effect.

Miller (2024, arXiv:2411.00640), section 5. For two rows, per question: w2 is the variance of the
true difference, s2 the mean variance of a draw around its question's truth, K the draws. With z the
quantiles of the normal distribution and d the difference to detect

    n = (z of alpha / 2 + z of power)^2 (w2 + s2_A / K_A + s2_B / K_B) / d^2

times the design effect if questions come in clusters; with t in place of z for few clusters.

`ends` plans for the guard (`inference`), which has a pseudo-cluster at each end of the range: for
few clusters these, not the spread, decide what it can find.
"""

import math
from dataclasses import dataclass

from .estimate import Ends
from .quantiles import NORMAL, t_quantile

MIN_FOR_NORMAL = 40
"""Clusters below which t quantiles replace normal ones."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Variance components of the difference between two rows, per question."""

    between: float
    """Variance of the true difference over questions, w2."""
    within_first: float = 0.0
    """Variance of one draw of the first row around its question's truth."""
    within_second: float = 0.0
    design_effect: float = 1.0
    verdict_first: float = 0.0
    """Variance of one verdict of the first row within a draw; 0 if counted in `within_first`."""
    verdict_second: float = 0.0

    def __post_init__(self) -> None:
        within = (self.within_first, self.within_second, self.verdict_first, self.verdict_second)
        parts = (self.between, *within)
        if not all(part >= 0 for part in parts) or self.design_effect < 1:
            raise ValueError(f"{self}: variances are at least 0, and a design effect at least 1")

    @property
    def separated(self) -> bool:
        """Whether noise between draws is known apart from differences between questions."""
        return max(self.within_first, self.within_second) > 0

    @property
    def judged(self) -> bool:
        """Whether noise between verdicts is known apart from that between draws."""
        return max(self.verdict_first, self.verdict_second) > 0

    def of_a_question(self, first: int = 1, second: int = 1, verdicts: int = 1) -> float:
        """Variance of a question's measured difference. first, second: draws of each row.

        ValueError for numbers below 1.
        """
        if min(first, second, verdicts) < 1:
            raise ValueError(
                f"{first} and {second} draws: each row needs at least 1, with {verdicts} verdicts"
            )
        ours = self.within_first + self.verdict_first / verdicts
        theirs = self.within_second + self.verdict_second / verdicts
        drawn = ours / first + theirs / second
        return self.design_effect * (self.between + drawn)


def reach(*, alpha: float = 0.05, power: float = 0.8, degrees: int | None = None) -> float:
    """Number of standard errors from 0 at which a difference is found with this power.

    degrees: of freedom of t, for few clusters; None for the normal distribution. ValueError unless
    alpha and power lie between 0 and 1.
    """
    for name, share in (("alpha", alpha), ("power", power)):
        if not 0 < share < 1:
            raise ValueError(f"{name} is {share}; it lies between 0 and 1")
    if degrees is None or degrees >= MIN_FOR_NORMAL - 1:
        return NORMAL.inv_cdf(1 - alpha / 2) + NORMAL.inv_cdf(power)
    return t_quantile(1 - alpha / 2, degrees) + t_quantile(power, degrees)


def questions_needed(
    spread: Spread,
    difference: float,
    *,
    draws: tuple[int, int] = (1, 1),
    verdicts: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
    size: float = 1.0,
    ends: Ends | None = None,
) -> int:
    """Questions needed to find `difference` with this power.

    size: questions per cluster. ends: the lowest and highest possible difference, for the interval
    with pseudo-clusters. ValueError if the difference is 0, or not within the ends.
    """
    if not difference:
        raise ValueError("no number of questions tells a difference of 0 from none")
    if ends is not None and not ends[0] < difference < ends[1]:
        raise ValueError(f"a difference of {difference:g} is not within its range {ends}")

    def found(n: int) -> bool:
        return mde(
            spread, n, draws=draws, verdicts=verdicts, alpha=alpha, power=power,
            clusters=n / size, ends=ends,
        ) <= abs(difference) * (1 + 1e-12)  # fmt: skip

    high = 2
    while not found(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def mde(
    spread: Spread,
    n: float,
    *,
    draws: tuple[int, int] = (1, 1),
    verdicts: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
    clusters: float | None = None,
    ends: Ends | None = None,
) -> float:
    """Minimum detectable effect of n questions with this power. clusters: by default n."""
    g = max(2, math.ceil(n if clusters is None else clusters))
    variance = spread.of_a_question(*draws, verdicts) / n
    if ends is None:
        return reach(alpha=alpha, power=power, degrees=g - 1) * math.sqrt(variance)
    t, more = t_quantile(1 - alpha / 2, g - 1), t_quantile(power, g - 1)
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
