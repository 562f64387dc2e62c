"""Secondary measures of a run: answers chosen, what protocols measured, counts, label mass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ...run.outcome import OutcomeRecord
from ...sweep.grid import Grid
from ..scoring.arrays import Flags, Floats
from ..scoring.inference import Influences, of_questions
from .cell_index import CellIndex

MeasureKind: TypeAlias = Literal["choice", "measures", "counts", "captured"]
"""The answer that an open protocol's agent chose, by its place; what the protocol measured; what
was counted in the transcript; the least mass that the answer labels had with a logprob judge."""

DEFAULTS: Mapping[MeasureKind, float] = {
    "choice": np.nan,
    "measures": np.nan,
    "counts": 0,
    "captured": 1,
}
"""The value of a cell whose outcome does not name it."""

SHARE = (0.0, 1.0)
"""The ends of shares and probabilities."""

UNKNOWN_ANSWER = -1
"""The place of a chosen label that no answer of the question has."""


@dataclass(frozen=True, slots=True)
class ByWorld:
    """A mean over problems, by what the agent argues for. None where there is no such cell."""

    kind: MeasureKind
    name: str
    truth: Influences | None
    """Over the worlds of a best answer."""
    lie: Influences | None
    """Over all others."""


class SecondaryMeasures:
    """Arrays of one number per cell, for each row and each thing that its outcomes report.

    The cells of a row are numbered through: problem by problem, draw by draw, in answer order.
    """

    def __init__(self, sweep: Grid, cells: CellIndex) -> None:
        self._sweep = sweep
        self._columns: list[dict[tuple[MeasureKind, str], Floats]] = [{} for _ in sweep.rows]
        self._flags: list[set[str]] = [set() for _ in sweep.rows]
        """Measures that are true or false."""
        self.cells = cells

    def add(self, record: OutcomeRecord, row: int, problem: int) -> None:
        cell = (
            self.cells.starts[problem] + record.draw * len(self.cells.labels[problem]) + record.side
        )
        if record.captured is not None:
            self._column(row, "captured", "captured")[cell] = record.captured
        for name, count in record.counts.items():
            self._column(row, "counts", name)[cell] = count
        for name, count in record.unread.items():
            self._column(row, "counts", f"unread, {name}")[cell] = count
        for name, value in record.measures.items():
            if name == "chose":
                place = self.cells.labels[problem].get(str(value), UNKNOWN_ANSWER)
                self._column(row, "choice", name)[cell] = place
            elif not isinstance(value, str):
                self._column(row, "measures", name)[cell] = value
                if isinstance(value, bool):
                    self._flags[row].add(name)

    def chose_right(self, row: int) -> Influences | None:
        """How often the agent chose a best answer; None where none chose."""
        chosen = self._columns[row].get(("choice", "chose"))
        if chosen is None:
            return None
        there = ~np.isnan(chosen)
        places = np.where(there, chosen, UNKNOWN_ANSWER).astype(np.int64)
        right = (places != UNKNOWN_ANSWER) & self.cells.best[self.cells.problem, places]
        return self.sample(right.astype(np.float64), there, SHARE)

    def by_choice(
        self, row: int, judged_right: Callable[[], Floats]
    ) -> tuple[Influences | None, Influences | None]:
        """How often the judge was right where the agent chose right, and wrong where it chose
        wrong, in the worlds of the answers chosen: problem by problem, the mean over its draws.

        judged_right: the accuracy of the judge in each cell of the row, NaN without a verdict.
        """
        chosen = self._columns[row].get(("choice", "chose"))
        if chosen is None:
            return None, None
        right = judged_right()
        ran = (chosen == self.cells.side) & ~np.isnan(right)
        return (
            self.sample(right, ran & self.cells.truth, SHARE),
            self.sample(1 - right, ran & ~self.cells.truth, SHARE),
        )

    def by_world(self, row: int, probs: Floats) -> list[ByWorld]:
        """All other secondary measures, over cells with a verdict, by kind and name."""
        columns = self._columns[row]
        if not columns:
            return []
        there = ~np.isnan(probs[self.cells.places(row), 0])
        found = []
        for (kind, name), values in sorted(columns.items(), key=lambda column: column[0]):
            if kind != "choice":
                told = there & ~np.isnan(values)
                ends = SHARE if kind == "measures" and name in self._flags[row] else None
                truth = self.sample(values, told & self.cells.truth, ends)
                lie = self.sample(values, told & ~self.cells.truth, ends)
                found.append(ByWorld(kind, name, truth, lie))
        return found

    def _column(self, row: int, kind: MeasureKind, name: str) -> Floats:
        columns = self._columns[row]
        if (kind, name) not in columns:
            columns[kind, name] = np.full(len(self.cells.problem), DEFAULTS[kind], np.float64)
        return columns[kind, name]

    def sample(
        self, values: Floats, cells: Flags, ends: tuple[float, float] | None = None
    ) -> Influences | None:
        """The mean of each problem over those of its cells; None if there is no cell."""
        of = self.cells.problem[cells]
        counts = np.bincount(of)
        there: Sequence[int] = np.flatnonzero(counts).tolist()
        if not there:
            return None
        means = np.bincount(of, weights=values[cells])[there] / counts[there]
        problems = [self._sweep.problems[n] for n in there]
        return of_questions(
            [problem.id for problem in problems],
            means,
            [problem.group for problem in problems],
            ends,
        )
