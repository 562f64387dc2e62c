"""Verdicts of all rows, world by world: flips of the judge and bounds of differences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...protocols.scores import applicable
from ...protocols.scoring.arrays import Floats
from ...protocols.scoring.bounds import world_bounds
from ...protocols.scoring.verdict_measures import Flips
from .rows import RunRows


@dataclass(frozen=True, slots=True)
class DifferenceBounds:
    """Bounds of the mean ASD of one row minus that of another (Manski 1990)."""

    n: int
    """Questions that both rows ran."""
    low: float
    high: float


class RowVerdicts:
    """Outcomes of the worlds of all rows, rows × worlds; a world is one column for all runs."""

    def __init__(self, runs: Sequence[RunRows], score: str) -> None:
        worlds: dict[tuple[str, int, int], int] = {}
        columns = [_columns(run, worlds) for run in runs]
        rows = sum(len(run.sweep.rows) for run in runs)
        questions = {id: n for n, id in enumerate(dict.fromkeys(id for id, _, _ in worlds))}
        self._question = np.array([questions[id] for id, _, _ in worlds])
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
        questions = int(self._question.max()) + 1
        member = np.zeros((len(self._question), questions))
        member[np.arange(len(self._question)), self._question] = 1
        ran = ~np.isnan(self._low)
        low = np.where(ran, self._low, 0.0) @ member
        high = np.where(ran, self._high, 0.0) @ member
        ran_question = ran @ member > 0
        differences = []
        for one, two in pairs:
            both = ran_question[one] & ran_question[two]
            n = int(both.sum())
            least = float((low[one, both] - high[two, both]).sum() / n)
            most = float((high[one, both] - low[two, both]).sum() / n)
            differences.append(DifferenceBounds(n, least, most))
        return differences


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
