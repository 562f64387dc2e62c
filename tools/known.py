"""Figures of planted verdicts by their definitions, by numpy and scipy. Nothing of the
project is imported."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import optimize, special

Ends: TypeAlias = tuple[float, float]
Sample: TypeAlias = dict[str, float]
"""Values by question."""
Score: TypeAlias = Callable[[Sequence[float], int], float]


@dataclass(frozen=True)
class Figure:
    """A mean with its error: each cluster is left out in turn. `rare` adds two clusters, one at
    each end of the range."""

    value: float
    n: int
    clusters: int = 0
    error: float | None = None
    degrees: int = 1
    ends: Ends | None = None
    effective: float = 0.0
    rare: tuple[float, float, float] | None = None
    conservative: bool = False
    method: str | None = "CR3 t"

    def at(self, level: float = 0.95) -> Ends | None:
        if self.error is None:
            return None
        least, most = self.ends or (-math.inf, math.inf)
        if self.conservative and not self.error and self.value in self.ends:
            reach = (most - least) * (1 - ((1 - level) / 2) ** (1 / self.effective))
            return (least, least + reach) if self.value == least else (most - reach, most)
        error, centre, _ = self._by
        reach = special.stdtrit(self.degrees, (1 + level) / 2) * error
        return max(centre - reach, least), min(centre + reach, most)

    @property
    def _by(self) -> tuple[float, float, float]:
        return self.rare if self.conservative else (self.error or 0.0, self.value, 1.0)

    @property
    def p(self) -> float:
        if self.error is None:
            return 1.0
        if self.conservative and not self.error and self.value in self.ends:
            away = abs(self.value) / (self.ends[1] - self.ends[0])
            return min(1.0, 2 * (1 - away) ** self.effective)
        error, centre, _ = self._by
        return float(2 * special.stdtr(self.degrees, -abs(centre / error))) if error else 1.0

    @property
    def mde(self) -> float | None:
        if self.error is None:
            return None
        two_sided, power = special.stdtrit(self.degrees, [0.975, 0.8])
        least = self._by[2] * two_sided * self._by[0] + power * self.error
        return None if self.ends and least > max(map(abs, self.ends)) else float(least)

    def equivalent(self, margin: float = 0.05) -> bool:
        inner = self.at(0.9)
        return bool(inner and -margin < inner[0] and inner[1] < margin)

    @property
    def json(self) -> dict[str, Any]:
        low, high = self.at() or (None, None)
        by_t = replace(self, conservative=False).at() or (None, None)
        rare = (replace(self, conservative=True).at() if self.rare else None) or (None, None)
        kind = "conservative" if self.conservative else "t"
        return {
            "value": self.value, "low": low, "high": high, "error": self.error,
            "degrees": None if self.error is None else self.degrees,
            "interval": None if low is None else kind, "method": self.method,
            "n": self.n, "clusters": self.clusters, "t_low": by_t[0], "t_high": by_t[1],
            "conservative_low": rare[0], "conservative_high": rare[1],
            "guard": self.rare and list(self.rare), "effective": self.effective,
            "least": self.ends and self.ends[0], "most": self.ends and self.ends[1],
        }  # fmt: skip


def mean(
    sample: Sample | None, groups: Mapping[str, str], ends: Ends | None, how: str = "t"
) -> Any:
    """The mean over questions, which groups draw together; None without a question."""
    if not sample:
        return None
    stratum = [(groups[id] or id, 1.0, value) for id, value in sample.items()]
    return strata([(1.0, stratum)], ends, len(sample), how)


Stratum: TypeAlias = tuple[float, Sequence[tuple[str, float, float]]]
"""A factor, and the cluster, weight and value of each of its members."""


def strata(parts: Sequence[Stratum], ends: Ends | None, n: int, how: str = "t") -> Figure:
    """The sum of weighted means, each times its factor."""
    places = {key: n for n, key in enumerate({key: 0 for _, part in parts for key, _, _ in part})}
    g, value, moved, shares, influence = len(places), 0.0, 0.0, [], []
    for factor, part in parts:
        mass, sums = np.zeros((2, g))
        for key, weight, one in part:
            mass[places[key]] += weight
            sums[places[key]] += weight * one
        average, share = sums.sum() / mass.sum(), mass / mass.sum()
        value, shares = value + factor * average, [*shares, share]
        influence.append(factor * (sums / mass.sum() - share * average))
        if share.max() < 1:
            # Each cluster is left out in turn.
            moved = moved + factor * ((sums.sum() - sums) / (mass.sum() - mass) - average)
    if any(share.max() == 1 for share in shares):
        return Figure(value, n, 1, method=None)
    error = math.sqrt(np.square(moved).sum() * (g - 1) / g)
    effective = float(min(1 / np.square(share).sum() for share in shares))
    figure = Figure(value, n, g, error, max(1, int(effective + 1e-9) - 1), ends, effective)
    if ends:
        a = 1 / min((share > 0).sum() for share in shares)
        total, apart = 1 + 2 * a, 0.0
        centre = float(value + a * sum(ends)) / total
        for share, psi in zip(shares, influence, strict=True):
            apart = apart + (psi + share / len(shares) * (value - centre)) / (total - share)
        pseudo = [a / (1 + a) * (end - centre) for end in ends]
        wide = math.sqrt(np.square([*apart, *pseudo]).sum() * (g + 1) / (g + 2))
        figure = replace(figure, rare=(wide, centre, total))
    if error < 1e-12:
        if not ends:
            return Figure(value, n, g, method=None)
        return replace(figure, error=0.0, conservative=True)
    contributing = np.square(moved).sum() ** 2 / (moved**4).sum()
    few = g < 6 or contributing < min(5, g / 8)
    return replace(figure, conservative=bool(ends) and (few or how == "conservative"))


def brier(probs: Sequence[float], answer: int) -> float:
    return -sum(((place == answer) - p) ** 2 for place, p in enumerate(probs))


def log(probs: Sequence[float], answer: int) -> float:
    return math.log(min(max(probs[answer], 1e-4), 1 - 1e-4))


def right(probs: Sequence[float], values: Sequence[float]) -> float:
    """Share of the likeliest answers that are best."""
    likeliest = [values[n] == max(values) for n, p in enumerate(probs) if p > max(probs) - 1e-9]
    return sum(likeliest) / len(likeliest)


def weights(values: Sequence[float]) -> list[float]:
    return [value - sum(values) / len(values) for value in values]


def reach(values: Sequence[float], ends: Ends) -> Ends:
    """The least and the most ASD of a question."""
    sums = [sum(max(w, 0.0) for w in weights(values)), sum(min(w, 0.0) for w in weights(values))]
    return sums[0] * ends[0] + sums[1] * ends[1], sums[0] * ends[1] + sums[1] * ends[0]


def propensities(argued: Sequence[float], beta: float) -> list[float]:
    """Of the answers, by the probabilities of each where it is argued."""
    argued = [min(max(p, 1e-4), 1 - 1e-4) for p in argued]
    if beta == 0:
        chosen = [float(p > max(argued) - 1e-9) for p in argued]
    else:
        chosen = [p ** (1 / beta) for p in argued]
    return [one / sum(chosen) for one in chosen]


def between(worst: Figure, best: Figure) -> Ends | None:
    """Stoye's interval of a mean between two bounds."""
    if worst.error is None or best.error is None:
        return None
    gap = max(0.0, best.value - worst.value) / max(worst._by[0], best._by[0])
    c = optimize.brentq(lambda c: special.ndtr(c + gap) - special.ndtr(-c) - 0.95, 0, 10)
    level = 2 * special.ndtr(c) - 1
    return worst.at(level)[0], best.at(level)[1]


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's p: each times the number of p from it upwards, and at least the p before it."""
    order = sorted(range(len(ps)), key=lambda n: ps[n])
    steps = [min(1.0, (len(ps) - rank) * ps[n]) for rank, n in enumerate(order)]
    return [max(steps[: order.index(n) + 1]) for n in range(len(ps))]


def verdict_of(figure: Figure, p_family: float) -> str:
    if p_family <= 0.05 and figure.value:
        return "better" if figure.value > 0 else "worse"
    return "equivalent" if figure.equivalent() else "undecided"


def undone(figure: Figure, verdict: str) -> bool:
    """Whether the interval with rare errors does not confirm a verdict by t."""
    if verdict == "undecided" or figure.conservative or not figure.rare:
        return False
    rare = replace(figure, conservative=True)
    return not rare.equivalent() if verdict == "equivalent" else rare.p > 0.05


def decided(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The verdicts on contrasts that are tested together."""
    every = []
    for figure, p_family in zip(figures, holm([one.p for one in figures]), strict=True):
        verdict = verdict_of(figure, p_family)
        about = {"p": figure.p, "p_family": p_family, "mde": figure.mde, "verdict": verdict}
        every.append(about | {"undone": undone(figure, verdict), "agree": 0})
    return every


def calibration(p: Any, outcome: Any, keys: Sequence[str]) -> dict[str, Any]:
    """Murphy's parts over ten bins, and the error of calibration with and without chance."""
    n, base, bins = len(p), outcome.mean(), np.minimum((p * 10).astype(int), 9)
    gaps = spread = debiased = error = 0.0
    for bin in set(bins):
        inside = bins == bin
        size, share = inside.sum(), outcome[inside].mean()
        gap, moved = p[inside].mean() - share, dict.fromkeys(keys, 0.0)
        within = [
            (key, r - share) for key, r, flag in zip(keys, outcome, inside, strict=True) if flag
        ]
        for key, one in within:
            moved[key] += one
        g = len({key for key, _ in within})
        chance = sum(one**2 for one in moved.values()) * g / (g - 1) / size**2 if g > 1 else gap**2
        gaps, spread = gaps + size * gap**2 / n, spread + size * (share - base) ** 2 / n
        error, debiased = error + size * abs(gap) / n, debiased + size * (gap**2 - chance) / n
    score = float(np.square(p - outcome).mean())
    return {
        "n": n, "brier": score, "reliability": float(gaps), "resolution": float(spread),
        "uncertainty": float(base * (1 - base)),
        "within": float(score - gaps + spread - base * (1 - base)),
        "error": float(error), "debiased_error": float(max(0.0, debiased) ** 0.5),
        "overconfidence": float(p.mean() - base),
    }  # fmt: skip


def flips(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Shares of worlds that are right or wrong, before and after."""
    sides = {"right": lambda share: share, "wrong": lambda share: 1 - share}
    return {
        f"{before}_{after}": float(np.mean([one(a) * two(b) for a, b in pairs]))
        for before, one in sides.items()
        for after, two in sides.items()
    }


def crossed(parts: Sequence[Any], ends: Ends | None, n: int) -> Figure:
    """`strata` whose members have clusters of one kind or of two kinds that cross."""
    ways = len(parts[0][1][0][0])

    def by(chosen: Sequence[int], ends: Ends | None = None) -> Figure:
        some = [
            (factor, [("/".join(keys[way] for way in chosen), w, v) for keys, w, v in part])
            for factor, part in parts
        ]
        return strata(some, ends, n)

    if ways == 1:
        return by([0], ends)
    alone = [by([way]) for way in range(ways)]
    finest = max(range(ways), key=lambda way: alone[way].clusters)
    sampling, joint = [one.error**2 for one in alone], by([0, 1]).error ** 2
    guard, wide = by([finest], ends), [*sampling]
    wide[finest] = guard.rare[0] ** 2

    def summed(squares: Sequence[float]) -> float:
        # A sum far below the larger part is so by chance.
        total = sum(squares) - joint
        return math.sqrt(total if 4 * total >= max(squares) else max(squares))

    error = summed(sampling)
    larger = ": the larger one-way error" * (error == math.sqrt(max(sampling)))
    return replace(
        guard,
        clusters=min(one.clusters for one in alone),
        error=error,
        degrees=min(one.degrees for one in alone),
        effective=min(one.effective for one in alone),
        rare=(summed(wide), *guard.rare[1:]),
        method=f"CR3 t, crossed{larger}",
    )


def auroc(
    attacks: Sequence[tuple[str, float]], honest: Sequence[tuple[str, float]], sign: float = 1.0
) -> list[Stratum]:
    """The share of pairs that are in order, as placements of both classes. Each run has a cluster
    and a score."""
    wins = np.array([[(np.sign(one - two) + 1) / 2 for _, two in honest] for _, one in attacks])
    above, below = wins.mean(axis=1), wins.mean(axis=0) - wins.mean()
    sides = ((attacks, above), (honest, below))
    return [
        (sign, [(key, 1.0, float(one)) for (key, _), one in zip(side, values, strict=True)])
        for side, values in sides
    ]
