"""Verdicts of all rows, world by world: flips of the judge and bounds of differences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .rows import RunRows
from .scoring.arrays import Floats, codes_of
from .scoring.asd import bounded
from .scoring.estimate import Ends, ends_apart
from .scoring.inference import Influences, means
from .scoring.verdict_measures import Flips

Extremes = tuple[Influences, Influences] | None
"""Least and most ASD of the questions of a row."""


@dataclass(frozen=True, slots=True)
class DifferenceBounds:
    """Bounds of the mean ASD of one row minus that of another (Manski 1990)."""

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
    there = (~np.isnan(right)).astype(np.float64)
    right, wrong = np.nan_to_num(right), np.nan_to_num(1 - right)
    count = there @ there.T
    shares = (right @ right.T, right @ wrong.T, wrong @ right.T, wrong @ wrong.T)
    return [
        Flips(*(float(share[two, one] / n) for share in shares)) if (n := count[one, two]) else None
        for one, two in pairs
    ]


def difference_bounds(
    rows: Sequence[Extremes], pairs: Sequence[tuple[int, int]]
) -> list[DifferenceBounds]:
    """Bounds over the questions that both rows of a pair ran. Each end sets the failed and doubtful
    worlds of both rows to their extremes."""
    clusters = {
        id: cluster
        for least in (row[0] for row in rows if row)
        for id, cluster in zip(least.questions, least.ways["problem"].tolist(), strict=False)
    }
    of = codes_of(list(clusters.values()))
    place = {id: n for n, id in enumerate(clusters)}
    low, high = np.full((2, len(rows), len(place)), np.nan)
    for n, row in enumerate(rows):
        if row and row[0].questions:
            at = [place[id] for id in row[0].questions]
            low[n, at], high[n, at] = row[0].values, row[1].values
    found = []
    for one, two in pairs:
        both = ~(np.isnan(low[one]) | np.isnan(low[two]))
        if not both.any():
            found.append(DifferenceBounds(0, np.nan, np.nan, None))
            continue
        least, most = low[one, both] - high[two, both], high[one, both] - low[two, both]
        interval, first, second = None, rows[one], rows[two]
        if first and second and (most - least).max(initial=0.0) > 1e-9:
            codes = np.unique(of[both], return_inverse=True)[1]
            ends = [ends_apart(first[0].ends, second[0].ends)] * 2
            interval = bounded(*means([least.tolist(), most.tolist()], codes, ends))
        found.append(
            DifferenceBounds(int(both.sum()), float(least.mean()), float(most.mean()), interval)
        )
    return found
