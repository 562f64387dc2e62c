"""Where the noise of a score comes from: problems, draws of the debate, draws of the verdict.

Analysis of variance with everything crossed and balanced (Searle, Casella and McCulloch 1992,
chapter 3). It says what to buy next: more problems, more debates, or more verdicts.

A note on the bootstrap: resampling problems with all of their draws kept has the right variance,
(between + within / K) / n. Resampling draws again inside each problem adds within (K - 1) / (n K^2)
to it, and is too wide (Davison and Hinkley 1997, section 3.8).
"""

from dataclasses import dataclass

import numpy as np

from oversight.protocols.scoring.arrays import Floats


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of a problem's truth, of a draw around it, and of a verdict on one draw."""

    problems: int
    draws: int
    verdicts: int
    between: float
    """Over problems."""
    within: float
    """Over draws of one problem; with a single verdict a draw, those of the verdict included."""
    verdict: float = 0.0
    """Over verdicts on one draw."""

    @property
    def error(self) -> float:
        """Variance of the mean over new problems, draws and verdicts."""
        return self.between / self.problems + self.rerun

    @property
    def rerun(self) -> float:
        """Variance of the mean when the same problems are run again."""
        each = self.within + self.verdict / self.verdicts
        return each / (self.problems * self.draws)

    @property
    def reliability(self) -> float | None:
        """Share of the spread of measured problem scores that is theirs; None without spread."""
        noise = (self.within + self.verdict / self.verdicts) / self.draws
        return self.between / (self.between + noise) if self.between + noise else None

    def error_with(self, problems: int, draws: int, verdicts: int = 1) -> float:
        """Variance of the mean with so many problems, draws of each, and verdicts on each draw."""
        drawn = self.within + self.verdict / verdicts
        return (self.between + drawn / draws) / problems


def one_way(scores: Floats) -> Components:
    """Components of scores, problems × draws. ValueError without two of each."""
    n, k = scores.shape
    _at_least_two(problems=n, draws=k)
    within = float(scores.var(axis=1, ddof=1).mean())
    between = max(0.0, float(scores.mean(axis=1).var(ddof=1)) - within / k)
    return Components(n, k, 1, between, within)


def nested(scores: Floats) -> Components:
    """Components of scores, problems × draws × verdicts on the draw. ValueError without two of
    each."""
    n, k, j = scores.shape
    _at_least_two(problems=n, draws=k, verdicts=j)
    of_draw = scores.mean(axis=2)
    of_problem = of_draw.mean(axis=1)
    e = float(np.square(scores - of_draw[:, :, None]).sum()) / (n * k * (j - 1))
    b = j * float(np.square(of_draw - of_problem[:, None]).sum()) / (n * (k - 1))
    a = k * j * float(np.square(of_problem - of_problem.mean()).sum()) / (n - 1)
    return Components(n, k, j, max(0.0, (a - b) / (k * j)), max(0.0, (b - e) / j), e)


def rerun_variance(scores: Floats, *, seed: int = 0, resamples: int = 2_000) -> float:
    """Variance of the mean over reruns of the same problems, by resampling draws within problems.

    scores: problems × draws. Each resampled deviation counts K / (K - 1) in its square: a resample
    of K draws varies by that much less than K new ones.
    """
    n, k = scores.shape
    _at_least_two(draws=k)
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    for each in range(resamples):
        means[each] = np.take_along_axis(scores, rng.integers(k, size=(n, k)), axis=1).mean()
    return float(means.var() * k / (k - 1))


def _at_least_two(**counts: int) -> None:
    for name, count in counts.items():
        if count < 2:
            raise ValueError(f"variance components need at least two {name}, and there is {count}")
