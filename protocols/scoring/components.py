"""Variance components of a score: between problems, draws of the debate, and verdicts on a draw.

Balanced nested analysis of variance (Searle, Casella and McCulloch 1992, chapter 3). It tells
whether to buy more problems, more debates, or more verdicts.

A note on the bootstrap: resampling problems with all of their draws kept has the right variance,
(between + within / K) / n. Resampling draws again inside each problem adds within (K - 1) / (n K^2)
to it, and is too wide (Davison and Hinkley 1997, section 3.8).
"""

from dataclasses import dataclass

import numpy as np

from .arrays import Floats
from .clustered import Codes
from .quantiles import LEVEL, NORMAL, t_of

CHUNK = 500
"""Resamples drawn at once."""


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of a problem's true score, of a draw around it, and of a verdict on one draw."""

    problems: int
    draws: int
    verdicts: int
    between: float
    """Variance over problems; with a single draw of each, includes that over draws."""
    within: float
    """Variance over draws of a problem; with one verdict per draw, includes that over verdicts."""
    verdict: float = 0.0
    """Variance over verdicts on one draw."""

    @property
    def error(self) -> float:
        """Variance of the mean over new problems, draws and verdicts."""
        return self.error_with(self.problems, self.draws, self.verdicts)

    @property
    def rerun(self) -> float:
        """Variance of the mean when the same problems are run again."""
        each = self.within + self.verdict / self.verdicts
        return each / (self.problems * self.draws)

    @property
    def reliability(self) -> float | None:
        """Share of the variance of measured problem scores that is not noise; None without any."""
        noise = self.rerun * self.problems
        return self.between / (self.between + noise) if self.between + noise else None

    def error_with(
        self, problems: int, draws: int, verdicts: int = 1, design_effect: float = 1.0
    ) -> float:
        """Variance of the mean for these numbers of problems, draws of each, and verdicts per draw.

        design_effect: of the clustering of problems.
        """
        drawn = self.within + self.verdict / verdicts
        return (design_effect * self.between + drawn / draws) / problems


def components(scores: Floats) -> Components:
    """Variance components of scores, problems × draws × verdicts per draw.

    The variance of a level with a single unit cannot be separated from that of the level above, and
    counts there. ValueError for fewer than two problems, or for a single draw and verdict of each.
    """
    n, k, j = _shape(scores)
    means, of_draws, of_verdicts = _squares(scores)
    solved = _solved(float(means.var(ddof=1)), of_draws.mean(), of_verdicts.mean(), k, j)
    return Components(n, k, j, *map(float, solved))


def component_intervals(
    scores: Floats, of: Codes, *, seed: int = 0, resamples: int = 2_000
) -> tuple[tuple[float, float], ...]:
    """Intervals of between, within and verdict, by resampling clusters of problems.

    of: the cluster of each problem. The quantiles are widened as far as t exceeds the normal
    distribution (Hesterberg 2015). ValueError as for `components`, and for a single cluster.
    """
    _, k, j = _shape(scores)
    means, of_draws, of_verdicts = _squares(scores)
    clusters = int(of.max()) + 1
    if clusters < 2:
        raise ValueError("intervals of variance components need two clusters of problems")
    # Sufficient for a resample: each cluster's number of problems, and its sums of four figures.
    figures = np.stack([np.ones_like(means), means, means**2, of_draws, of_verdicts])
    sums = np.stack([np.bincount(of, row, clusters) for row in figures])
    rng = np.random.default_rng(seed)
    drawn = np.empty((3, resamples))
    for start in range(0, resamples, CHUNK):
        stop = min(start + CHUNK, resamples)
        size, one, square, draws, verdicts = (
            sums @ rng.multinomial(clusters, np.full(clusters, 1 / clusters), stop - start).T
        )
        # The variance of resampled clusters is (G - 1) / G times that of new ones.
        spread = (square / size - (one / size) ** 2) * clusters / (clusters - 1)
        drawn[:, start:stop] = _solved(spread, draws / size, verdicts / size, k, j)
    tail = NORMAL.cdf(-t_of(LEVEL, clusters - 1) * (clusters / (clusters - 1)) ** 0.5)
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=1)
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def _squares(scores: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean of each problem, variance of its draws, and variance of the verdicts on them."""
    of_draw = scores.mean(axis=2)
    _, k, j = scores.shape
    draws = of_draw.var(axis=1, ddof=1) if k > 1 else np.zeros(len(scores))
    verdicts = scores.var(axis=2, ddof=1).mean(axis=1) if j > 1 else np.zeros(len(scores))
    return of_draw.mean(axis=1), draws, verdicts


def _solved(
    spread: Floats | float, draws: Floats | float, verdicts: Floats | float, k: int, j: int
) -> tuple[Floats, Floats, Floats]:
    """between, within, verdict: each mean square minus the part from the level nested in it."""
    noise = draws if k > 1 else verdicts / j
    within = np.maximum(0.0, draws - verdicts / j) if k > 1 else np.zeros_like(draws)
    return np.maximum(0.0, spread - noise / k), within, np.asarray(verdicts, dtype=np.float64)


def _shape(scores: Floats) -> tuple[int, int, int]:
    n, k, j = scores.shape
    if n < 2 or k * j < 2:
        raise ValueError(
            f"variance components need two problems, and two draws or verdicts of each: there are "
            f"{n} problems, {k} draws and {j} verdicts"
        )
    return n, k, j
