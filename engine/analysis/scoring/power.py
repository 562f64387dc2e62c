"""Power analysis of a comparison: questions needed, the minimum detectable effect, and components.

Miller (2024, arXiv:2411.00640), section 5. For two rows, per question: w2 is the variance of the
true difference, s2 the mean variance of a draw around its question's truth, K the draws. With z the
quantiles of the normal distribution and d the difference to detect

    n = (z of alpha / 2 + z of power)^2 (w2 + s2_A / K_A + s2_B / K_B) / d^2

times the design effect if questions come in clusters; with t in place of z for few clusters.

With `ends` the guard (`inference`) stands in for t where it does in a report. It has a
pseudo-cluster at each end of the range: for few clusters these, not the spread, decide what it can
find.

Variance components (balanced nested analysis of variance; Searle, Casella and McCulloch 1992,
chapter 3) tell whether to buy more problems, debates or verdicts. They have no interval: a variance
rests on the largest deviations, and where errors are rare a sample may hold none.
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
    fewest: float = FEWEST
    """Clusters below which a report has the guard in place of t."""

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


def reach(*, power: float = 0.8, degrees: int | None = None) -> float:
    """Number of standard errors from 0 at which a difference is found with this power.

    degrees: of freedom of t, for few clusters; None for the normal distribution. ValueError unless
    power lies between 0 and 1.
    """
    if not 0 < power < 1:
        raise ValueError(f"power is {power}; it lies between 0 and 1")
    if degrees is None or degrees >= MIN_FOR_NORMAL - 1:
        return NORMAL.inv_cdf((1 + LEVEL) / 2) + NORMAL.inv_cdf(power)
    return t_of(LEVEL, degrees) + t_quantile(power, degrees)


def questions_needed(
    spread: Spread,
    difference: float,
    *,
    draws: tuple[int, int] = (1, 1),
    verdicts: int = 1,
    power: float = 0.8,
    size: float = 1.0,
    ends: Ends | None = None,
    interval: Interval = "t",
) -> int:
    """Questions needed to find `difference` with this power.

    size: questions per cluster. ends: the lowest and highest possible difference. ValueError if the
    difference is 0, or not within the ends.
    """
    if not difference:
        raise ValueError("no number of questions tells a difference of 0 from none")
    if ends is not None and not ends[0] < difference < ends[1]:
        raise ValueError(f"a difference of {difference:g} is not within its range {ends}")

    def found(n: int) -> bool:
        return mde(
            spread, n, draws=draws, verdicts=verdicts, power=power, clusters=n / size, ends=ends,
            interval=interval,
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
    power: float = 0.8,
    clusters: float | None = None,
    ends: Ends | None = None,
    interval: Interval = "t",
) -> float:
    """Minimum detectable effect of n questions with this power; an end where the guard detects
    none. clusters: by default n."""
    g = max(2, math.ceil(n if clusters is None else clusters))
    variance = spread.of_a_question(*draws, verdicts) / n
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


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of a problem's true score, of a draw around it, and of a verdict on one draw."""

    between: float
    """Over problems; with a single draw of each, includes that over draws."""
    within: float
    """Over draws of a problem; with one verdict per draw, includes that over verdicts."""
    verdict: float
    """Over verdicts on one draw."""
    noise: float
    """Of a problem's measured mean, when the same problems are run again."""


def components(scores: Floats) -> Components:
    """Variance components of scores, problems × draws × verdicts per draw.

    The variance of a level with a single unit cannot be separated from that of the level above, and
    counts there. ValueError for fewer than two problems.
    """
    n, k, j = scores.shape
    if n < 2:
        raise ValueError(f"variance components need two problems, got {n}")
    of_draw = scores.mean(axis=2)
    spread = float(of_draw.mean(axis=1).var(ddof=1))
    verdict = float(scores.var(axis=2, ddof=1).mean()) if j > 1 else 0.0
    drawn = float(of_draw.var(axis=1, ddof=1).mean()) if k > 1 else verdict / j
    within = max(0.0, drawn - verdict / j) if k > 1 else 0.0
    noise = (within + verdict / j) / k
    return Components(max(0.0, spread - drawn / k), within, verdict, noise)


def design_effect(values: Floats, of: Places) -> float:
    """Factor by which clustering inflates the variance of a mean: 1 + (mean size of the others in a
    question's cluster) × correlation (Kish 1965), by the analysis-of-variance correlation; at least
    1, and 1 if every cluster is a single question.

    Mean cluster size is weighted by questions, sum of n_c^2 / n, and so holds for unequal ones.
    """
    sums, sizes = by_cluster(values, of)
    n, g = float(sizes.sum()), len(sizes)
    if g < 2 or n == g:
        return 1.0
    means = sums / sizes
    within = float(np.square(values - means[of]).sum()) / (n - g)
    between = float((sizes * np.square(means - values.mean())).sum()) / (g - 1)
    size = (n - float((sizes**2).sum()) / n) / (g - 1)
    total = between + (size - 1) * within
    rho = min(1.0, max(0.0, (between - within) / total)) if total else 0.0
    return 1 + (float((sizes**2).sum()) / n - 1) * rho


def fewest_clusters(values: Floats, of: Places) -> float:
    """Clusters from which t stands (`Jackknife.stands`), if of more of them the same share
    contributes as of those of these values."""
    sums, sizes = by_cluster(values - values.mean(), of)
    squares = np.square(sums / (len(values) - sizes)) if len(sizes) > 1 else sums * 0
    fourth = float(np.square(squares).sum())
    share = float(squares.sum()) ** 2 / fourth / len(sizes) if fourth else 0.0
    if share >= 1 / OF_FEW:
        return FEWEST
    return CONTRIBUTING / share if share else math.inf
