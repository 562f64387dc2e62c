"""Variance components of a score: between problems, draws of the debate, and verdicts on a draw.

Balanced nested analysis of variance (Searle, Casella and McCulloch 1992, chapter 3). It tells
whether to buy more problems, more debates, or more verdicts.

They have no interval: a variance rests on the largest deviations, and where errors are rare a
sample may hold none. No interval that we tried covers .9 there (docs/statistics.md).
"""

from dataclasses import dataclass

import numpy as np

from .arrays import Floats, Places, by_cluster


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
