"""A linear mixed model with crossed random effects, by REML: a check beside clustered errors.

    y = X beta + sum over ways of Z_w u_w + e,   u_w ~ N(0, s_w^2), e ~ N(0, s^2)

It shows how much of the variance judges and texts have; unlike clustered errors it is right only if
effects are normal and alike in all settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Floats
from .inference import Keys


@dataclass(frozen=True, slots=True)
class Mixed:
    """The fit: means by the columns of the design, and variances by way."""

    coefficients: tuple[float, ...]
    errors: tuple[float, ...]
    variances: Mapping[str, float]
    residual: float


def mixed_model(y: Floats, design: Floats, ways: Mapping[str, Keys]) -> Mixed:
    """Fit by restricted maximum likelihood. design: observations × columns, of full rank.

    ValueError for a design that does not determine its coefficients.
    """
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import minimize

    n, k = design.shape
    if np.linalg.matrix_rank(design) < k:
        raise ValueError("the settings do not determine the means of the mixed model")
    groups = []
    for keys in ways.values():
        of = np.unique(keys, return_inverse=True)[1]
        groups.append((of[:, None] == of[None, :]).astype(np.float64))

    def parts(ratios: Floats) -> tuple[float, Any, Any, float]:
        """-2 times the restricted log likelihood, the means, their covariance, the residual."""
        v = np.eye(n) + sum(
            (ratio**2 * group for ratio, group in zip(ratios, groups, strict=True)),
            np.zeros((n, n)),
        )
        factor = cholesky(v, lower=True, check_finite=False)
        both = np.column_stack((design, y))
        both = solve_triangular(factor, both, lower=True, check_finite=False)
        x, z = both[:, :k], both[:, k]
        information = x.T @ x
        beta = np.linalg.solve(information, x.T @ z)
        left = z - x @ beta
        residual = float(left @ left) / (n - k)
        likelihood = (
            2 * float(np.log(np.diag(factor)).sum())
            + float(np.linalg.slogdet(information)[1])
            + (n - k) * float(np.log(residual))
        )
        return likelihood, beta, np.linalg.inv(information) * residual, residual

    def minus(ratios: Any) -> float:
        return parts(ratios)[0]

    # In standard deviations relative to the residual's, which may reach 0 from either side.
    start: Floats = np.full(len(groups), 0.3, np.float64)
    found = minimize(minus, start, method="Nelder-Mead", tol=1e-3)
    _, beta, covariance, residual = parts(found.x)
    variances = {
        name: float(ratio**2 * residual) for name, ratio in zip(ways, found.x, strict=True)
    }
    errors = np.sqrt(np.diag(covariance))
    return Mixed(tuple(beta.tolist()), tuple(errors.tolist()), variances, residual)
