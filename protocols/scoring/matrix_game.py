"""Debate as a game: what two pools of speeches are worth when both sides choose freely.

In simultaneous debate, a pool of drafts on either side and one verdict for each pair make a
zero-sum matrix game (von Neumann 1928). Rows belong to the side that is paid the entry; columns to
the side that pays it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from oversight.protocols.scoring.arrays import Floats


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """A pair of optimal mixed strategies."""

    value: float
    rows: tuple[float, ...]
    columns: tuple[float, ...]


def solve(payoff: Floats) -> Equilibrium:
    """Value and optimal strategies, by linear programmes. ValueError for an empty matrix."""
    if not payoff.size:
        raise ValueError("a game needs a strategy on either side")
    value, rows = _maximin(payoff)
    _, columns = _maximin(-payoff.T)
    return Equilibrium(value, tuple(rows.tolist()), tuple(columns.tolist()))


def gold_range(payoff: Floats, gold: Floats) -> tuple[float, float]:
    """The lowest and the highest mean of `gold` that equilibria of the game leave possible.

    All equilibria pair any optimal row strategy with any optimal column strategy. The linear
    programme is over joint choices whose two margins are optimal: it holds every such pair, and is
    exact where one side has a single optimal strategy.
    """
    from scipy.optimize import linprog

    m, n = payoff.shape
    value = solve(payoff).value
    slack = 1e-9 * max(1.0, float(np.abs(payoff).max()))
    # Row margins x earn at least the value against each column; column margins y pay at most it.
    rows = -np.repeat(payoff.T, n, axis=1)
    columns = np.tile(payoff, (1, m))
    at_most = np.vstack((rows, columns))
    bound = np.concatenate((np.full(n, slack - value), np.full(m, value + slack)))
    ends = []
    for sign in (1, -1):
        found = linprog(
            sign * gold.ravel(),
            A_ub=at_most,
            b_ub=bound,
            A_eq=np.ones((1, m * n)),
            b_eq=[1.0],
            bounds=(0, None),
        )
        if not found.success or found.fun is None:
            raise ValueError(f"the range of the gold value has no solution: {found.message}")
        ends.append(sign * float(found.fun))
    return ends[0], ends[1]


@dataclass(frozen=True, slots=True)
class Exploitability:
    """How much each side could gain by answering best; both are 0 in equilibrium."""

    rows: float
    columns: float

    @property
    def gap(self) -> float:
        return self.rows + self.columns


def exploitability(payoff: Floats, rows: Floats, columns: Floats) -> Exploitability:
    """Of a pair of mixed strategies, such as drafts as they were drawn (uniform)."""
    got = float(rows @ payoff @ columns)
    best, least = float((payoff @ columns).max()), float((rows @ payoff).min())
    return Exploitability(best - got, got - least)


def fictitious_play(payoff: Floats, rounds: int = 10_000) -> tuple[Equilibrium, float]:
    """Strategies that each answer the other's past best (Brown 1951), and how far they are from an
    equilibrium: the value lies within that gap. For games too large for a linear programme."""
    m, n = payoff.shape
    played_rows, played_columns = np.zeros(m), np.zeros(n)
    against_columns, against_rows = np.zeros(m), np.zeros(n)
    for _ in range(rounds):
        row, column = int(against_columns.argmax()), int(against_rows.argmin())
        played_rows[row] += 1
        played_columns[column] += 1
        against_columns += payoff[:, column]
        against_rows += payoff[row]
    x, y = played_rows / rounds, played_columns / rounds
    low, high = float((x @ payoff).min()), float((payoff @ y).max())
    return Equilibrium((low + high) / 2, tuple(x.tolist()), tuple(y.tolist())), high - low


Tree: TypeAlias = "float | Move"


@dataclass(frozen=True, slots=True)
class Move:
    """A node of a debate in turns: who chooses, and what each choice leads to."""

    first: bool
    """Whether the side that is paid the value moves; else the one that pays it."""
    then: Sequence[Tree]


def backward_induction(tree: Tree) -> float:
    """The value of a tree of alternate moves when both sides choose their best at every node."""
    if not isinstance(tree, Move):
        return tree
    if not tree.then:
        raise ValueError("a move without choices: a leaf is a number")
    values = [backward_induction(each) for each in tree.then]
    return max(values) if tree.first else min(values)


def _maximin(payoff: Floats) -> tuple[float, Floats]:
    from scipy.optimize import linprog

    m, n = payoff.shape
    # Maximise w under: x pays at least w against every column.
    found = linprog(
        np.append(np.zeros(m), -1.0),
        A_ub=np.hstack((-payoff.T, np.ones((n, 1)))),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(m), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
    )
    if not found.success or found.x is None:
        raise ValueError(f"the game has no solution: {found.message}")
    x = np.maximum(np.asarray(found.x[:m], dtype=np.float64), 0)
    return float(found.x[m]), x / x.sum()
