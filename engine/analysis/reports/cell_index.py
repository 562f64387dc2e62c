"""Where the cells of a row stand in a sweep, as arrays: problem by problem, draw by draw, in answer
order. Every row numbers its cells alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...sweep.grid import Grid
from ..scoring.arrays import Flags, Floats, Places


@dataclass(frozen=True, slots=True, eq=False)
class CellBlock:
    """The cells of problems with equally many answers."""

    problems: Places
    cells: Places
    """Problems × draws × worlds."""
    values: Floats
    """Problems × answers."""


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
    def blocks(self) -> tuple[CellBlock, ...]:
        """All cells, by how many answers their problem has."""
        found = []
        for answers in np.unique(self.answers).tolist():
            problems = np.flatnonzero(self.answers == answers)
            within = np.arange(self._sweep.draws * answers).reshape(self._sweep.draws, answers)
            cells: Places = np.array(self.starts)[problems][:, None, None] + within
            values = np.array([self._sweep.problems[n].values for n in problems], np.float64)
            found.append(CellBlock(problems, cells, values))
        return tuple(found)

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
        best = np.zeros((len(self.answers), max(self.answers)), dtype=np.bool_)
        for n, problem in enumerate(self._sweep.problems):
            best[n, : len(problem.values)] = np.equal(problem.values, max(problem.values))
        return best

    @cached_property
    def truth(self) -> Flags:
        """Whether each cell argues for a best answer."""
        return self.best[self.problem, self.side]

    @cached_property
    def value(self) -> Floats:
        """The value of the answer argued for in each cell."""
        found: Floats = np.empty(len(self.problem))
        for block in self.blocks:
            found[block.cells] = block.values[:, None]
        return found
