"""Estimates, and the one interval behind every figure: CR3 with pseudo-clusters at the ends.

A measure is a mean of what each judgement contributes. With the value m and the influence psi_j of
judgement j (its share of the deviation from m; all sum to 0), the cluster c of a way (problem or
source text, judge, speaker) moves the value by Psi_c = sum of its psi_j, and holds the share a_c of
the weight. Leaving a cluster out moves the value by -Psi_c / (1 - a_c), and

    CR3   V = (G - 1) / G * sum over c of (Psi_c / (1 - a_c))^2

is the jackknife variance (MacKinnon, Nielsen and Webb 2023, Journal of Econometrics 232).

A judge's errors are rare, and a small sample may hold none: its variance is then 0 and any interval
around it claims certainty. So two pseudo-clusters of average share a = 1 / G stand at the ends
[L, H] of what the measure can be, for clusters that were not drawn (as Agresti and Coull 1998 add
pseudo-trials to shares). The centre is (m + a (L + H)) / (1 + 2 a), and the variance above runs
over G + 2 clusters around it. Interval, p, equivalence, minimum detectable effect and ranks all
invert the same statistic, (centre - null) / error with Student's t: they cannot disagree.

Clusters that cross (texts × judges) have V_1 + V_2 - V_12 (Cameron, Gelbach and Miller 2011), with
the degrees of freedom of the way that has the fewest clusters.

Figures of different kinds of judgement (the world of the truth, that of the lie; two rows) are
strata: a cluster's share and the number of clusters are counted within each.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import Floats, Places, codes_of
from .quantiles import LEVEL, t_cdf, t_of, t_quantile
from .sample import Sample

Ends: TypeAlias = tuple[float, float]
ErrorKind: TypeAlias = Literal["cr3", "cr1"]
Keys: TypeAlias = npt.NDArray[Any]
"""Names or numbers of clusters, one per judgement."""

RANGE_AWARE = "CR3 t, pseudo-clusters at the ends"
FREE = "CR3 t"
PLAIN = "CR1 t"

FEW_CLUSTERS = 20
"""Effective clusters below which an interval is rough."""

NOTHING = 1e-12
"""Errors below this multiple of the figures they come from are rounding."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its sampling error. Without an error, `reason` says why there is none."""

    value: float
    n: int
    """Judgements, or questions where each is one mean over its draws."""
    clusters: int = 0
    """Clusters of the way that has the fewest."""
    error: float | None = None
    """Standard error, that of the interval; None if the figure is exact or has no interval."""
    centre: float = 0.0
    """Middle of the interval before it is cut at the ends."""
    degrees: int = 1
    """Degrees of freedom of t."""
    sampling: float = 0.0
    """Standard error by CR3 without pseudo-clusters."""
    shrink: float = 1.0
    """The centre is the value over this, plus a constant: 1 + 2 / G."""
    ends: Ends | None = None
    """The lowest and the highest possible value."""
    effective: float = 0.0
    """Effective number of clusters: equally large ones worth as much."""
    method: str = ""
    ways: tuple[str, ...] = ()
    """What is random: the kinds of clusters that another study would draw anew."""
    reason: str = ""
    """Why there is no interval; "" if there is one, or if the figure is exact."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """The error by each way alone."""
    stated: Ends | None = None
    """The 95 % interval, where it is not symmetric around the centre (of a ratio, of bounds)."""

    @property
    def interval(self) -> Ends | None:
        """95 % interval."""
        return self.at(LEVEL)

    def at(self, level: float) -> Ends | None:
        """Interval of this level, within the ends; None without an error."""
        if self.stated is not None and level == LEVEL:
            return self.stated
        if self.error is None:
            return None
        reach = t_of(level, self.degrees) * self.error
        low, high = self.centre - reach, self.centre + reach
        return low if self.ends is None else max(low, self.ends[0]), (
            high if self.ends is None else min(high, self.ends[1])
        )

    def p(self, null: float = 0.0) -> float:
        """Two-sided p of the value being `null`: 1 minus the level whose interval ends there."""
        if self.error is None:
            return 1.0
        return min(1.0, 2 * t_cdf(-abs(self.centre - null) / self.error, self.degrees)) or 1e-300

    def equivalent(self, margin: float) -> bool:
        """Whether the 90 % interval lies within ± margin (two one-sided tests, Schuirmann 1987)."""
        inner = self.at(0.9)
        return inner is not None and -margin < inner[0] and inner[1] < margin

    def mde(self, power: float = 0.8) -> float | None:
        """The smallest true value that an interval like this one excludes 0 for, with this power.
        None without an interval."""
        if self.error is None:
            return None
        return detectable(self.error, self.sampling, self.shrink, self.degrees, power)

    def plain(self) -> dict[str, Any]:
        """The one shape of an estimate in JSON: {value, low, high, error, method, n, clusters}."""
        low, high = self.interval or (None, None)
        return {
            "value": self.value,
            "low": low,
            "high": high,
            "error": self.error,
            "method": self.method or None,
            "n": self.n,
            "clusters": self.clusters,
        }

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> "Estimate":
        """An estimate from its JSON. KeyError if it is of another shape."""
        ends = None if plain["low"] is None else (plain["low"], plain["high"])
        n, clusters, method = plain["n"], plain["clusters"], plain["method"] or ""
        return cls(plain["value"], n, clusters, plain["error"], method=method, stated=ends)

    def moved(self, by: float) -> "Estimate":
        """The same on a scale whose origin lies at -by."""
        ends, stated = (each and (each[0] + by, each[1] + by) for each in (self.ends, self.stated))
        return replace(
            self, value=self.value + by, centre=self.centre + by, ends=ends, stated=stated
        )


PARTS = tuple(Estimate(0.0, 0).plain())
"""Keys of an estimate in JSON."""


def detectable(
    error: float, sampling: float, shrink: float, degrees: int, power: float = 0.8
) -> float:
    """Smallest true value that is found with this power. The interval excludes 0 once the centre
    lies t errors away from it; the centre varies with the sampling error."""
    far = shrink * t_of(LEVEL, degrees) * error
    return far + t_quantile(power, degrees) * sampling


@dataclass(frozen=True, slots=True, eq=False)
class Influences:
    """A measure as a value and the influence of each judgement on it."""

    value: float
    psi: Floats
    """Influence of each judgement; sums to 0."""
    ways: Mapping[str, Keys]
    """By kind of cluster, the cluster of each judgement."""
    ends: Ends | None = None
    """The lowest and the highest possible value; None if unbounded."""
    strata: Places | None = None
    """Stratum of each judgement, from 0; None if there is one."""
    n: int = 0
    """Number to state; by default that of the judgements."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))
        if not self.n:
            object.__setattr__(self, "n", len(self.psi))

    def __sub__(self, other: "Influences") -> "Influences":
        """The difference, over the judgements of both: those of one cluster are paired by it."""
        names = [name for name in self.ways if name in other.ways]
        if not names:
            raise ValueError("the two estimates have no kind of cluster in common")
        ends = None
        if self.ends and other.ends:
            ends = (self.ends[0] - other.ends[1], self.ends[1] - other.ends[0])
        ours, theirs = self._strata(), other._strata()
        return Influences(
            self.value - other.value,
            np.concatenate((self.psi, -other.psi)),
            {name: np.concatenate((self.ways[name], other.ways[name])) for name in names},
            ends,
            np.concatenate((ours, theirs + ours.max() + 1)),
            self.n + other.n,
        )

    def __mul__(self, factor: float) -> "Influences":
        ends = self.ends and (self.ends[0] * factor, self.ends[1] * factor)
        ends = ends and (min(ends), max(ends))
        return replace(self, value=self.value * factor, psi=self.psi * factor, ends=ends)

    def _strata(self) -> Places:
        return np.zeros(len(self.psi), np.int64) if self.strata is None else self.strata

    def by(self, *ways: str) -> "Influences":
        """The same with these kinds of clusters alone. ValueError for one that it does not have."""
        if unknown := [name for name in ways if name not in self.ways]:
            raise ValueError(f"no clusters {unknown[0]!r}; there are {', '.join(self.ways)}")
        return replace(self, ways={name: self.ways[name] for name in ways})

    def estimate(self, error: ErrorKind = "cr3") -> Estimate:
        """The value with its error over all ways."""
        names = tuple(self.ways)
        codes = {name: _crossed([self.ways[name]]) for name in names}
        if single := [name for name in names if not codes[name].any()]:
            reason = f"a single {single[0]} shows no variation: an interval needs two"
            return Estimate(self.value, self.n, 1, ways=names, reason=reason)
        # The pseudo-clusters stand for judgements that were not drawn, once: they join the finest
        # way. Another at each end for a dozen judges would stand for a judge who is always wrong.
        finest = max(names, key=lambda name: int(codes[name].max()))
        parts: list[tuple[int, Jackknife]] = []
        for count in range(1, len(names) + 1):
            for chosen in combinations(names, count):
                of = codes[chosen[0]] if count == 1 else _crossed([codes[name] for name in chosen])
                part = self._one_way(of, error, self.ends if chosen == (finest,) else None)
                if part is None:
                    reason = f"one {' × '.join(chosen)} has all judgements of a kind"
                    return Estimate(self.value, self.n, 1, ways=names, reason=reason)
                parts.append((1 if count % 2 else -1, part))
        one_way = dict(zip(names, (part for _, part in parts), strict=False))
        fewest = min(one_way.values(), key=lambda part: part.degrees)
        method = PLAIN if error == "cr1" else RANGE_AWARE if self.ends else FREE
        variance = math.fsum(sign * part.variance for sign, part in parts)
        if len(names) > 1:
            method += ", crossed"
            largest = max(part.variance for part in one_way.values())
            # A sum that is negative, or far below one way alone, is so by chance.
            if math.sqrt(max(variance, 0.0)) < math.sqrt(largest) / 2:
                variance, method = largest, f"{method}: the larger one-way error"
        scale = float(np.abs(self.psi).max(initial=0.0))
        # Equal values leave a variance of rounding errors, which is not an interval.
        if variance <= (NOTHING * max(scale, abs(self.value))) ** 2:
            reason = "all judgements are equal" if self.value else ""
            return Estimate(self.value, self.n, fewest.clusters, ways=names, reason=reason)
        sampling = math.fsum(sign * part.sampling for sign, part in parts)
        guarded = one_way[finest]
        return Estimate(
            self.value,
            self.n,
            min(part.clusters for part in one_way.values()),
            math.sqrt(variance),
            guarded.centre,
            fewest.degrees,
            math.sqrt(max(sampling, 0.0)),
            guarded.shrink,
            self.ends,
            min(part.effective for part in one_way.values()),
            method,
            names,
            errors={name: math.sqrt(part.variance) for name, part in one_way.items()},
        )

    def _one_way(self, codes: Places, error: ErrorKind, ends: Ends | None) -> "Jackknife | None":
        """Variance by one kind of cluster; None if one of them holds a stratum."""
        strata = self._strata()
        g, k = int(codes.max()) + 1, int(strata.max()) + 1
        place = codes * k + strata
        psi = np.bincount(place, self.psi, g * k).astype(np.float64).reshape(g, k)
        counts = np.bincount(place, minlength=g * k).reshape(g, k).astype(np.float64)
        shares = counts / counts.sum(axis=0)
        if error == "cr1":
            variance = float(np.square(psi.sum(axis=1)).sum()) * g / (g - 1)
            return Jackknife(g, variance, variance, self.value, 1.0, g - 1, float(g))
        return jackknife(psi, shares, self.value, ends)


@dataclass(frozen=True, slots=True)
class Jackknife:
    """The variance of a value by one kind of cluster."""

    clusters: int
    variance: float
    """With pseudo-clusters, if the value has ends."""
    sampling: float
    """Without them."""
    centre: float
    shrink: float
    degrees: int
    effective: float


def jackknife(psi: Floats, shares: Floats, value: float, ends: Ends | None) -> Jackknife | None:
    """CR3 of one value. psi, shares: clusters × strata. None if one cluster holds a stratum."""
    g, k = psi.shape
    if shares.max() > 1 - NOTHING:
        return None
    effective = float((1 / np.square(shares).sum(axis=0)).min())
    degrees = degrees_of(effective)
    plain = float(np.square((psi / (1 - shares)).sum(axis=1)).sum()) * (g - 1) / g
    if ends is None:
        return Jackknife(g, plain, plain, value, 1.0, degrees, effective)
    a = 1 / float((shares > 0).sum(axis=0).min())
    shrink = 1 + 2 * a
    centre = (value + a * (ends[0] + ends[1])) / shrink
    moved = ((psi + shares / k * (value - centre)) / (shrink - shares)).sum(axis=1)
    pseudo = (a / (1 + a)) ** 2 * ((ends[0] - centre) ** 2 + (ends[1] - centre) ** 2)
    variance = (float(np.square(moved).sum()) + pseudo) * (g + 1) / (g + 2)
    return Jackknife(g, variance, plain, centre, shrink, degrees, effective)


def degrees_of(effective: float) -> int:
    """Degrees of freedom: one less than the effective number of clusters; at least 1."""
    # Clusters of one size must not lose a degree to rounding.
    return max(1, int(effective + 1e-9) - 1)


def mean_of(
    values: npt.ArrayLike, ways: Mapping[str, Keys], ends: Ends | None = None
) -> Influences:
    """The mean of one value per judgement."""
    table = np.asarray(values, dtype=np.float64)
    mean = float(table.mean())
    return Influences(mean, (table - mean) / len(table), ways, ends)


def of_sample(sample: Sample) -> Influences:
    """The mean of a sample over its questions, those of a group together."""
    keys = np.array([group or f"\0{id}" for group, id in sample.clusters])
    return mean_of(sample.values, {"problem": keys}, sample.ends)


def estimate(sample: Sample) -> Estimate:
    """Mean of one measure with its interval."""
    return estimates((sample,))[0]


def estimates(samples: Sequence[Sample]) -> tuple[Estimate, ...]:
    """Means of measures with their intervals: those of the same questions in one product."""
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for n, sample in enumerate(samples):
        together.setdefault((sample.questions, sample.groups), []).append(n)
    found: dict[int, Estimate] = {}
    for places in together.values():
        block = [samples[n] for n in places]
        codes = codes_of(block[0].clusters)
        figures = means([sample.values for sample in block], codes, [s.ends for s in block])
        found.update(zip(places, figures, strict=True))
    return tuple(found[n] for n in range(len(samples)))


def means(
    columns: Sequence[Sequence[float]], codes: Places, ends: Sequence[Ends | None]
) -> list[Estimate]:
    """Means of columns over the same judgements. codes: the cluster of each judgement."""
    sizes = np.bincount(codes).astype(np.float64)
    shares = (sizes / sizes.sum())[:, None]
    found = []
    for column, its in zip(columns, ends, strict=True):
        values = np.asarray(column, dtype=np.float64)
        mean, n = math.fsum(column) / len(column), len(column)
        psi = np.bincount(codes, (values - mean) / n).astype(np.float64)[:, None]
        part = jackknife(psi, shares, mean, its) if len(sizes) > 1 else None
        if part is None:
            reason = "a single problem or group of them shows no variation: an interval needs two"
            found.append(Estimate(mean, n, len(sizes), ways=("problem",), reason=reason))
        elif part.variance <= (NOTHING * float(np.abs(values).max())) ** 2:
            reason = "all problems are equal" if mean else ""
            found.append(Estimate(mean, n, len(sizes), ways=("problem",), reason=reason))
        else:
            found.append(
                Estimate(
                    mean,
                    n,
                    part.clusters,
                    math.sqrt(part.variance),
                    part.centre,
                    part.degrees,
                    math.sqrt(part.sampling),
                    part.shrink,
                    its,
                    part.effective,
                    RANGE_AWARE if its else FREE,
                    ("problem",),
                )
            )
    return found


def exact(value: float, n: int) -> Estimate:
    """A figure that is what it is by definition: it prints bare."""
    return Estimate(value, n)


def jackknifed(value: float, without: Floats, n: int, ends: Ends | None = None) -> Estimate:
    """An estimate that is no mean, by its values without each cluster of judgements in turn.

    For smooth functions of means, whose jackknife is CR3. Without ends or pseudo-clusters: only
    where dozens of clusters show the variation.
    """
    g = len(without)
    if g < 2 or not np.isfinite(without).all():
        return Estimate(value, n, g, reason="it is not defined without some cluster")
    error = math.sqrt(float(np.square(without - value).sum()) * (g - 1) / g)
    if error <= NOTHING * abs(value):
        return Estimate(value, n, g, reason="all clusters are equal")
    return Estimate(
        value, n, g, error, value, g - 1, error, 1.0, ends, float(g), FREE, ("problem",)
    )


def inverted(value: float, test: Callable[[float], Estimate], reach: float = 1e6) -> Ends | None:
    """All x around `value` for which the interval of `test(x)` holds 0 (Fieller 1954, JRSS B 16,
    for a ratio x of means m1 / m2 with m1 - x m2); None if there is no end to them."""

    def excluded(x: float) -> bool:
        interval = test(x).interval
        return interval is not None and not interval[0] <= 0 <= interval[1]

    found = []
    for sign in (-1, 1):
        inside, step = 0.0, 1e-3 * max(abs(value), 1.0)
        while not excluded(value + sign * step):
            inside, step = step, 2 * step
            if step > reach:
                return None
        for _ in range(50):
            middle = (inside + step) / 2
            inside, step = (inside, middle) if excluded(value + sign * middle) else (middle, step)
        found.append(value + sign * inside)
    return found[0], found[1]


def _crossed(ways: Sequence[Keys]) -> Places:
    """Codes of the combinations of clusters that occur."""
    codes: Places = np.zeros(len(ways[0]), np.int64)
    for keys in ways:
        own = np.unique(keys, return_inverse=True)[1].astype(np.int64)
        joint = codes * (int(own.max(initial=0)) + 1) + own
        codes = np.unique(joint, return_inverse=True)[1].astype(np.int64)
    return codes
