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
from .estimate import Ends, Estimate

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
    beta = root @ (q.T @ asd)
    ways = {"problem": problem, "pair of models": pair}
    both = np.unique(problem * (int(pair.max()) + 1) + pair, return_inverse=True)[1]
    parts = [_jackknife(q, asd, of) for of in (problem, pair, both)]
    errors = [np.sqrt(np.diag(root @ part @ root.T)) for part in parts[:2]]
    crossed = np.diag(root @ (parts[0] + parts[1] - parts[2]) @ root.T)
    g = min(int(of.max()) + 1 for of in (problem, pair))
    terms = []
    for k, value in enumerate(beta.tolist()):
        one_way = {name: float(error[k]) for name, error in zip(ways, errors, strict=True)}
        # A sum below one way alone is so by chance.
        error = max(math.sqrt(max(0.0, float(crossed[k]))), *one_way.values())
        determined = math.isfinite(error)
        terms.append(
            Estimate(
                value,
                len(asd),
                g,
                error if determined else None,
                value,
                g - 1,
                error if determined else 0.0,
                method="CR3 t, crossed",
                ways=tuple(ways),
                reason="" if determined else "undetermined without some pair of models",
                errors=one_way,
            )
        )
    return Surface(tuple(terms))


def _jackknife(q: Floats, y: Floats, of: Places) -> Floats:
    """CR3 covariance of the coefficients on an orthonormal design q, by refits without each
    cluster; infinite if some cluster is needed to determine them."""
    g, k = int(of.max()) + 1, q.shape[1]
    squares, products = np.zeros((g, k, k)), np.zeros((g, k))
    np.add.at(squares, of, q[:, :, None] * q[:, None, :])
    np.add.at(products, of, q * y[:, None])
    whole = q.T @ y
    rest = np.eye(k) - squares
    if np.linalg.cond(rest).max() > 1e9:
        return np.full((k, k), np.inf)
    moved = np.linalg.solve(rest, (whole - products)[:, :, None])[:, :, 0] - whole
    found: Floats = moved.T @ moved * ((g - 1) / g)
    return found


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
