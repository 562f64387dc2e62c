"""Estimates, and the one interval behind every figure: cluster-robust t, or the conservative one.

A measure is a mean of contributions of judgements. With the value m and the influence psi_j of
judgement j (its share of the deviation from m; all sum to 0), the cluster c of a way (problem or
source text, judge, speaker) moves the value by Psi_c = sum of its psi_j, and holds the share a_c of
the weight. Leaving a cluster out moves the value by e_c = -Psi_c / (1 - a_c), and

    CR3   V = (G - 1) / G * sum over c of e_c^2

is the jackknife variance (MacKinnon, Nielsen and Webb 2023, Journal of Econometrics 232). With t of
1 / sum of a_c^2 - 1 degrees of freedom, as for clusters of one size worth as much, it is the
interval; without groups it is the t of textbooks, and of a contrast the paired t.

A judge's errors are rare, and a small sample may hold none: t then claims certainty. So the
conservative interval adds a pseudo-cluster of average share 1 / G at each end of the measure's
range, where docs/statistics.md says. Interval, p, equivalence, minimum detectable effect and ranks
all invert one statistic, (centre - null) / error with Student's t.

Clusters that cross (texts × judges) have V_1 + V_2 - V_12 (Cameron, Gelbach and Miller 2011).

Figures of different kinds of judgement (the worlds of truth and lie; two rows) are strata: shares
and clusters are counted within each, and the stratum of the fewest gives the degrees of freedom.
"""

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ....protocols.settings import unknown
from .estimate import ASKED_FOR, Ends, Estimate, Guard, Interval, ends_apart

Floats: TypeAlias = npt.NDArray[np.float64]
"""An array of 64-bit floating point numbers."""

Flags: TypeAlias = npt.NDArray[np.bool_]
"""An array of truth values."""

Places: TypeAlias = npt.NDArray[np.int64]
"""An array of indices."""


def codes_of(keys: Sequence[Hashable]) -> Places:
    """Cluster keys as whole numbers from 0, in the order of their first judgement."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64)


def by_cluster(values: npt.ArrayLike, cluster: Places) -> tuple[Floats, Floats]:
    """Sums and sizes of clusters, numbered from 0. values: questions, or questions × measures."""
    table = np.asarray(values, dtype=np.float64)
    order = np.argsort(cluster, kind="stable")
    starts = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    return np.add.reduceat(table[order], starts, axis=0), np.bincount(cluster).astype(np.float64)


ErrorKind: TypeAlias = Literal["cr3", "cr1"]
Keys: TypeAlias = npt.NDArray[Any]
"""Names or numbers of clusters, one per judgement."""

METHODS: Mapping[ErrorKind, str] = {"cr3": "CR3 t", "cr1": "CR1 t"}

FEWEST = 6
"""Clusters below which t has nothing to stand on."""

CONTRIBUTING = 5.0
"""Effective number of contributing clusters below which it has none either."""

OF_FEW = 8
"""Of fewer than this times `CONTRIBUTING` clusters, that share of them is enough."""

FEW_CLUSTERS = 20
"""Effective clusters below which an interval is rough."""

WAY = ("problem",)

BLOCK = 2**17
"""Judgements × values that are estimated at once."""

NOTHING = 1e-12
"""Errors below this multiple of the figures they come from are rounding."""


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
    """Stratum of each judgement, from 0; None for a single one."""
    n: int = 0
    """Number to state; by default the number of judgements."""
    questions: tuple[str, ...] = ()
    """The questions of a mean of one value per question (`of_questions`); () for other figures."""
    values: Floats = field(default_factory=lambda: np.empty(0))
    """Their values."""
    judged: frozenset[str] = frozenset()
    """The questions of an unpaired figure of a run; none of them has a value."""
    weights: Floats | None = None
    """Weight of each judgement in the mean of its stratum; None if all weigh the same."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))
        if not self.n:
            object.__setattr__(self, "n", len(self.psi))

    def __sub__(self, other: "Influences") -> "Influences":
        """The difference, question by question over those that both have; else over the judgements
        of both, where judgements of one cluster are paired. ValueError if they share none."""
        names = [name for name in self.ways if name in other.ways]
        one, two = self.alike(other)
        paired = bool(one.questions and two.questions)
        if paired and len(names) == 1:
            rows = together({"first": one, "second": two})
            apart = rounded_apart(rows.values[0], rows.values[1], np.abs(rows.values).max())
            ends = ends_apart(self.ends, other.ends)
            return of_questions(rows.questions, apart, {"problem": rows.keys}, ends)
        if not names:
            raise ValueError("the two estimates have no kind of cluster in common")
        # The rows may have different judges of a question.
        ours, theirs = one._strata(), two._strata()
        return Influences(
            one.value - two.value,
            np.concatenate((one.psi, -two.psi)),
            {name: np.concatenate((one.ways[name], two.ways[name])) for name in names},
            ends_apart(one.ends, two.ends),
            np.concatenate((ours, theirs + ours.max() + 1)),
            len(one._of & two._of) if one._of and two._of else one.n + two.n,
            judged=one._of | two._of,
            weights=np.concatenate((one._weights(), two._weights())),
        )

    def __mul__(self, factor: float) -> "Influences":
        ends = self.ends and (self.ends[0] * factor, self.ends[1] * factor)
        ends = ends and (min(ends), max(ends))
        return replace(
            self,
            value=self.value * factor,
            psi=self.psi * factor,
            ends=ends,
            values=self.values * factor,
        )

    def alike(self, other: "Influences") -> "tuple[Influences, Influences]":
        """Both over their common questions, as far as these are known. ValueError without any."""
        if self.questions == other.questions:
            return self, other
        ours, theirs = self._of, other._of
        one = self.on(theirs) if self.questions and theirs else self
        two = other.on(ours) if other.questions and ours else other
        if one is None or two is None:
            raise ValueError("the two figures share no question")
        return one, two

    def less(self, other: "Influences | None") -> "Influences | None":
        """The difference; None without another figure, or without a common question."""
        if other is None:
            return None
        alike = self.questions == other.questions or not (self._of and other._of)
        return None if not alike and self._of.isdisjoint(other._of) else self - other

    @property
    def _of(self) -> frozenset[str]:
        """The questions that it is of, as far as they are known."""
        return self.judged or frozenset(self.questions)

    def on(self, questions: Collection[str]) -> "Influences | None":
        """The figure on some of its questions; None if it has none of them."""
        places = [n for n, id in enumerate(self.questions) if id in questions]
        if len(places) == len(self.questions):
            return self
        ways = {way: keys[places] for way, keys in self.ways.items()}
        ids = tuple(self.questions[n] for n in places)
        return of_questions(ids, self.values[places], ways, self.ends) if places else None

    def settled(self) -> "Influences":
        """This mean, with values fixed by definition: if all are equal, it is not estimated."""
        if np.ptp(self.values) > NOTHING:
            return self
        return replace(self, ends=(self.value, self.value))

    @property
    def alone(self) -> bool:
        """Whether it is a mean over questions that depend on one another by their groups alone."""
        return bool(self.questions) and len(self.ways) == 1

    def same_questions(self, other: "Influences") -> bool:
        """Whether both are means over the same questions in the same clusters."""
        return (
            self.alone
            and other.alone
            and self.questions == other.questions
            and np.array_equal(self.ways["problem"], other.ways["problem"])
        )

    def _strata(self) -> Places:
        return np.zeros(len(self.psi), np.int64) if self.strata is None else self.strata

    def _weights(self) -> Floats:
        return np.ones(len(self.psi)) if self.weights is None else self.weights

    def by(self, *ways: str) -> "Influences":
        """These influences with some kinds of clusters alone. ValueError for a kind they lack."""
        if wrong := [name for name in ways if name not in self.ways]:
            raise ValueError(unknown("clusters", wrong[0], self.ways))
        return replace(self, ways={name: self.ways[name] for name in ways})

    def estimate(self, error: ErrorKind = "cr3", interval: Interval = "t") -> Estimate:
        """The value with its error over all ways."""
        if self.alone:
            return estimates((self,), error, interval)[0]
        names = tuple(self.ways)
        codes = {name: _crossed([self.ways[name]]) for name in names}
        if single := [name for name in names if not codes[name].any()]:
            reason = f"it needs at least two {single[0]}s"
            return Estimate(self.value, self.n, 1, ways=names, reason=reason)
        # The pseudo-clusters stand for judgements that were not drawn, once: they join the finest
        # way. Another at each end for a dozen judges would stand for a judge who is always wrong.
        finest = max(names, key=lambda name: int(codes[name].max()))
        parts: list[tuple[int, Jackknife]] = []
        for count in range(1, len(names) + 1):
            for chosen in combinations(names, count):
                way = codes[chosen[0]] if count == 1 else _crossed([codes[name] for name in chosen])
                part = self._one_way(way, error, self.ends if chosen == (finest,) else None)
                if part is None:
                    reason = f"one {' × '.join(chosen)} has all judgements of a kind"
                    return Estimate(self.value, self.n, 1, ways=names, reason=reason)
                parts.append((1 if count % 2 else -1, part))
        one_way = dict(zip(names, (part for _, part in parts), strict=False))
        fewest = min(one_way.values(), key=lambda part: part.degrees)
        finest_part = one_way[finest]
        variance, larger = _summed([(sign, part.sampling) for sign, part in parts], len(names))
        method = METHODS[error] + ", crossed" * (len(names) > 1)
        method += ": the larger one-way error" * larger
        guard = None
        if self.ends and error == "cr3":
            wide, _ = _summed([(sign, part.variance) for sign, part in parts], len(names))
            guard = Guard(math.sqrt(wide), float(finest_part.centre[0]), finest_part.shrink)
        scale = max(float(np.abs(self.psi).max(initial=0.0)), abs(self.value))
        estimate = Estimate(
            self.value,
            self.n,
            min(part.clusters for part in one_way.values()),
            math.sqrt(variance),
            fewest.degrees,
            guard,
            ends=self.ends,
            effective=min(part.effective for part in one_way.values()),
            method=method,
            ways=names,
            errors={name: math.sqrt(part.sampling[0]) for name, part in one_way.items()},
        )
        few = "" if error == "cr1" else finest_part.few(0, "clusters")
        return _settled(estimate, scale, few, interval)

    def _one_way(self, codes: Places, error: ErrorKind, ends: Ends | None) -> "Jackknife | None":
        """Variance by one kind of cluster; None if one of them holds a stratum."""
        strata = self._strata()
        g, k = int(codes.max()) + 1, int(strata.max()) + 1
        place = codes * k + strata
        psi = np.bincount(place, self.psi, g * k).astype(np.float64).reshape(g, k, 1)
        weights = np.bincount(place, self._weights(), g * k).reshape(g, k)
        shares, value = weights / weights.sum(axis=0), np.array([self.value])
        return jackknife(psi, shares, value, _ends([ends]), error)


def _summed(parts: Sequence[tuple[int, Floats]], ways: int) -> tuple[float, bool]:
    """Variance over crossed ways, single ways first; and whether it is the largest one-way
    variance, since a sum that is negative, or far below one way alone, is so by chance."""
    variance = math.fsum(sign * float(part[0]) for sign, part in parts)
    largest = max(float(part[0]) for _, part in parts[:ways])
    if ways > 1 and math.sqrt(max(variance, 0.0)) < math.sqrt(largest) / 2:
        return largest, True
    return max(variance, 0.0), False


def _settled(one: Estimate, scale: float, few: str, interval: Interval) -> Estimate:
    """The estimate by t, or by the guard if that is asked for or t is not valid. scale: of the
    figures that its errors come from. few: why t is not valid; empty where it is."""
    # Equal values leave a variance of rounding errors, which is not an interval.
    none = (one.error or 0.0) <= NOTHING * scale
    if none and (one.guard is None or one.guard.error <= NOTHING * scale):
        reason = "all clusters are equal" if one.value else ""
        return Estimate(one.value, one.n, one.clusters, ways=one.ways, reason=reason)
    why = "all problems equal" if none else few or ASKED_FOR * (interval == "conservative")
    if one.guard is None or not why:
        return one
    return replace(one, error=0.0 if none else one.error, conservative=why)


@dataclass(frozen=True, slots=True)
class Jackknife:
    """Variances of some values by one kind of cluster; arrays have one place a value."""

    clusters: int
    variance: Floats
    """Variance with pseudo-clusters, which stand for the ends that a value may have."""
    sampling: Floats
    """Variance without pseudo-clusters."""
    centre: Floats
    shrink: float
    degrees: int
    effective: float
    contributing: Floats
    """Effective number of clusters that move the value."""
    moved: Floats
    """How far each cluster moves the value, squared: clusters × values."""

    def few(self, n: int, unit: str) -> str:
        """Why t is not valid for a value, such as `only 5 problems`; empty where it is."""
        if self.clusters < FEWEST:
            return f"only {self.clusters} {unit}"
        if self.contributing[n] >= min(CONTRIBUTING, self.clusters / OF_FEW):
            return ""
        moved = self.moved[:, n]
        differ = int((np.abs(moved - np.median(moved)) > NOTHING * moved.max()).sum())
        if 2 * differ > self.clusters:
            differ = round(float(self.contributing[n]))
        return f"only {differ} of {self.clusters} {unit} differ"


def jackknife(
    psi: Floats, shares: Floats, values: Floats, ends: Floats, error: ErrorKind = "cr3"
) -> Jackknife | None:
    """Variances of several values over the same clusters; None if one cluster holds a stratum. psi:
    clusters × strata × values. shares: clusters × strata. ends: 2 × values, NaN for a value
    without. error: cr1 are plain clustered errors with G - 1 degrees of freedom."""
    g, k = shares.shape
    if error == "cr1":
        moved = psi.sum(axis=1)
        sampling = np.square(moved).sum(axis=0) * g / (g - 1)
        contributing = np.full(len(values), float(g))
        squares = np.square(moved)
        return Jackknife(g, sampling, sampling, values, 1.0, g - 1, float(g), contributing, squares)
    if shares.max() > 1 - NOTHING:
        return None
    effective = float((1 / np.square(shares).sum(axis=0)).min())
    part, (low, high), free = shares[:, :, None], ends, np.isnan(ends[0])
    squares = np.square((psi / (1 - part)).sum(axis=1))
    total, fourth = squares.sum(axis=0), np.square(squares).sum(axis=0)
    contributing = np.divide(total**2, fourth, out=np.zeros_like(total), where=fourth > 0)
    plain = total * (g - 1) / g
    a = 1 / float((shares > 0).sum(axis=0).min())
    shrink = 1 + 2 * a
    centre = (values + a * (low + high)) / shrink
    moved = ((psi + part / k * (values - centre)) / (shrink - part)).sum(axis=1)
    pseudo = (a / (1 + a)) ** 2 * ((low - centre) ** 2 + (high - centre) ** 2)
    variance = (np.square(moved).sum(axis=0) + pseudo) * (g + 1) / (g + 2)
    return Jackknife(
        g,
        np.where(free, plain, variance),
        plain,
        np.where(free, values, centre),
        shrink,
        # Clusters of one size must not lose a degree to rounding.
        max(1, int(effective + 1e-9) - 1),
        effective,
        contributing,
        squares,
    )


def mean_of(
    values: npt.ArrayLike, ways: Mapping[str, Keys], ends: Ends | None = None
) -> Influences:
    """The mean of one value per judgement."""
    table = np.asarray(values, dtype=np.float64)
    mean = float(table.mean())
    return Influences(mean, (table - mean) / len(table), ways, ends)


def rounded_apart(first: Floats, second: Floats, size: npt.ArrayLike) -> Floats:
    """Differences of values; 0 where they differ by rounding. size: the largest value of a row."""
    apart: Floats = first - second
    apart[np.abs(apart) <= NOTHING * np.asarray(size)[..., None]] = 0.0
    return apart


def cluster(id: str, group: str) -> str:
    """Cluster of a question: its group, or the question itself without one."""
    return group or f"\0{id}"


def of_questions(
    questions: Sequence[str],
    values: npt.ArrayLike,
    groups: Sequence[str] | Mapping[str, Keys] = (),
    ends: Ends | None = None,
) -> Influences:
    """The mean of one value per question; a group of questions is one cluster. groups: the name of
    each question's group, "" if it has none; () if no question has one. Or the names of the
    clusters. ValueError if it is empty, lengths differ, a question occurs twice, or a value is not
    finite."""
    ids, table = tuple(questions), np.asarray(values, dtype=np.float64)
    if not isinstance(groups, Mapping):
        both = zip(ids, groups or ("",) * len(ids), strict=True)
        groups = {"problem": np.array([cluster(id, group) for id, group in both])}
    if not ids:
        raise ValueError("a mean needs at least one question")
    if not len(ids) == len(table) == len(groups["problem"]):
        raise ValueError(f"{len(ids)} questions with {len(table)} values: each needs one")
    if len(set(ids)) != len(ids):
        most, times = Counter(ids).most_common(1)[0]
        raise ValueError(f"question {most} occurs {times} times; average its draws first")
    if not np.isfinite(table).all():
        n = int(np.argmin(np.isfinite(table)))
        raise ValueError(f"question {ids[n]} has the value {table[n]}, not a finite number")
    mean = math.fsum(table.tolist()) / len(ids)
    return Influences(mean, (table - mean) / len(ids), groups, ends, questions=ids, values=table)


class Rows(NamedTuple):
    """Measures of several rows on the questions that all of them have."""

    questions: tuple[str, ...]
    values: Floats
    """Rows × questions."""
    keys: Keys
    """Name of each question's cluster."""


def together(rows: Mapping[str, Influences]) -> Rows:
    """Join measures by name over the questions that all share, in the order of the first.
    ValueError without rows or shared questions, or if a question has two groups."""
    if not rows:
        raise ValueError("rows to compare: at least one is required")
    first, *others = rows.values()
    ids, places = first.questions, np.arange(len(first.questions))
    if any(other.questions != ids for other in others):
        shared = set(ids).intersection(*(other.questions for other in others))
        places = np.flatnonzero([id in shared for id in ids])
        ids = tuple(first.questions[n] for n in places)
    if not ids:
        raise ValueError(f"the rows {', '.join(rows)} share no question")
    keys, columns = first.ways["problem"][places], []
    for name, row in rows.items():
        at = places
        if row.questions != first.questions:
            place = {id: n for n, id in enumerate(row.questions)}
            at = np.array([place[id] for id in ids])
        if other := np.flatnonzero(row.ways["problem"][at] != keys).tolist():
            raise ValueError(
                f"question {ids[other[0]]} is in another group in row {name} than elsewhere"
            )
        columns.append(row.values[at])
    return Rows(ids, np.array(columns), keys)


def averaged(figures: Iterable[Influences]) -> Influences | None:
    """Their mean, each counting equally on their common questions; None without one."""
    every = list(figures)
    summed = every[0] if every else None
    if summed and len(every) > 1 and all(map(summed.same_questions, every)):
        # Of the grid's hundreds of rows, a figure for each partial sum would take seconds.
        values, ends = summed.values, summed.ends
        for sample in every[1:]:
            size = max(np.abs(values).max(), np.abs(sample.values).max())
            values = rounded_apart(values, -sample.values, size)
            ends = ends_apart(ends, sample.ends and (-sample.ends[1], -sample.ends[0]))
        summed = of_questions(summed.questions, values, summed.ways, ends)
    else:
        for sample in every[1:]:
            summed = summed.less(sample * -1.0) if summed else None
    return summed * (1 / len(every)) if summed else None


def mean_pair(
    figures: Sequence[Influences | None], pairs: Iterable[tuple[int, int]]
) -> tuple[Influences, Influences] | None:
    """Mean of the first and of the second figures of pairs, by index, on the questions that all of
    them have; None without any. Pairs without a figure are left out."""
    measured = [(one, two) for a, b in pairs if (one := figures[a]) and (two := figures[b])]
    one, two = (averaged(side) for side in zip(*measured, strict=True)) if measured else (None,) * 2
    try:
        return one.alike(two) if one and two else None
    except ValueError:
        return None


def estimates(
    samples: Sequence[Influences], error: ErrorKind = "cr3", interval: Interval = "t"
) -> tuple[Estimate, ...]:
    """Figures with their intervals: means over the same questions in one product."""
    alike: dict[tuple[tuple[str, ...], bytes], list[int]] = {}
    by_place: dict[int, Estimate] = {}
    for n, sample in enumerate(samples):
        if sample.alone:
            alike.setdefault((sample.questions, sample.ways["problem"].tobytes()), []).append(n)
        else:
            by_place[n] = sample.estimate(error, interval)
    for places in alike.values():
        block = [samples[n] for n in places]
        codes, ends = codes_of(block[0].ways["problem"].tolist()), [s.ends for s in block]
        figures = means(np.array([s.values for s in block]), codes, ends, error, interval)
        by_place.update(zip(places, figures, strict=True))
    return tuple(by_place[n] for n in range(len(samples)))


def means(
    columns: Sequence[Sequence[float]] | Floats,
    codes: Places,
    ends: Sequence[Ends | None],
    error: ErrorKind = "cr3",
    interval: Interval = "t",
) -> list[Estimate]:
    """Means of columns over the same judgements. codes: the cluster of each judgement."""
    sizes, n = np.bincount(codes).astype(np.float64), len(codes)
    shares, step = (sizes / sizes.sum())[:, None], max(1, BLOCK // n)
    every: list[Estimate] = []
    for start in range(0, len(columns), step):
        values = np.array(columns[start : start + step], np.float64)
        mean = np.array([math.fsum(column) / n for column in values.tolist()])
        spans = ends[start : start + step]
        psi = by_cluster((values - mean[:, None]).T / n, codes)[0][:, None]
        part = jackknife(psi, shares, mean, _ends(spans), error) if len(sizes) > 1 else None
        if part is None:
            reason = "it needs at least two problems or groups"
            every += [Estimate(m, n, len(sizes), ways=WAY, reason=reason) for m in mean.tolist()]
            continue
        figures = (mean, np.sqrt(part.sampling), np.sqrt(part.variance), part.centre)
        lines = zip(*(f.tolist() for f in figures), np.abs(values).max(axis=1).tolist(), spans,
                    strict=True)  # fmt: skip
        unit = "problems" if len(sizes) == n else "groups"
        for place, (m, stderr, wide, centre, scale, bound) in enumerate(lines):
            few = "" if error == "cr1" else part.few(place, unit)
            guard = Guard(wide, centre, part.shrink) if bound and error == "cr3" else None
            by_t = Estimate(
                m, n, len(sizes), stderr, part.degrees, guard, ends=bound, effective=part.effective,
                method=METHODS[error], ways=WAY,
            )  # fmt: skip
            every.append(_settled(by_t, scale, few, interval))
    return every


def _ends(ends: Sequence[Ends | None]) -> Floats:
    """The ends of some values, 2 × values; NaN for those without."""
    return np.array([pair or (np.nan, np.nan) for pair in ends], np.float64).T


def jackknifed(value: float, without: Floats, n: int, ends: Ends | None = None) -> Estimate:
    """An estimate that is not a mean, by its values without each cluster of judgements in turn. For
    smooth functions of means, whose jackknife is CR3. Without ends or pseudo-clusters: only where
    dozens of clusters show the variation."""
    g = len(without)
    if g < 2 or not np.isfinite(without).all():
        return Estimate(value, n, g, reason="it is not defined without some cluster")
    error = math.sqrt(float(np.square(without - value).sum()) * (g - 1) / g)
    if error <= NOTHING * abs(value):
        return Estimate(value, n, g, reason="all clusters are equal")
    return Estimate(
        value, n, g, error, g - 1, ends=ends, effective=float(g), method=METHODS["cr3"], ways=WAY
    )


def _crossed(ways: Sequence[Keys]) -> Places:
    """Codes of the combinations of clusters that occur."""
    codes: Places = np.zeros(len(ways[0]), np.int64)
    for keys in ways:
        numbers = np.unique(keys, return_inverse=True)[1].astype(np.int64)
        joint = codes * (int(numbers.max(initial=0)) + 1) + numbers
        codes = np.unique(joint, return_inverse=True)[1].astype(np.int64)
    return codes
