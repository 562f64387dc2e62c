"""Regression of ASD on the capabilities of agent and judge, and the gap at which lift crosses 0.

    ASD(a, j) = b0 + b1 j - b2 a + b3 j a

by least squares over problems and cells. Errors are clustered two ways: V by problem + V by pair
of models - V by both (Cameron, Gelbach and Miller 2011).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Floats
from .clustered import Codes, by_cluster
from .crossing import Crossing, crossing

TERMS = ("level", "judge", "agent", "judge x agent")


@dataclass(frozen=True, slots=True)
class Surface:
    """Coefficients in the order of `TERMS`; the agent's is the loss of ASD per unit, b2 above."""

    coefficients: tuple[float, ...]
    errors: tuple[float, ...]

    def at(self, agent: float, judge: float) -> float:
        level, by_judge, by_agent, by_both = self.coefficients
        return level + by_judge * judge - by_agent * agent + by_both * judge * agent


def surface(asd: Floats, agent: Floats, judge: Floats, problem: Codes, pair: Codes) -> Surface:
    """Fit the surface; one observation is a problem under one agent and judge.

    problem, pair: the cluster of the problem, and the pair of models. ValueError if the points
    (agent, judge) do not determine the coefficients; that takes at least four.
    """
    design = np.column_stack((np.ones(len(asd)), judge, -agent, judge * agent))
    if np.linalg.matrix_rank(design) < 4:
        raise ValueError(
            "these agents and judges leave the surface undetermined: it needs at least two "
            "capabilities of each, crossed"
        )
    # QR: capabilities near 1,000 and their product make the normal equations ill-conditioned.
    q, r = np.linalg.qr(design)
    root = np.linalg.inv(r)
    inverse = root @ root.T
    beta = root @ (q.T @ asd)
    scores = design * (asd - design @ beta)[:, None]
    both = np.unique(problem * (int(pair.max()) + 1) + pair, return_inverse=True)[1]
    of_problem, of_pair, crossed = (_meat(scores, of) for of in (problem, pair, both))
    ways = [np.diag(inverse @ meat @ inverse) for meat in (of_problem, of_pair)]
    combined = sum(ways) - np.diag(inverse @ crossed @ inverse)
    # The sum may by chance fall below either one-way variance; the larger of those is then used.
    errors = np.sqrt(np.maximum(combined, np.maximum(*ways)))
    return Surface(tuple(beta.tolist()), tuple(errors.tolist()))


def breakdown_gap(
    gaps: Sequence[float], lifts: Floats, of: Codes, *, seed: int = 0, resamples: int = 500
) -> Crossing:
    """Gap, agent's capability minus the judge's, at which lift crosses 0.

    gaps: of the cells, in any order; lifts: problems × cells. Cells with the same gap are averaged.
    """
    points = sorted(set(gaps))
    cells = [np.flatnonzero(np.isclose(gaps, point)) for point in points]
    curves = np.stack([lifts[:, each].mean(axis=1) for each in cells], axis=1)
    return crossing(points, curves, of, seed=seed, resamples=resamples)


def own_axis(accuracy: float, n: float) -> tuple[float, float]:
    """Capability on the logit scale from an unaided accuracy over n questions, and its error.

    Half a question is added to right and wrong, so that a perfect score is finite (Haldane 1956).
    """
    right, wrong = accuracy * n + 0.5, (1 - accuracy) * n + 0.5
    return math.log(right / wrong), math.sqrt(1 / right + 1 / wrong)


def _meat(scores: Floats, of: Codes) -> Floats:
    sums, sizes = by_cluster(scores, of)
    g = len(sizes)
    return sums.T @ sums * (g / max(g - 1, 1))
