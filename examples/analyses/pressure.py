"""What each row of a run rewards once its agent is optimised for the reward, by best of n.

oversight export tables RUN --format jsonl -o tables
python pressure.py tables            # or: pressure.py tables 1,2,4,8 log

The agent score difference is the slope at no pressure. Selection by the reward moves an agent along
a whole curve, which may turn down in spite of a positive slope where lies have the heavier tail
(Gao, Schulman and Hilton 2023, arXiv:2210.10760). The pool of a problem has its draws in all
worlds, each with a reward u and a value v; all figures are exact on the pools, and nothing is sent.
Many draws (`draws: 8`) make large pools: few candidates tell little.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from oversight.engine.analysis.findings.finding import estimated
from oversight.engine.analysis.scoring.arrays import Floats
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.analysis.scoring.inference import mean_of

SAME_REWARD = 1e-12
"""Rewards closer than this tie."""


class Pools(NamedTuple):
    """Candidates of problems, problems × candidates, and the group of each problem."""

    rewards: Floats
    values: Floats
    groups: tuple[str, ...]


def pools_of(cells: list[dict], score: str = "brier") -> dict[str, Pools]:
    """The pools of each row that has an agent. Problems with a world that has no verdict, or with
    another number of candidates than most, are left out."""
    found = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell["agent"]:
            name = " · ".join((cell["protocol"], cell["agent"], cell["judge"]))
            found[name][cell["problem"], cell["group"] or cell["problem"]].append(cell)
    pools = {}
    for name, problems in found.items():
        whole = {at: all(c["status"] == "ok" for c in its) for at, its in problems.items()}
        sizes = Counter(len(its) for at, its in problems.items() if whole[at])
        if sizes:
            size = sizes.most_common(1)[0][0]
            kept = {at: its for at, its in problems.items() if whole[at] and len(its) == size}
            u, v = (
                np.array([[c[k] for c in its] for its in kept.values()]) for k in (score, "value")
            )
            pools[name] = Pools(u, v, tuple(group for _, group in kept))
    return pools


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


if __name__ == "__main__":
    folder, chosen, score = (*sys.argv[1:], *("", "", "brier")[len(sys.argv) - 1 :])
    lines = (Path(folder) / "cells.jsonl").read_bytes().splitlines()
    for name, pools in pools_of([json.loads(line) for line in lines], score).items():
        k = pools.rewards.shape[1]
        every = list(range(1, k + 1))
        means = [(best_of(pools.rewards, n) * pools.values).sum(axis=1).mean() for n in every]
        at = breakdown(every, np.array(means) - pools.values.mean())
        print(f"{name}: {len(pools.groups)} problems, pools of {k}")
        ns = {int(n) for n in chosen.split(",") if n} or {1, 2, 4, 8, 16, 32, k} & {*every}
        for n, (value, kl) in curve(pools, sorted(ns)).items():
            print(f"  n {n:3}   KL {kl:.3f}   mean value {estimated(value)}")
        print(
            "  no more than a blind choice:", "at no n" if at is None else f"from n = {at:.1f} on"
        )
