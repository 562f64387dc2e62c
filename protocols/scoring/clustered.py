"""Clustered standard errors and intervals of means, valid for few clusters too.

Notation: n questions in G clusters, s_i the score of a question, m the mean of all,
e_c = sum over i in c of (s_i - m) the residual of cluster c, n_c its number of questions.

    CR1   V = G / (G - 1) * sum over c of e_c^2 / n^2         (Liang and Zeger 1986; the clustered
          standard error of Miller 2024, arXiv:2411.00640, with the correction for few clusters)
    CR3   V = (G - 1) / G * sum over c of (m without c - m)^2, the jackknife
          (MacKinnon, Nielsen and Webb 2023, Journal of Econometrics 232)

Both with t quantiles. For clusters of one size G - 1 degrees of freedom are exact; for unequal
ones we take one less than the effective number of clusters, n^2 / sum over c of n_c^2.

Arrays: `sums` and `sizes` have one line a cluster; `sums` may have columns, one a measure.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .arrays import Floats
from .quantiles import LEVEL, t_of

Codes = npt.NDArray[np.int64]

FEW_CLUSTERS = 20
"""Effective clusters below which an interval is doubtful."""


def codes(keys: Sequence[Hashable]) -> Codes:
    """Cluster keys as whole numbers from 0, in the order of their first question."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64)


def by_cluster(values: npt.ArrayLike, of: Codes) -> tuple[Floats, Floats]:
    """Sums and sizes of the clusters. values: questions, or questions × measures."""
    table = np.asarray(values, dtype=np.float64)
    sizes = np.bincount(of).astype(np.float64)
    sums = np.zeros((len(sizes), *table.shape[1:]))
    np.add.at(sums, of, table)
    return sums, sizes


def effective(sizes: Floats) -> float:
    """Effective number of clusters, the equally large ones worth as much: n^2 / sum of n_c^2."""
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def degrees(sizes: Floats) -> int:
    """Degrees of freedom of a clustered standard error; at least 1."""
    # Clusters of one size must not lose a degree to rounding.
    return max(1, int(effective(sizes) + 1e-9) - 1)


def residuals(sums: Floats, sizes: Floats) -> Floats:
    """e_c, each cluster's sum minus its size times the mean."""
    mean: Floats = sums.sum(axis=0) / sizes.sum()
    shares: Floats = np.multiply.outer(sizes, mean)
    return sums - shares


def cr1(sums: Floats, sizes: Floats) -> Floats:
    """CR1 variance of the mean, one per measure. ValueError for a single cluster."""
    g = _cluster_count(sizes)
    spread: Floats = np.square(residuals(sums, sizes)).sum(axis=0)
    return spread * (g / (g - 1) / float(sizes.sum()) ** 2)


def cr3(sums: Floats, sizes: Floats) -> Floats:
    """CR3 (jackknife) variance of the mean, one per measure. ValueError for a single cluster."""
    g = _cluster_count(sizes)
    away: Floats = np.square(without_each(sums, sizes)).sum(axis=0)
    return away * ((g - 1) / g)


def without_each(sums: Floats, sizes: Floats) -> Floats:
    """Change of the mean when each cluster is left out in turn."""
    rest = sizes.sum() - sizes
    moved: Floats = -(residuals(sums, sizes).T / rest).T
    return moved


@dataclass(frozen=True, slots=True)
class FewClusters:
    """Diagnostics of a clustered interval: few clusters, or one that dominates."""

    effective: float
    most_moved: float
    """Largest change of the mean when one cluster is left out, in standard errors."""

    @property
    def doubtful(self) -> bool:
        return self.effective < FEW_CLUSTERS or self.most_moved > 1


def few_clusters(sums: Floats, sizes: Floats) -> FewClusters:
    """Diagnostics of one measure: whether a few clusters decide its mean."""
    error = float(np.sqrt(cr1(sums, sizes)))
    moved = float(np.abs(without_each(sums, sizes)).max())
    return FewClusters(effective(sizes), moved / error if error else 0.0)


def t_interval(sums: Floats, sizes: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """CR3 interval of the mean with t quantiles, low and high, one per measure.

    Coverage in 2,000 simulations with normal effects of 10 clusters: 95 % where they are of one
    size; see docs/statistics.md for the others.
    """
    mean = sums.sum(axis=0) / sizes.sum()
    reach = t_of(level, degrees(sizes)) * np.sqrt(cr3(sums, sizes))
    return mean - reach, mean + reach


@dataclass(frozen=True, slots=True)
class DesignEffect:
    """Factor by which clustering inflates the variance of a mean."""

    correlation: float
    """Intraclass correlation; at least 0."""
    effect: float
    """1 + (mean size of the others in a question's cluster) × correlation; at least 1."""
    n_effective: float
    """Number of independent questions worth as much."""


def design_effect(values: Floats, of: Codes) -> DesignEffect:
    """Design effect of a clustered sample (Kish 1965), by the analysis-of-variance correlation.

    Mean cluster size is weighted by questions, sum of n_c^2 / n, and so holds for unequal ones.
    If every cluster is a single question the effect is 1.
    """
    sums, sizes = by_cluster(values, of)
    n, g = float(sizes.sum()), len(sizes)
    if g < 2 or n == g:
        return DesignEffect(0.0, 1.0, n)
    means = sums / sizes
    within = float(np.square(values - means[of]).sum()) / (n - g)
    between = float((sizes * np.square(means - values.mean())).sum()) / (g - 1)
    size = (n - float((sizes**2).sum()) / n) / (g - 1)
    total = between + (size - 1) * within
    rho = min(1.0, max(0.0, (between - within) / total)) if total else 0.0
    effect = 1 + (float((sizes**2).sum()) / n - 1) * rho
    return DesignEffect(rho, effect, n / effect)


def _cluster_count(sizes: Floats) -> int:
    if len(sizes) < 2:
        raise ValueError("a single cluster shows no variation: a standard error needs two")
    return len(sizes)
