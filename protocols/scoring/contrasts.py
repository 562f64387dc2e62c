"""Contrasts: the difference between two rows on the same questions, with test and interval.

A contrast is first minus second, question by question. Its p tests whether the two rows are
exchangeable within clusters of questions (sign flips). Its interval allows for questions that were
not drawn: CR3 with two pseudo-clusters at the ends of the difference's range, and t quantiles
(`oversight.protocols.scoring.statistics` says why).
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from ..scores import TIE
from .arrays import Floats, Places
from .clustered import cr3, degrees, effective, without_each
from .families import BLOCK, Family, corrected, sign_flips
from .power import reach
from .quantiles import LEVEL, t_of
from .resamples import Rows, together
from .sample import Sample

ContrastVerdict: TypeAlias = Literal[
    "first better", "second better", "equivalent", "not determined"
]

VERDICTS: tuple[ContrastVerdict, ...] = get_args(ContrastVerdict)

FAMILY = 1_000
"""Contrasts beyond which 2,000 flips replace 10,000: max-t does not multiply p by their number."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """First minus second, over the questions that both have."""

    first: str
    second: str
    n: int
    clusters: int
    effective: float
    """Effective number of clusters: equally large ones worth as much."""
    means: tuple[float, float]
    """Means of the first and second row on these questions."""
    estimate: float
    error: float
    """Standard error of the estimate, by CR3."""
    interval: tuple[float, float]
    p: float
    """Two-sided, in (0, 1], of this contrast alone."""
    p_family: float
    """p (under `bh`, q) corrected for the family of all contrasts tested."""
    equivalent: bool
    """Whether the 90 % interval lies within the margin (two one-sided tests, Schuirmann 1987)."""
    mde: float
    """Minimum detectable effect: the smallest difference found by these questions with power .8."""
    wins: int
    """Questions on which the first row scores higher; `losses`, the second."""
    ties: int
    losses: int
    correlation: float
    """Correlation of the two rows over questions; 0 if one does not vary."""
    pairing: float
    """Error of the difference over that on separate questions; below 1, pairing paid off."""
    verdict: ContrastVerdict


def contrasts(
    samples: Mapping[str, Sample],
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    family: Family = "step-max-t",
    equivalence: float = 0.05,
    seed: int = 0,
    resamples: int | None = None,
) -> tuple[Contrast, ...]:
    """Contrasts of rows by name, in the order of `pairs`; by default of all pairs.

    Each is over the questions that its two rows share. equivalence: the margin within which two
    rows count as equivalent, in units of the score. ValueError for an unknown name, a row against
    itself, a margin of 0 or less, rows that share no question, or a single cluster.
    """
    chosen = list(itertools.combinations(samples, 2)) if pairs is None else list(pairs)
    if equivalence <= 0:
        raise ValueError(f"a margin of equivalence is above 0, and this one is {equivalence}")
    for first, second in chosen:
        if unknown := [name for name in (first, second) if name not in samples]:
            raise ValueError(f"no row is called {unknown[0]!r}; there are {', '.join(samples)}")
        if first == second:
            raise ValueError(f"row {first!r} against itself: a contrast needs two rows")
    if not chosen:
        return ()
    if resamples is None:
        resamples = 10_000 if len(chosen) <= FAMILY else 2_000
    groups = [_Group(samples, chosen, places) for places in _by_questions(samples, chosen)]
    p, step = _tests(groups, len(chosen), seed, resamples)
    p_family = corrected(p, step, family)
    by_pair = dict[int, Contrast]()
    for group in groups:
        by_pair.update(group.contrasts(p, p_family, equivalence))
    return tuple(by_pair[k] for k in range(len(chosen)))


def _by_questions(
    samples: Mapping[str, Sample], pairs: Sequence[tuple[str, str]]
) -> list[list[int]]:
    """Places of the contrasts, grouped by the questions that their rows share."""
    kinds = {questions: n for n, questions in enumerate({s.questions for s in samples.values()})}
    kind = {name: kinds[sample.questions] for name, sample in samples.items()}
    by_questions: dict[frozenset[int], list[int]] = {}
    for k, (first, second) in enumerate(pairs):
        by_questions.setdefault(frozenset((kind[first], kind[second])), []).append(k)
    return list(by_questions.values())


class _Group:
    """Contrasts over the same questions."""

    def __init__(
        self, samples: Mapping[str, Sample], pairs: Sequence[tuple[str, str]], places: list[int]
    ) -> None:
        self.places = places
        self.pairs = [pairs[k] for k in places]
        names = dict.fromkeys(itertools.chain(*self.pairs))
        self.rows = together({name: samples[name] for name in names})
        if len(self.rows.sizes) < 2:
            first, second = self.pairs[0]
            raise ValueError(
                f"all questions that {first} and {second} share are of one group: "
                "a contrast needs two"
            )
        place = {name: n for n, name in enumerate(names)}
        self.one = np.array([place[first] for first, _ in self.pairs])
        self.two = np.array([place[second] for _, second in self.pairs])

    def contrasts(
        self, p: Floats, p_family: Floats, equivalence: float
    ) -> Iterator[tuple[int, Contrast]]:
        rows, one, two = self.rows, self.one, self.two
        errors = np.sqrt(variances(rows, one, two))
        low, high = intervals(rows, one, two, LEVEL)
        inner, outer = intervals(rows, one, two, 0.9)
        equivalent = (inner > -equivalence) & (outer < equivalence)
        estimates = rows.means[one] - rows.means[two]
        better = p_family[self.places] <= 1 - LEVEL
        verdicts = np.select(
            [better & (estimates > 0), better & (estimates < 0), equivalent],
            [0, 1, 2],
            3,
        )
        far = reach(alpha=1 - LEVEL, power=0.8, degrees=degrees(rows.sizes))
        wins, losses = map(np.concatenate, zip(*_wins(rows, one, two), strict=True))
        correlation, pairing = _pairing(rows, one, two, errors)
        n, clusters, worth = len(rows.questions), len(rows.sizes), effective(rows.sizes)
        means = rows.means.tolist()
        for k, (place, (first, second)) in enumerate(zip(self.places, self.pairs, strict=True)):
            yield (
                place,
                Contrast(
                    first=first,
                    second=second,
                    n=n,
                    clusters=clusters,
                    effective=worth,
                    means=(means[one[k]], means[two[k]]),
                    estimate=float(estimates[k]),
                    error=float(errors[k]),
                    interval=(float(low[k]), float(high[k])),
                    p=float(p[place]),
                    p_family=float(p_family[place]),
                    equivalent=bool(equivalent[k]),
                    mde=float(far * errors[k]),
                    wins=int(wins[k]),
                    ties=int(n - wins[k] - losses[k]),
                    losses=int(losses[k]),
                    correlation=float(correlation[k]),
                    pairing=float(pairing[k]),
                    verdict=VERDICTS[verdicts[k]],
                ),
            )


def _tests(
    groups: Sequence[_Group], count: int, seed: int, resamples: int
) -> tuple[Floats, Floats]:
    """p of each contrast alone, and by step-down max-t, under one set of flips of the clusters."""
    p, step = np.empty(count), np.empty(count)
    if len(groups) == 1:
        group = groups[0]
        p[group.places], step[group.places] = sign_flips(
            group.rows.sums, group.one, group.two, seed=seed, resamples=resamples
        )
        return p, step
    # A cluster missing from a contrast counts 0, so its sign has no effect.
    keys = dict.fromkeys(itertools.chain(*(group.rows.clusters for group in groups)))
    line = {key: n for n, key in enumerate(keys)}
    differences = np.zeros((len(keys), count + 1))
    for group in groups:
        lines = [line[key] for key in group.rows.clusters]
        sums = group.rows.sums
        differences[np.ix_(lines, group.places)] = sums[:, group.one] - sums[:, group.two]
    zero_column = np.full(count, count)
    return sign_flips(differences, np.arange(count), zero_column, seed=seed, resamples=resamples)


def variances(rows: Rows, one: Places, two: Places) -> Floats:
    """CR3 variance of each contrast's mean, from one product over all rows."""
    away = without_each(rows.sums, rows.sizes)
    g = len(away)
    gram = away.T @ away
    combined: Floats = (gram[one, one] + gram[two, two] - 2 * gram[one, two]) * ((g - 1) / g)
    # For rows that agree the products cancel up to rounding.
    return np.where(combined > 1e-14 * (gram[one, one] + gram[two, two]), combined, 0.0)


def intervals(rows: Rows, one: Places, two: Places, level: float) -> tuple[Floats, Floats]:
    """CR3 interval of each contrast, range-aware where both rows have ends."""
    sums, sizes = rows.sums, rows.sizes
    n, g = float(sizes.sum()), len(sizes)
    t = t_of(level, degrees(sizes))
    low, high = rows.ends[one, 0] - rows.ends[two, 1], rows.ends[one, 1] - rows.ends[two, 0]
    size = n / g
    more = n + 2 * size
    centre = ((sums.sum(axis=0)[one] - sums.sum(axis=0)[two]) + size * (low + high)) / more
    weight = (more - sizes) ** -2.0
    gram = (sums * weight[:, None]).T @ sums
    cross = (weight * sizes) @ sums
    around = (
        (gram[one, one] + gram[two, two] - 2 * gram[one, two])
        - 2 * centre * (cross[one] - cross[two])
        + centre**2 * float((weight * sizes**2).sum())
    )
    pseudo = size**2 * ((low - centre) ** 2 + (high - centre) ** 2) / (more - size) ** 2
    spread = t * np.sqrt((np.maximum(around, 0) + pseudo) * ((g + 1) / (g + 2)))
    plain, error = rows.means[one] - rows.means[two], np.sqrt(variances(rows, one, two))
    free = np.isnan(spread)
    return (
        np.where(free, plain - t * error, np.fmax(low, centre - spread)),
        np.where(free, plain + t * error, np.fmin(high, centre + spread)),
    )


def _wins(rows: Rows, one: Places, two: Places) -> Iterator[tuple[Places, Places]]:
    step = max(1, BLOCK // len(rows.values))
    across = np.ascontiguousarray(rows.values.T)
    for start in range(0, len(one), step):
        stop = start + step
        differences = across[one[start:stop]] - across[two[start:stop]]
        yield (differences > TIE).sum(axis=1), (differences < -TIE).sum(axis=1)


def _pairing(rows: Rows, one: Places, two: Places, errors: Floats) -> tuple[Floats, Floats]:
    away = rows.values - rows.values.mean(axis=0)
    gram = away.T @ away
    scale = np.sqrt(gram[one, one] * gram[two, two])
    correlation = np.divide(gram[one, two], scale, out=np.zeros(len(one)), where=scale > 0)
    alone = cr3(rows.sums, rows.sizes)
    apart = np.sqrt(alone[one] + alone[two])
    saved = np.divide(errors, apart, out=np.ones(len(one)), where=apart > 0)
    return np.clip(correlation, -1, 1), saved
