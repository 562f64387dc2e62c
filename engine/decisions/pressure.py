"""Selection pressure on the rows of a run: pools of draws, value curves and breakdown points."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ...protocols.scoring.crossing import Crossing, crossing
from ...protocols.scoring.pressure import (
    Point,
    Pools,
    best_of_n,
    tilt,
    value_curves,
)
from ..errors import UsageError
from .rows import RunRows

SelectionMethod: TypeAlias = Literal["bon", "tilt"]

TILTS = (0.0, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class RowPressure:
    """Value of one row under rising selection pressure."""

    name: str
    pool: int
    """Candidates per problem: its draws in all worlds."""
    problems: int
    left_out: int
    """Problems whose pool is incomplete, or of another size."""
    points: tuple[Point, ...]
    breakdown: Crossing
    """The n at which the value of best-of-n falls to that of a blind choice."""


def row_pools(run: RunRows, row: int, score: str) -> tuple[Pools, int]:
    """Pools of the problems with a verdict in every world of every draw, and the number left out.

    If problems differ in their number of answers, only those with the most frequent number count.
    UsageError if no problem is complete.
    """
    blocks = [
        (block, whole)
        for block in run.table.worlds(row).admitting(score)
        if (whole := block.whole.all(axis=1)).any()
    ]
    if not blocks:
        raise UsageError(
            f"{run.names[row]}: no problem has a verdict in every world of every draw: no pool"
        )
    block, whole = max(blocks, key=lambda each: int(each[1].sum()))
    rewards = block.worlds.agent_scores(score)[whole]
    values = np.broadcast_to(block.worlds.values, block.doubtful.shape)[whole]
    problems = [run.sweep.problems[n] for n in block.questions[whole]]
    pools = Pools(
        tuple(problem.id for problem in problems),
        tuple(problem.group for problem in problems),
        rewards.reshape(len(problems), -1),
        values.reshape(len(problems), -1),
    )
    return pools, len(run.sweep.problems) - len(problems)


def row_pressure(
    run: RunRows,
    row: int,
    *,
    select: SelectionMethod = "bon",
    strengths: Sequence[float] | None = None,
    score: str = "brier",
    seed: int = 0,
) -> RowPressure:
    """Pressure curve of a row. strengths: n of best-of-n, or beta of the tilt; None for defaults.

    UsageError without a complete pool, or for an n beyond its size.
    """
    pools, left_out = row_pools(run, row, score)
    k = pools.rewards.shape[1]
    if select == "bon":
        ns = doubled(k) if strengths is None else [int(n) for n in strengths]
        if outside := [n for n in ns if not 1 <= n <= k]:
            raise UsageError(
                f"--n {outside[0]}: the pools of {run.names[row]} have {k} candidates (draws × "
                "answers): n is between 1 and that; more draws make larger pools"
            )
        points = best_of_n(pools, ns, seed=seed)
    else:
        points = tilt(pools, TILTS if strengths is None else strengths, seed=seed)
    grid = dense(k)
    blind = pools.values.mean(axis=1, keepdims=True)
    curves = value_curves(pools, grid) - blind
    breakdown = crossing([float(n) for n in grid], curves, run.clusters(pools.problems), seed=seed)
    return RowPressure(run.names[row], k, len(pools.problems), left_out, points, breakdown)


def dense(k: int) -> list[int]:
    """Every n up to 32, then in steps of 10 % up to the pool size k: the grid for the crossing."""
    ns = list(range(1, min(k, 32) + 1))
    while ns[-1] < k:
        ns.append(min(k, round(ns[-1] * 1.1)))
    return ns


def doubled(k: int) -> list[int]:
    """1, 2, 4, … and the pool size k."""
    ns = [2**e for e in range(k.bit_length()) if 2**e <= k]
    return ns if ns[-1] == k else [*ns, k]
