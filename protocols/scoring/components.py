"""Where the noise of a score comes from: problems, draws of the debate, draws of the verdict.

Analysis of variance with everything nested and balanced (Searle, Casella and McCulloch 1992,
chapter 3). It says what to buy next: more problems, more debates, or more verdicts.

A note on the bootstrap: resampling problems with all of their draws kept has the right variance,
(between + within / K) / n. Resampling draws again inside each problem adds within (K - 1) / (n K^2)
to it, and is too wide (Davison and Hinkley 1997, section 3.8).
"""

from dataclasses import dataclass

import numpy as np

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.clustered import Codes
from oversight.protocols.scoring.quantiles import NORMAL, t_of
from oversight.protocols.scoring.statistics import LEVEL

CHUNK = 500
"""Resamples made at once."""


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of a problem's truth, of a draw around it, and of a verdict on one draw."""

    problems: int
    draws: int
    verdicts: int
    between: float
    """Over problems; with a single draw of each, that of the draw included."""
    within: float
    """Over draws of one problem; with a single verdict a draw, that of the verdict included."""
    verdict: float = 0.0
    """Over verdicts on one draw."""

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
        """Share of the spread of measured problem scores that is theirs; None without spread."""
        noise = self.rerun * self.problems
        return self.between / (self.between + noise) if self.between + noise else None

    def error_with(
        self, problems: int, draws: int, verdicts: int = 1, design_effect: float = 1.0
    ) -> float:
        """Variance of the mean with so many problems, draws of each, and verdicts on each draw.

        design_effect: of clusters of problems.
        """
        drawn = self.within + self.verdict / verdicts
        return (design_effect * self.between + drawn / draws) / problems


def components(scores: Floats) -> Components:
    """Components of scores, problems × draws × verdicts on the draw.

    What there is one of cannot be told from what it is nested in, and counts as that. ValueError
    without two problems, or where there is one draw and one verdict of each.
    """
    n, k, j = _shape(scores)
    means, of_draws, of_verdicts = _squares(scores)
    found = _solved(float(means.var(ddof=1)), of_draws.mean(), of_verdicts.mean(), k, j)
    return Components(n, k, j, *map(float, found))


def component_intervals(
    scores: Floats, of: Codes, *, seed: int = 0, resamples: int = 2_000, level: float = LEVEL
) -> tuple[tuple[float, float], ...]:
    """Intervals of between, within and verdict, by resampling clusters of problems.

    of: the cluster of each problem. Quantiles as far out as t is beyond the normal distribution
    (Hesterberg 2015). ValueError as `components`, and with a single cluster.
    """
    _, k, j = _shape(scores)
    means, of_draws, of_verdicts = _squares(scores)
    clusters = int(of.max()) + 1
    if clusters < 2:
        raise ValueError("intervals of variance components need two clusters of problems")
    # All that a resample needs of a cluster: how many problems, and the sums of four figures.
    told = np.stack([np.ones_like(means), means, means**2, of_draws, of_verdicts])
    sums = np.stack([np.bincount(of, row, clusters) for row in told])
    rng = np.random.default_rng(seed)
    drawn = np.empty((3, resamples))
    for start in range(0, resamples, CHUNK):
        stop = min(start + CHUNK, resamples)
        size, one, square, draws, verdicts = (
            sums @ rng.multinomial(clusters, np.full(clusters, 1 / clusters), stop - start).T
        )
        # A resample varies by (G - 1) / G as much as new clusters would.
        spread = (square / size - (one / size) ** 2) * clusters / (clusters - 1)
        drawn[:, start:stop] = _solved(spread, draws / size, verdicts / size, k, j)
    tail = NORMAL.cdf(-t_of(level, clusters - 1) * (clusters / (clusters - 1)) ** 0.5)
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=1)
    return tuple(zip(low.tolist(), high.tolist(), strict=True))


def _squares(scores: Floats) -> tuple[Floats, Floats, Floats]:
    """Of each problem the mean, the variance of its draws, and that of the verdicts on them."""
    of_draw = scores.mean(axis=2)
    _, k, j = scores.shape
    draws = of_draw.var(axis=1, ddof=1) if k > 1 else np.zeros(len(scores))
    verdicts = scores.var(axis=2, ddof=1).mean(axis=1) if j > 1 else np.zeros(len(scores))
    return of_draw.mean(axis=1), draws, verdicts


def _solved(
    spread: Floats | float, draws: Floats | float, verdicts: Floats | float, k: int, j: int
) -> tuple[Floats, Floats, Floats]:
    """between, within, verdict: each mean square less what is nested in it."""
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
