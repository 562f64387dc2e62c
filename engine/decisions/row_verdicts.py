"""Verdicts of all rows, world by world: flips of the judge and bounds of differences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...protocols.scores import RANGES, applicable
from ...protocols.scoring.arrays import Floats, codes_of
from ...protocols.scoring.bounds import bounded, world_bounds
from ...protocols.scoring.estimate import Ends
from ...protocols.scoring.inference import means
from ...protocols.scoring.verdict_measures import Flips
from ...protocols.scoring.worlds import asd_ends
from .rows import RunRows, cluster


@dataclass(frozen=True, slots=True)
class DifferenceBounds:
    """Bounds of the mean ASD of one row minus that of another (Manski 1990)."""

    n: int
    """Questions that both rows ran."""
    low: float
    high: float
    interval: Ends | None
    """95 % interval of the difference that all worlds would have had (Stoye 2009)."""


class RowVerdicts:
    """Outcomes of the worlds of all rows, rows × worlds; a world is one column for all runs."""

    def __init__(self, runs: Sequence[RunRows], score: str) -> None:
        worlds: dict[tuple[str, int, int], int] = {}
        columns = [_columns(run, worlds) for run in runs]
        rows = sum(len(run.sweep.rows) for run in runs)
        questions = {id: n for n, id in enumerate(dict.fromkeys(id for id, _, _ in worlds))}
        self._question = np.array([questions[id] for id, _, _ in worlds])
        groups = {p.id: cluster(p) for run in runs for p in run.sweep.problems}
        self._cluster = codes_of([groups[id] for id in questions])
        """The cluster of each question."""
        self._reach = max(
            float(asd_ends(values, RANGES[score])[1])
            for run in runs
            for values in {p.values for p in run.sweep.problems}
        )
        """The largest ASD that a question can have."""
        self._right: Floats = np.full((rows, len(worlds)), np.nan)
        """Accuracy of the judge, a tie of k answers counting 1 / k; NaN without a verdict."""
        self._low, self._high = self._right.copy(), self._right.copy()
        """Least and most that the world may add to the ASD of its question; NaN if not run."""
        line = 0
        for run, places in zip(runs, columns, strict=True):
            for row in range(len(run.sweep.rows)):
                self._right[line, places] = run.table.judged_right(row)
                self._low[line, places], self._high[line, places] = _ends(run, row, score)
                line += 1

    def flips(self, pairs: Sequence[tuple[int, int]]) -> list[Flips | None]:
        """Flips from the second row to the first, over worlds that both have; None without any."""
        has_verdict = ~np.isnan(self._right)
        right = np.where(has_verdict, self._right, 0.0)
        wrong = np.where(has_verdict, 1 - self._right, 0.0)
        count = has_verdict.astype(np.float64) @ has_verdict.T
        shares = (right @ right.T, right @ wrong.T, wrong @ right.T, wrong @ wrong.T)
        return [
            Flips(*(float(share[two, one] / n) for share in shares))
            if (n := count[one, two])
            else None
            for one, two in pairs
        ]

    def bounds(self, pairs: Sequence[tuple[int, int]]) -> list[DifferenceBounds]:
        """Bounds over the questions that both rows ran. The ends of a difference are differences
        of the rows' ends in each world, so each row is summed once."""
        low, high = (
            np.stack([self._by_question(row) for row in e]) for e in (self._low, self._high)
        )
        differences = []
        for one, two in pairs:
            both = ~(np.isnan(low[one]) | np.isnan(low[two]))
            least, most = low[one, both] - high[two, both], high[one, both] - low[two, both]
            interval = None
            if (most - least).max(initial=0.0) > 1e-9:
                codes = np.unique(self._cluster[both], return_inverse=True)[1]
                width = [end * 2 for end in (-self._reach, self._reach)]
                ends = [(width[0], width[1])] * 2
                interval = bounded(*means([least.tolist(), most.tolist()], codes, ends))
            differences.append(
                DifferenceBounds(int(both.sum()), float(least.mean()), float(most.mean()), interval)
            )
        return differences

    def _by_question(self, row: Floats) -> Floats:
        """Sums over the worlds of each question; NaN where none was run."""
        there = ~np.isnan(row)
        questions = len(self._cluster)
        sums = np.bincount(self._question[there], row[there], questions)
        ran = np.bincount(self._question[there], minlength=questions) > 0
        found: Floats = np.where(ran, sums, np.nan)
        return found


def _columns(run: RunRows, worlds: dict[tuple[str, int, int], int]) -> list[int]:
    """Column of each cell of a row; new worlds are added to `worlds`."""
    index, problems = run.table.cells, run.sweep.problems
    keys = zip(index.problem.tolist(), index.draw.tolist(), index.side.tolist(), strict=True)
    return [
        worlds.setdefault((problems[problem].id, draw, side), len(worlds))
        for problem, draw, side in keys
    ]


def _ends(run: RunRows, row: int, score: str) -> tuple[Floats, Floats]:
    """Least and most that each cell of a row adds to the ASD of its question, equal unless it is in
    doubt. Only draws with all worlds run count."""
    cell_ends: Floats = np.full((2, len(run.table.cells.problem)), np.nan)
    blocks = zip(run.table.worlds(row).blocks, run.table.cells.blocks, strict=True)
    for block, cells in blocks:
        if score in applicable(cells.values.shape[1]):
            ends = np.stack(world_bounds(block.worlds, block.doubtful, score))
            whole = ~np.isnan(ends[0]).any(axis=-1, keepdims=True)
            draws = whole.sum(axis=1, keepdims=True)
            cell_ends[:, cells.cells] = np.where(whole, ends / np.maximum(draws, 1), np.nan)
    return cell_ends[0], cell_ends[1]
