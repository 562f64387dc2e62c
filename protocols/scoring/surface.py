"""Regression of ASD on the capabilities of agent and judge, and the gap at which lift crosses 0.

    ASD(a, j) = b0 + b1 j - b2 a + b3 j a

by least squares over problems and cells. Problems and pairs of models are crossed clusters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Floats, Places
from .crossing import Crossing, crossing
from .inference import Ends, Estimate, Influences

TERMS = ("level", "judge", "agent", "judge x agent")


@dataclass(frozen=True, slots=True)
class Surface:
    """Coefficients in the order of `TERMS`; the agent's is the loss of ASD per unit, b2 above."""

    terms: tuple[Estimate, ...]

    def at(self, agent: float, judge: float) -> float:
        level, by_judge, by_agent, by_both = (term.value for term in self.terms)
        return level + by_judge * judge - by_agent * agent + by_both * judge * agent


def surface(asd: Floats, agent: Floats, judge: Floats, problem: Places, pair: Places) -> Surface:
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
    influences = design * (asd - design @ beta)[:, None] @ inverse
    ways = {"problem": problem, "pair of models": pair}
    return Surface(
        tuple(
            Influences(float(value), psi, ways).estimate()
            for value, psi in zip(beta, influences.T, strict=True)
        )
    )


def breakdown_gap(
    gaps: Sequence[float], lifts: Floats, of: Places, ends: Ends | None = None
) -> Crossing:
    """Gap, agent's capability minus the judge's, at which lift crosses 0.

    gaps: of the cells, in any order; lifts: problems × cells. Cells with the same gap are averaged.
    """
    points = sorted(set(gaps))
    cells = [np.flatnonzero(np.isclose(gaps, point)) for point in points]
    curves = np.stack([lifts[:, each].mean(axis=1) for each in cells], axis=1)
    return crossing(points, curves, of, ends)


def own_axis(accuracy: float, n: float) -> tuple[float, float]:
    """Capability on the logit scale from an unaided accuracy over n questions, and its error.

    Half a question is added to right and wrong, so that a perfect score is finite (Haldane 1956).
    """
    right, wrong = accuracy * n + 0.5, (1 - accuracy) * n + 0.5
    return math.log(right / wrong), math.sqrt(1 / right + 1 / wrong)
