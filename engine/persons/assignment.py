"""Who is to judge which transcript, where all of them are known before the first rater comes."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oversight.protocols.question import randomness

NEVER = 1e9
"""The cost of a second transcript of one problem; all others together cost less."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """What of a task must not meet in one rater, and what each rater is to have equally much of."""

    problem: str
    kind: Hashable
    """Of the transcript, such as its row and the worth of what is argued in it. Never sent."""


def balanced_assignment(
    tasks: Mapping[str, TaskKind],
    raters: Sequence[str],
    taken: Mapping[str, str] | None = None,
    *,
    seed: int = 0,
) -> dict[str, str]:
    """A rater for each task: no two tasks of a problem to one rater, all raters as much to do, and
    of each kind as many as can be.

    taken: task -> rater of those that were given before; they stay, and count. What no rater may
    have any more has none. Problem by problem, in seeded order, by the cheapest matching.
    """
    from scipy.optimize import linear_sum_assignment

    given = dict(taken or {})
    load: Counter[str] = Counter(given.values())
    had = Counter((rater, tasks[task].kind) for task, rater in given.items() if task in tasks)
    by_problem: defaultdict[str, list[str]] = defaultdict(list)
    for task, about in tasks.items():
        by_problem[about.problem].append(task)
    found = {task: rater for task, rater in given.items() if task in tasks}
    for problem in sorted(by_problem, key=lambda p: randomness(seed, p, "assignment").random()):
        busy = {given[task] for task in by_problem[problem] if task in given}
        free = sorted(task for task in by_problem[problem] if task not in given)
        chance = randomness(seed, problem, "ties")
        cost = np.array(
            [
                [
                    NEVER
                    if rater in busy
                    # Of sums of squares the step: loads first, then kinds, then chance.
                    else 1e3 * load[rater] + had[rater, tasks[task].kind] + 0.1 * chance.random()
                    for rater in raters
                ]
                for task in free
            ]
        ).reshape(len(free), len(raters))
        for row, column in zip(*linear_sum_assignment(cost), strict=True):
            if cost[row, column] < NEVER:
                task, rater = free[int(row)], raters[int(column)]
                found[task] = rater
                load[rater] += 1
                had[rater, tasks[task].kind] += 1
    return found
