"""Clipped lines of ratings over capability: straight, level below a corner, above one, or both.

As in Engels et al. (2025, arXiv:2504.18530), y = clip(a x + b, low, high). A line that is level
left of x0 and right of x1 is c + a · clip(x, x0, x1), which is linear in c and a: only the corners
are searched for. The forms are weighed by AICc (Hurvich and Tsai 1989), not chosen between.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oversight.protocols.scoring.arrays import Floats

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
    inf = math.inf
    fitted: list[tuple[float, tuple[float, float, float, float]]] = []
    for left, right in itertools.product((False, True), repeat=2):
        corners = [
            (a, b)
            for a, b in itertools.product(inner if left else (-inf,), inner if right else (inf,))
            if a < b
        ]
        parameters = 3 + left + right
        if n - parameters - 1 <= 0:
            continue
        fits = [(_least(x, y, errors, *corner), corner) for corner in corners]
        (rest, _), corner = min(fits, key=lambda each: each[0][0])
        if left or right:
            corner = _refined(x, y, errors, corner)
            rest = min(rest, _least(x, y, errors, *corner)[0])
        _, (slope, intercept) = _least(x, y, errors, *corner)
        aic = n * math.log(max(rest, 1e-300) / n) + 2 * parameters
        aicc = aic + 2 * parameters * (parameters + 1) / (n - parameters - 1)
        fitted.append((aicc, (slope, intercept, *corner)))
    best = min(aicc for aicc, _ in fitted)
    weights = [math.exp((best - aicc) / 2) for aicc, _ in fitted]
    lines = [
        ClippedLine(*line, aicc, weight / sum(weights))
        for (aicc, line), weight in zip(fitted, weights, strict=True)
    ]
    return tuple(sorted(lines, key=lambda line: line.aicc))


def averaged(lines: Sequence[ClippedLine], x: float) -> float:
    """Mean of the forms at x, weighted by their AICc weights."""
    return sum(line.weight * line.at(x) for line in lines)


def _least(
    x: Floats, y: Floats, errors: Floats, left: float, right: float
) -> tuple[float, tuple[float, float]]:
    """Weighted residual squares of the best line with these corners; its slope and intercept."""
    held, w = np.clip(x, left, right), errors**-2.0
    mean_x, mean_y = float((w * held).sum() / w.sum()), float((w * y).sum() / w.sum())
    u = held - mean_x
    spread = float((w * u * u).sum())
    slope = float((w * u * y).sum()) / spread if spread > 0 else 0.0
    intercept = mean_y - slope * mean_x
    return float((w * np.square(y - slope * held - intercept)).sum()), (slope, intercept)


def _refined(
    x: Floats, y: Floats, errors: Floats, corner: tuple[float, float]
) -> tuple[float, float]:
    from scipy.optimize import minimize

    free = [at for at in corner if math.isfinite(at)]

    def corners(at: Floats) -> tuple[float, float]:
        left_is_free = math.isfinite(corner[0])
        left = float(at[0]) if left_is_free else -math.inf
        return left, float(at[-1]) if math.isfinite(corner[1]) else math.inf

    def loss(at: Floats) -> float:
        left, right = corners(at)
        return _least(x, y, errors, left, right)[0] if left < right else math.inf

    minimum = minimize(loss, np.array(free), method="Nelder-Mead", options={"xatol": 1e-6})
    better = corners(np.asarray(minimum.x))
    return better if better[0] < better[1] else corner
