"""An estimate: a figure with its sampling error, and what is decided by inverting its interval.

The interval is cluster-robust t. The guard is another one, which allows for errors too rare to have
been seen: it stands in where t has nothing to stand on, and wherever it is asked for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, TypeAlias

Ends: TypeAlias = tuple[float, float]

Interval: TypeAlias = Literal["t", "conservative"]


ASKED_FOR = "interval asked for"
"""Why an interval is conservative although t would do."""


class Guard(NamedTuple):
    """The statistic with pseudo-clusters at the ends of the range."""

    error: float
    centre: float
    """Middle of the interval before it is cut at the ends."""
    shrink: float = 1.0
    """The centre is the value over this, plus a constant: 1 + 2 / G."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its sampling error. Without an error, `reason` says why."""

    value: float
    n: int
    """Judgements, or questions where each is one mean over its draws."""
    clusters: int = 0
    """Clusters of the way that has the fewest."""
    error: float | None = None
    """Standard error by clusters; None if the figure is exact or has no interval."""
    degrees: int = 1
    """Degrees of freedom of t."""
    guard: Guard | None = None
    """None for a figure without ends, or by plain errors."""
    conservative: str = ""
    """Why interval, p and decisions are by the guard, such as `only 5 problems`; empty for t."""
    ends: Ends | None = None
    """The lowest and the highest possible value."""
    effective: float = 0.0
    """Effective number of clusters: equally large ones worth as much."""
    method: str = ""
    ways: tuple[str, ...] = ()
    """The random kinds of clusters, which another study would draw again."""
    reason: str = ""
    """Reason for a missing interval; "" with one, and for an exact figure."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """The error by each way alone."""
    stated: Ends | None = None
    """The 95 % interval, where it is not symmetric around the centre (of a ratio, of bounds)."""

    @property
    def interval(self) -> Ends | None:
        """95 % interval."""
        return self.at(LEVEL)

    @property
    def how(self) -> str:
        """Method and degrees of freedom of the interval."""
        if self.error is None:
            return self.method or "exact"
        return f"{self.method}, {self.degrees} df"

    @property
    def undone(self) -> bool:
        """Whether t decides the sign, and errors too rare to have been seen could undo that. Of a
        figure that can have one sign alone nothing is decided."""
        if self.conservative or self.guard is None or 0.0 in (self.ends or ()):
            return False
        inside = self.interval
        if not inside or inside[0] <= 0 <= inside[1]:
            return False
        low, high = self.by("conservative").interval or inside
        return low <= 0 <= high

    def by(self, interval: Interval) -> "Estimate":
        """This figure with the interval of that kind, where it has one."""
        if interval == "t" or self.conservative or self.guard is None:
            return self
        return replace(self, conservative=ASKED_FOR)

    def at(self, level: float) -> Ends | None:
        """Interval of this level, within the ends; None without an error."""
        if self.stated is not None and level == LEVEL:
            return self.stated
        if self.error is None:
            return None
        if self.at_end:
            return self._exact(level)
        centre, error, _ = self._statistic
        reach = t_of(level, self.degrees) * error
        least, most = self.ends or (-math.inf, math.inf)
        return max(centre - reach, least), min(centre + reach, most)

    @property
    def at_end(self) -> bool:
        """Whether all clusters are equal, and lie where the figure can go no further."""
        ends = self.ends if self.conservative and self.error == 0 else None
        return any(math.isclose(self.value, end, abs_tol=1e-12) for end in ends or ())

    def _exact(self, level: float) -> Ends:
        """Where none of G equally large clusters differed, at most 1 - (alpha / 2)^(1 / G) of all
        do (Clopper and Pearson 1934), each by the whole range at most."""
        assert self.ends
        low, high = self.ends
        reach = (high - low) * (1 - ((1 - level) / 2) ** (1 / self.effective))
        return (low, low + reach) if self.value < (low + high) / 2 else (high - reach, high)

    @property
    def _statistic(self) -> tuple[float, float, float]:
        """Centre, error and shrink of the interval."""
        if self.conservative and self.guard:
            return self.guard.centre, self.guard.error, self.guard.shrink
        return self.value, self.error or 0.0, 1.0

    @property
    def width(self) -> float:
        """Standard error of the interval; 0 without one."""
        return self._statistic[1]

    def t(self, null: float = 0.0) -> float:
        """The statistic that interval and p invert; 0 without an error."""
        centre, error, _ = self._statistic
        return (centre - null) / error if error else 0.0

    def p(self, null: float = 0.0) -> float:
        """Two-sided p of the value being `null`: 1 minus the level whose interval ends there."""
        if self.error is None:
            return 1.0
        if self.at_end and self.ends:
            away = abs(null - self.value) / (self.ends[1] - self.ends[0])
            return min(1.0, 2 * max(0.0, 1 - away) ** self.effective) or 1e-300
        # Rounding leaves no more than this of a tail that is smaller.
        return max(1e-15, min(1.0, 2 * t_cdf(-abs(self.t(null)), self.degrees)))

    def equivalent(self, margin: float) -> bool:
        """Whether the 90 % interval lies within ± margin (two one-sided tests, Schuirmann 1987)."""
        inner = self.at(0.9)
        return inner is not None and -margin < inner[0] and inner[1] < margin

    def mde(self, power: float = 0.8) -> float | None:
        """The smallest true value that an interval like this one excludes 0 for, with this power.
        None without an interval, and where it would lie beyond the ends."""
        if self.error is None:
            return None
        _, error, shrink = self._statistic
        least = detectable(error, self.error, shrink, self.degrees, power)
        return None if self.ends and least > max(map(abs, self.ends)) else least

    def plain(self) -> dict[str, Any]:
        """The one shape of an estimate in JSON; `interval` names the interval that is shown."""
        low, high = self.interval or (None, None)
        t_low, t_high = replace(self, conservative="").interval or (None, None)
        rare = self.by("conservative").interval if self.guard else None
        rare_low, rare_high = rare or (None, None)
        least, most = self.ends or (None, None)
        return {
            "value": self.value,
            "low": low,
            "high": high,
            "error": self.error,
            "degrees": None if self.error is None else self.degrees,
            "interval": None if low is None else "conservative" if self.conservative else "t",
            "method": self.method or None,
            "n": self.n,
            "clusters": self.clusters,
            "t_low": t_low,
            "t_high": t_high,
            "conservative_low": rare_low,
            "conservative_high": rare_high,
            "guard": self.guard and list(self.guard),
            "effective": self.effective,
            "least": least,
            "most": most,
        }


PARTS = (
    "value", "low", "high", "error", "degrees", "interval", "method", "n", "clusters",
    "conservative_low", "conservative_high",
)  # fmt: skip
"""Keys of an estimate in tables; JSON has all."""


def detectable(
    error: float, sampling: float, shrink: float, degrees: int, power: float = 0.8
) -> float:
    """Smallest true value that is found with this power. The interval excludes 0 once the centre
    lies t errors away from it; the centre varies with the sampling error."""
    return shrink * t_of(LEVEL, degrees) * error + t_quantile(power, degrees) * sampling


def ends_apart(first: Ends | None, second: Ends | None) -> Ends | None:
    """The ends of a difference, from the ends of its two figures."""
    return (first[0] - second[1], first[1] - second[0]) if first and second else None


NORMAL = NormalDist()

LEVEL = 0.95
"""Confidence level of the intervals of reports."""

MANY = 10_000
"""Degrees of freedom above which t is normal, within 0.01 %."""


def t_cdf(t: float, degrees: int) -> float:
    """P(T <= t) of Student's t. ValueError for fewer than 1 degree of freedom."""
    if degrees < 1:
        raise ValueError(f"t with {degrees} degrees of freedom; it needs at least 1")
    if degrees > MANY:
        return NORMAL.cdf(t)
    return (1 + between(math.atan2(t, math.sqrt(degrees)), degrees)) / 2


def between(angle: float, degrees: int) -> float:
    """P(-t <= T <= t) by the finite series of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4."""
    sin, cos, odd = math.sin(angle), math.cos(angle), degrees % 2
    # The terms of the series shrink: each is at most cos^2 < 1 times the one before.
    term = cos if odd else 1.0
    total, square = term, cos * cos
    for m in range(2 + odd, degrees - 1, 2):
        term *= square * ((m - 1) / m)
        total += term
    if degrees == 1:
        return angle * (2 / math.pi)
    return (angle + sin * total) * (2 / math.pi) if odd else sin * total


@lru_cache(maxsize=4096)
def t_quantile(p: float, degrees: int) -> float:
    """Quantile of Student's t at probability p in (0, 1), to 12 digits. Above 10,000 degrees of
    freedom the normal quantile, within 0.01 %. ValueError for another p."""
    if not 0 < p < 1:
        raise ValueError(f"a quantile at probability {p}, which is not between 0 and 1")
    if degrees > MANY:
        return NORMAL.inv_cdf(p)
    if p < 0.5:
        return -t_quantile(1 - p, degrees)
    low, high = 0.0, 1.0
    while t_cdf(high, degrees) < p:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, degrees) < p else (low, middle)
    return (low + high) / 2


def t_of(level: float, degrees: int) -> float:
    """Half the width of a two-sided t interval of this level, in standard errors."""
    return t_quantile((1 + level) / 2, degrees)
