"""Elo-like ratings of overseers (Guards) and overseen models (Houdinis), with intervals.

The link of Engels, Baek, Kantamneni and Tegmark (2025, arXiv:2504.18530) is

    P(g beats h) = 1 / (1 + 10^((H_h - G_g) / 400)),

with two ratings for each model, one per role. They fit all games as independent; our intervals are
those of the jackknife over problems, each left out with all pairs that played on it. A ridge, a
normal prior of standard deviation 1,000 on each rating, keeps the rating of a model that always won
finite; such a rating is only a bound, and is marked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Floats, Places, by_cluster
from .estimate import Estimate
from .inference import jackknifed

SCALE = math.log(10) / 400
"""Nats of log odds in one point of rating."""

RIDGE = 1_000.0
"""Standard deviation of the normal prior of a rating, in points."""
ANCHOR = 1_000.0
"""Mean of all ratings."""
MOST_GROUPS = 200
"""Most groups of problems left out in turn."""


@dataclass(frozen=True, slots=True)
class Games:
    """Games won and played on each problem.

    ValueError for shapes that disagree, impossible counts, or models not connected by games.
    """

    guards: tuple[str, ...]
    houdinis: tuple[str, ...]
    wins: Floats
    """Games that the guard won, problems × guards × houdinis."""
    played: Floats
    """Games played, of the same shape."""
    of: Places
    """The cluster of each problem."""

    def __post_init__(self) -> None:
        shape = (len(self.of), len(self.guards), len(self.houdinis))
        if self.wins.shape != shape or self.played.shape != shape:
            raise ValueError(f"wins {self.wins.shape}, played {self.played.shape}, not {shape}")
        if not ((self.wins >= 0) & (self.wins <= self.played)).all():
            raise ValueError("a pair won more games than it played, or fewer than none")
        if len(parts := _components(self.played.sum(axis=0))) > 1:
            named = "; ".join(
                ", ".join([*(self.guards[g] for g in gs), *(self.houdinis[h] for h in hs)])
                for gs, hs in parts
            )
            raise ValueError(f"models that never met, directly or through others: {named}")


@dataclass(frozen=True, slots=True)
class Rating:
    """Rating of a model in one role."""

    model: str
    estimate: Estimate
    bounded: bool
    """Whether it won all of its games, or lost all: the rating is then only a bound."""

    @property
    def rating(self) -> float:
        return self.estimate.value

    @property
    def above(self) -> Estimate:
        """Points above the mean of all ratings: they are relative to each other."""
        return self.estimate.moved(-ANCHOR)


@dataclass(frozen=True, slots=True)
class Ratings:
    """Ratings of all models in both roles; their overall mean is the anchor."""

    guards: tuple[Rating, ...]
    houdinis: tuple[Rating, ...]
    without: Floats
    """Ratings without each group of problems, groups × (guards, then houdinis)."""


def ratings(games: Games) -> Ratings:
    """Ratings with jackknife intervals over clusters of problems."""
    counts = _left_out(games, MOST_GROUPS)
    fitted = fit(_summed(games.wins, games.of, counts), _summed(games.played, games.of, counts))
    wins, played = games.wins.sum(axis=0), games.played.sum(axis=0)
    share = np.concatenate([wins.sum(axis=axis) / played.sum(axis=axis) for axis in (1, 0)])
    n = len(games.of)
    each = [
        Rating(name, jackknifed(value, without, n), bool(won in (0, 1)))
        for name, value, without, won in zip(
            (*games.guards, *games.houdinis),
            fitted[0].tolist(),
            fitted[1:].T,
            share.tolist(),
            strict=True,
        )
    ]
    m = len(games.guards)
    return Ratings(tuple(each[:m]), tuple(each[m:]), fitted[1:])


def fit(wins: Floats, played: Floats, anchor: float = ANCHOR) -> Floats:
    """Maximum of the ridged likelihood by Newton's method, for many tables at once.

    wins, played: tables × guards × houdinis. Returns tables × (guards, then houdinis).
    """
    tables, m, n = wins.shape
    theta = np.zeros((tables, m + n))
    ridge = (SCALE * RIDGE) ** -2
    diagonal = np.arange(m + n)
    # In nats. The ridge makes the likelihood strictly concave, so Newton's method only needs a
    # bound on the length of its steps.
    for _ in range(100):
        p = 1 / (1 + np.exp(theta[:, None, m:] - theta[:, :m, None]))
        left, w = wins - played * p, played * p * (1 - p)
        gradient = np.concatenate((left.sum(axis=2), -left.sum(axis=1)), axis=1) - ridge * theta
        hessian = np.zeros((tables, m + n, m + n))
        hessian[:, :m, m:] = -w
        hessian[:, m:, :m] = -w.transpose(0, 2, 1)
        hessian[:, diagonal, diagonal] = np.concatenate((w.sum(axis=2), w.sum(axis=1)), axis=1)
        hessian[:, diagonal, diagonal] += ridge
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        theta += np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-10:
            break
    points: Floats = theta / SCALE
    points += anchor - points.mean(axis=1, keepdims=True)
    return points


def _left_out(games: Games, most: int) -> Floats:
    """Weight of each cluster: 1 in the first line; in each other, 0 for one group of clusters.

    Beyond `most` clusters, groups of them are left out (the delete-a-group jackknife).
    """
    g = int(games.of.max()) + 1
    groups = min(g, most)
    weights = np.ones((groups + 1, g))
    weights[1 + np.arange(g) % groups, np.arange(g)] = 0
    return weights


def _summed(table: Floats, of: Places, counts: Floats) -> Floats:
    sums, _ = by_cluster(table.reshape(len(table), -1), of)
    return (counts @ sums).reshape(len(counts), *table.shape[1:])


def _components(played: Floats) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Connected components of the graph of games: guards and houdinis of each."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    m, n = played.shape
    g, h = np.nonzero(played)
    graph = coo_array((np.ones(len(g)), (g, h + m)), shape=(m + n, m + n))
    count, label = connected_components(graph, directed=False)
    return [
        (np.flatnonzero(label[:m] == k).tolist(), np.flatnonzero(label[m:] == k).tolist())
        for k in range(count)
    ]
