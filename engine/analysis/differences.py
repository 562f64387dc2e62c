"""Statistics of two rows other than their difference: flips of the judge, bounds, ranks,
outliers, and how two runs are not the same instrument."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...cache.call import value_address
from ...protocols.scores import TIE
from ..errors import UsageError
from ..run.reader import Place
from .rows import RunRows
from .scoring.agreement import Flips, flips
from .scoring.asd import bounded
from .scoring.contrasts import RankSet, contrasts, rank_sets, shared_samples
from .scoring.estimate import Ends, Interval
from .scoring.inference import ErrorKind, Floats, Influences, codes_of, estimates, together

Extremes = tuple[Influences, Influences] | None
"""Least and most ASD of the questions of a row."""


@dataclass(frozen=True, slots=True)
class DifferenceBounds:
    """Bounds of the difference between the mean ASD of two rows (Manski 1990)."""

    n: int
    """Questions that both rows ran."""
    low: float
    high: float
    interval: Ends | None
    """95 % interval of the difference that all worlds would have had (Stoye 2009)."""


def flips_between(runs: Sequence[RunRows], pairs: Sequence[tuple[int, int]]) -> list[Flips | None]:
    """Flips from the second row of each pair to the first, over worlds that both have; None without
    any. Rows are numbered through, one run after the other; a world is one for all runs."""
    worlds: dict[tuple[str, int, int], int] = {}
    columns = []
    for run in runs:
        index, problems = run.table.cells, run.sweep.problems
        keys = zip(index.problem.tolist(), index.draw.tolist(), index.side.tolist(), strict=True)
        columns.append([worlds.setdefault((problems[p].id, *w), len(worlds)) for p, *w in keys])
    right: Floats = np.full((sum(len(run.names) for run in runs), len(worlds)), np.nan)
    line = 0
    for run, places in zip(runs, columns, strict=True):
        for row in range(len(run.names)):
            right[line, places] = run.table.judged_right(row)
            line += 1
    every = []
    for one, two in pairs:
        both = ~np.isnan(right[one] + right[two])
        every.append(flips(right[two, both], right[one, both]) if both.any() else None)
    return every


class ChangedProblem(NamedTuple):
    """A problem on which matching rows of two runs differ."""

    id: str
    row: str
    places: tuple[Place, Place]
    """Its transcripts, one of each run."""
    sides: str
    """How the judge's verdict changed from the second run to the first; empty if it did not."""
    difference: float
    first: float
    second: float


def changed_problems(
    first: RunRows, second: RunRows, pairs: Sequence[tuple[int, int]], score: str
) -> list[ChangedProblem]:
    """Problems on which the judge changed sides in some world, then others; the largest change of
    ASD first. pairs: a row of the first run, and one of the second."""
    runs, problems = (first, second), []
    values = [run.asd_by_problem(score) for run in runs]
    at = [{problem.id: n for n, problem in enumerate(run.sweep.problems)} for run in runs]
    for rows in pairs:
        ours, theirs = (_verdicts(run, row) for run, row in zip(runs, rows, strict=True))
        changed = [world for world in ours.keys() & theirs if ours[world] != theirs[world]]
        sides: dict[str, set[str]] = {}
        for world in changed:
            change = "wrong → right" if ours[world] else "right → wrong"
            sides.setdefault(world[0], set()).add(change)
        for id in at[0].keys() & at[1]:
            one, two = (float(values[n][at[n][id], row]) for n, row in enumerate(rows))
            if abs(one - two) > TIE or (id in sides and one == two):
                places = Place(rows[0], at[0][id]), Place(rows[1], at[1][id])
                change, name = ", ".join(sorted(sides.get(id, ()))), first.names[rows[0]]
                problems.append(ChangedProblem(id, name, places, change, one - two, one, two))
    return sorted(problems, key=lambda one: (not one.sides, -abs(one.difference), one.id, one.row))


def _verdicts(run: RunRows, row: int) -> dict[tuple[str, int, int], bool]:
    """By problem, repeat and world, whether the judge is right."""
    cells, right = run.table.cells, run.table.judged_right(row)
    worlds = zip(cells.problem.tolist(), cells.draw.tolist(), cells.side.tolist(), strict=True)
    every = zip(worlds, right.tolist(), strict=True)
    return {(run.sweep.problems[p].id, *at): r > 0.5 for (p, *at), r in every if r == r}


def difference_bounds(first: Extremes, second: Extremes) -> DifferenceBounds | None:
    """Bounds over the questions that both rows ran; None without any. Each end sets the failed and
    doubtful worlds of both rows to their extremes."""
    if not (first and second):
        return None
    low, high = first[0].less(second[1]), first[1].less(second[0])
    if not (low and high and low.questions):
        return None
    least, most = estimates((low, high))
    fixed = float(np.max(high.values - low.values)) <= 1e-9
    interval = None if fixed else bounded(least, most)
    return DifferenceBounds(low.n, least.value, most.value, interval)


MAX_DIFFERENT = 3


def ranks_of(
    samples: Mapping[str, Influences], error: ErrorKind = "cr3", interval: Interval = "t"
) -> tuple[RankSet, ...]:
    """Rank sets over the problems that all rows have; () for fewer than two clusters of them."""
    try:
        return rank_sets(contrasts(shared_samples(samples), error=error, interval=interval))
    except ValueError:
        return ()


def swayed(apart: Influences) -> bool:
    """Whether leaving out some one cluster moves the difference by more than its standard error."""
    codes = codes_of(apart.ways["problem"].tolist())
    share = np.bincount(codes) / len(codes)
    moved = np.abs(np.bincount(codes, apart.psi) / (1 - share)).max()
    return bool(moved > (apart.estimate().error or 0.0) * (1 + 1e-9) > 0)


def most_apart(apart: Influences) -> tuple[tuple[str, float], ...]:
    """The questions on which two rows differ most, with the difference."""
    by_size = sorted(
        zip(apart.questions, apart.values.tolist(), strict=True),
        key=lambda one: (-abs(one[1]), one[0]),
    )
    return tuple(one for one in by_size[:MAX_DIFFERENT] if abs(one[1]) > TIE)


@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's test of paired outcomes of 0 and 1."""

    first: int
    """Questions that the first row alone has right."""
    second: int
    exact_p: float
    mid_p: float
    """The mid-p value (Fagerland, Lydersen and Laake 2013)."""


def mcnemar(first: Influences, second: Influences) -> McNemar | None:
    """None if a value is not 0 or 1, or if a group has two questions."""
    one, two = first.alike(second)
    rows = together({"first": one, "second": two})
    if len({*rows.keys.tolist()}) < len(rows.keys) or not np.isin(rows.values, (0.0, 1.0)).all():
        return None
    b, c = (int((rows.values[n] > rows.values[1 - n]).sum()) for n in (0, 1))
    n = b + c
    term = total = 1  # whole numbers, so that nothing is rounded before the division
    for k in range(min(b, c)):
        term = term * (n - k) // (k + 1)
        total += term
    exact = min(1.0, 2 * total / 2**n)
    return McNemar(b, c, exact, exact - term / 2 ** (n + (b == c)) if n else 1.0)


def instrument_notes(
    first: RunRows, second: RunRows, pairs: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """One note per difference of two runs, rows apart. UsageError if they share no problem."""
    ours = {problem.id: problem for problem in first.sweep.problems}
    theirs = {problem.id: problem for problem in second.sweep.problems}
    shared = [id for id in ours if id in theirs]
    if not shared:
        raise UsageError(
            f"{first.folder} and {second.folder} share no problem: compare runs of one data set"
        )
    head = "not the same instrument"
    other = [id for id in shared if value_address(ours[id]) != value_address(theirs[id])]
    if other:
        yield (
            f"{head}: {len(other):,} of {len(shared):,} shared problems have other texts, answers "
            f"or values, {other[0]} for one."
        )
    if len(shared) < max(len(ours), len(theirs)):
        yield (
            f"{len(shared):,} problems are in both runs; {len(ours):,} in the first, "
            f"{len(theirs):,} in the second."
        )
    codes = {run.sweep.code for run in (first, second)} - {""}
    if len(codes) > 1:
        yield f"{head}: the code that composes calls and reads replies differs."
    both = [(first.sweep.rows[one], second.sweep.rows[two]) for one, two in pairs]
    judges = {(a.judge, b.judge) for a, b in both if a.judge_address != b.judge_address}
    for one, two in sorted(judges):
        settings = ", with other settings" * (one == two)
        yield f"{head}: judge {one} in one, {two} in the other{settings}."
    endpoints = first.sweep.identities
    for model, identity in second.sweep.identities.items():
        if endpoints.get(model, identity) != identity:
            yield f"{head}: {model} is {endpoints[model]} in one, {identity} in the other."
