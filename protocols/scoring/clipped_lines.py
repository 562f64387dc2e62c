"""Clipped lines of ratings over capability: straight, level below a corner, above one, or both.

As in Engels et al. (2025, arXiv:2504.18530), y = clip(a x + b, low, high). A line that is level
left of x0 and right of x1 is c + a · clip(x, x0, x1), which is linear in c and a: only the corners
are searched for. The forms are weighed by AICc (Hurvich and Tsai 1989), not chosen between.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from .arrays import Floats

CORNERS = 60
"""Grid points for each corner over the range of x, before the best is refined."""


@dataclass(frozen=True, slots=True)
class ClippedLine:
    """y = slope · clip(x, left, right) + intercept."""

    slope: float
    intercept: float
    left: float
    """y is level below this; minus infinity if it never is."""
    right: float
    """y is level above this; infinity if it never is."""
    aicc: float
    weight: float
    """Akaike weight of this form among those fitted; the weights sum to 1."""

    @property
    def form(self) -> str:
        level = [
            side for side, at in (("below", self.left), ("above", self.right)) if math.isfinite(at)
        ]
        return "level " + " and ".join(level) if level else "line"

    def at(self, x: float) -> float:
        return self.slope * min(max(x, self.left), self.right) + self.intercept


def clipped_lines(x: Floats, y: Floats, errors: Floats) -> tuple[ClippedLine, ...]:
    """Fits of the four forms, the likeliest first. errors: standard errors of y.

    A form is left out if there are too few points for its AICc. ValueError for fewer than five
    points, or for all at one x.
    """
    n = len(x)
    if n < 5:
        raise ValueError(f"a line with its corners needs five points, and there are {n}")
    if not np.ptp(x):
        raise ValueError("all points have the same capability: no line goes through them")
    inner = np.linspace(x.min(), x.max(), CORNERS + 2)[1:-1]
    fitted: list[tuple[float, tuple[float, float, float, float]]] = []
    for has_left, has_right in itertools.product((False, True), repeat=2):
        parameters = 3 + has_left + has_right
        if n - parameters - 1 <= 0:
            continue
        lefts = inner if has_left else [-math.inf]
        rights = inner if has_right else [math.inf]
        corners = np.array([(a, b) for a, b in itertools.product(lefts, rights) if a < b])
        rests, _, _ = _least(x, y, errors, corners)
        corner = corners[rests.argmin()]
        if has_left or has_right:
            corner = _refined(x, y, errors, corner)
        rest, slope, intercept = (float(each[0]) for each in _least(x, y, errors, corner[None]))
        rest = min(rest, float(rests.min()))
        aic = n * math.log(max(rest, 1e-300) / n) + 2 * parameters
        aicc = aic + 2 * parameters * (parameters + 1) / (n - parameters - 1)
        left, right = corner.tolist()
        fitted.append((aicc, (slope, intercept, left, right)))
    best = min(aicc for aicc, _ in fitted)
    weights = [math.exp((best - aicc) / 2) for aicc, _ in fitted]
    lines = [
        ClippedLine(*line, aicc, weight / sum(weights))
        for (aicc, line), weight in zip(fitted, weights, strict=True)
    ]
    return tuple(sorted(lines, key=lambda line: line.aicc))


def _least(x: Floats, y: Floats, errors: Floats, corners: Floats) -> tuple[Floats, Floats, Floats]:
    """Weighted residual squares, slope and intercept of the best line with each pair of corners.

    corners: pairs × 2.
    """
    held, w = np.clip(x, corners[:, [0]], corners[:, [1]]), errors**-2.0
    mean_x, mean_y = (w * held).sum(axis=1) / w.sum(), (w * y).sum() / w.sum()
    u = held - mean_x[:, None]
    spread = (w * u * u).sum(axis=1)
    slope = np.divide((w * u * y).sum(axis=1), spread, out=0 * spread, where=spread > 0)
    intercept = mean_y - slope * mean_x
    left = y - slope[:, None] * held - intercept[:, None]
    return (w * np.square(left)).sum(axis=1), slope, intercept


def _refined(x: Floats, y: Floats, errors: Floats, corner: Floats) -> Floats:
    """The corner pair with the least residual squares near `corner`; infinite ones stay."""
    from scipy.optimize import minimize

    free = np.isfinite(corner)

    def moved(at: Floats) -> Floats:
        corners = corner.copy()
        corners[free] = at
        return corners

    def loss(at: Floats) -> float:
        corners = moved(at)
        if corners[0] >= corners[1]:
            return math.inf
        return float(_least(x, y, errors, corners[None])[0][0])

    minimum = minimize(loss, corner[free], method="Nelder-Mead", options={"xatol": 1e-6})
    better = moved(np.asarray(minimum.x))
    return better if better[0] < better[1] else corner
