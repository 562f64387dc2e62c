"""Where the cells of a row stand in a sweep, as arrays: problem by problem, draw by draw, in answer
order. Every row numbers its cells alike."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...sweep.grid import Grid
from ..scoring.arrays import Flags, Floats, Places


class CellIndex:
    """The cells of any row of a sweep, numbered from 0."""

    def __init__(self, sweep: Grid) -> None:
        self._sweep = sweep
        sizes = self.answers * sweep.draws
        self.starts: Sequence[int] = (np.cumsum(sizes) - sizes).tolist()
        """The first cell of each problem."""

    def places(self, row: int) -> Places:
        """The place in the sweep of each cell of a row."""
        rows, problem = len(self._sweep.rows), self.problem
        answers = self.answers[problem]
        start = np.array(self.starts)[problem]
        places: Places = start * rows + (self.draw * rows + row) * answers + self.side
        return places

    @cached_property
    def answers(self) -> Places:
        """How many answers each problem has."""
        return np.array([len(problem.values) for problem in self._sweep.problems])

    @cached_property
    def labels(self) -> tuple[dict[str, int], ...]:
        """The place of each answer by its label, problem by problem."""
        return tuple(
            {answer.label: place for place, answer in enumerate(problem.question.answers)}
            for problem in self._sweep.problems
        )

    @cached_property
    def worlds(self) -> tuple[Places, Flags]:
        """The cells of each draw of a problem, draws × the most answers that a problem has; and
        which of them there are."""
        first = np.flatnonzero(self.side == 0)
        there = np.arange(self.answers.max()) < self.answers[self.problem[first]][:, None]
        return np.where(there, first[:, None] + np.arange(there.shape[1]), first[:, None]), there

    @cached_property
    def values(self) -> Floats:
        """The values of the answers, problems × answers; NaN beyond them."""
        found: Floats = np.full((len(self.answers), max(self.answers)), np.nan)
        for n, problem in enumerate(self._sweep.problems):
            found[n, : len(problem.values)] = problem.values
        return found

    @cached_property
    def problem(self) -> Places:
        """The problem of each cell."""
        return np.repeat(np.arange(len(self.answers)), self.answers * self._sweep.draws)

    @cached_property
    def draw(self) -> Places:
        """The draw of each cell."""
        within: Places = np.arange(len(self.problem)) - np.array(self.starts)[self.problem]
        found: Places = within // self.answers[self.problem]
        return found

    @cached_property
    def side(self) -> Places:
        """The place of the answer argued for in each cell."""
        within: Places = np.arange(len(self.problem)) - np.array(self.starts)[self.problem]
        found: Places = within % self.answers[self.problem]
        return found

    @cached_property
    def best(self) -> Flags:
        """Which answers of each problem are the most valuable ones: problems × answers."""
        best: Flags = self.values == np.nanmax(self.values, axis=1, keepdims=True)
        return best

    @cached_property
    def truth(self) -> Flags:
        """Whether each cell argues for a best answer."""
        return self.best[self.problem, self.side]
