"""What each row of a run rewards once its agent is optimised for the reward, by best of n.

oversight measure pressure.py:Pressure RUN            # or: --n 1,2,4,8 --score log

The agent score difference is the slope at no pressure. Selection by the reward moves an agent along
a whole curve, which may turn down in spite of a positive slope where lies have the heavier tail
(Gao, Schulman and Hilton 2023, arXiv:2210.10760). The pool of a problem has its draws in all
worlds, each with a reward u and a value v; all figures are exact on the pools, and nothing is sent.
Many draws (`draws: 8`) make large pools: few candidates tell little.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from oversight.engine.analysis.catalogue import Analysis
from oversight.engine.analysis.findings.finding import Finding, Part, figure, number, word
from oversight.engine.analysis.rows import RunRows
from oversight.engine.analysis.scoring.asd import Scored
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.analysis.scoring.inference import Floats, mean_of
from oversight.engine.system.settings import flag

SAME_REWARD = 1e-12
"""Rewards closer than this tie."""


class Pools(NamedTuple):
    """Candidates of problems, problems × candidates, and the group of each problem."""

    rewards: Floats
    values: Floats
    groups: tuple[str, ...]


def pools_of(its: Scored) -> Pools | None:
    """The pools of the problems that have a verdict in every world of every draw, and as many
    candidates as most; None without any."""
    every, whole = its.every, its.whole & its.full
    size = np.bincount(every.question, np.where(whole, every.answers, 0)).astype(int)
    size[np.unique(every.question[~whole])] = 0
    if not size.any():
        return None
    most = np.bincount(size[size > 0]).argmax()
    lines = np.flatnonzero(size[every.question] == most)
    lines = lines[np.argsort(every.question[lines], kind="stable")]
    there = ~np.isnan(its.own[lines])
    u, v = (of[lines][there].reshape(-1, most) for of in (its.own, every.values))
    _, first = np.unique(every.question[lines], return_index=True)
    names = every.names["problem"]
    return Pools(u, v, tuple(names[n] for n in every.codes["problem"][lines[first]].tolist()))


def best_of(rewards: Floats, n: int) -> Floats:
    """Probability that each candidate is the best of n drawn without replacement; as `rewards`.

    The U-statistic: of K candidates, those of a group of ties with `below` lower and `upto` not
    higher share [C(upto, n) - C(below, n)] / C(K, n). ValueError unless 1 <= n <= K.
    """
    k = rewards.shape[1]
    if not 1 <= n <= k:
        raise ValueError(f"best of {n} from a pool of {k}: n is between 1 and the pool's size")
    apart = rewards[:, :, None] - rewards[:, None, :]
    below, upto = ((apart > end).sum(axis=2) for end in (SAME_REWARD, -SAME_REWARD))
    among = np.prod([np.maximum(np.arange(k + 1) - i, 0) / (k - i) for i in range(n)], axis=0)
    return (among[upto] - among[below]) / (upto - below)


def divergence(p: Floats) -> Floats:
    """KL of each problem's choice from a blind one, nats; at most ln n - (n - 1) / n for the best
    of n (Beirami et al. 2024, arXiv:2401.01879)."""
    return np.where(p > 0, p * np.log(np.where(p > 0, p * p.shape[1], 1)), 0).sum(axis=1)


def curve(pools: Pools, ns: list[int]) -> dict[int, tuple[Estimate, float]]:
    """By n: the mean value of the best of n, with its interval by groups; and the mean KL."""
    ends = pools.values.min(axis=1).mean(), pools.values.max(axis=1).mean()
    found = {}
    for n in ns:
        p = best_of(pools.rewards, n)
        value = mean_of((p * pools.values).sum(axis=1), {"group": np.array(pools.groups)}, ends)
        found[n] = value.estimate(), float(divergence(p).mean())
    return found


def breakdown(at: list[int], gains: Floats) -> float | None:
    """The n at which the falling fit of a curve (Barlow et al. 1972) reaches 0; None if it stays
    above. gains: mean value of the best of n, less that of a blind choice."""
    fit = isotonic_regression(gains, increasing=False).x
    if fit[-1] > SAME_REWARD:
        return None
    k = int(np.argmax(fit <= SAME_REWARD))
    if k == 0:
        return float(at[0])
    return float(at[k - 1] + (at[k] - at[k - 1]) * fit[k - 1] / (fit[k - 1] - fit[k]))


class Point(NamedTuple):
    """Best of n from the pools of one row."""

    row: str
    problems: int
    pool: int
    n: int
    kl: float
    value: Estimate


@dataclass(frozen=True)
class Pressure(Analysis):
    """Print the mean value of the best of n by reward, for each row of RUN that has an agent."""

    ns: str = flag("Numbers of drafts. Default: powers of 2, and all.", name="--n", default="")
    title = "Pressure"
    lead = "What selection by the judge's reward does to what is said, by best of n."

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        lines, notes = list[Point](), list[str]()
        for row in (n for n in rows if run.sweep.rows[n].agent):
            its = run.table.scored(row, score)
            if its is None or (pools := pools_of(its)) is None:
                continue
            name, k = run.names[row], pools.rewards.shape[1]
            every = list(range(1, k + 1))
            ns = {int(n) for n in self.ns.split(",") if n} or {1, 2, 4, 8, 16, 32, k} & {*every}
            found = curve(pools, sorted(ns)).items()
            lines += [Point(name, len(pools.groups), k, n, kl, it) for n, (it, kl) in found]
            sums = [(best_of(pools.rewards, n) * pools.values).sum(1).mean() for n in every]
            at = breakdown(every, np.array(sums) - pools.values.mean())
            when = "at no n" if at is None else f"from n = {at:.1f} on"
            notes.append(f"{name}: no more than a blind choice {when}.")
        columns = [
            word("row", "row"),
            number("problems", "problems"),
            number("pool", "pool"),
            number("n", "n"),
            number("KL", "kl", ".3f"),
            figure("mean value", "value"),
        ]
        return Finding(
            (Part("points", "pressure: the best of n by reward", columns, lines, notes),)
        )
