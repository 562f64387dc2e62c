"""Rows of a run for comparison, with their measures, and the pairs of rows to compare."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product
from pathlib import Path
from shlex import quote
from threading import Lock
from typing import Literal

import numpy as np

from ..errors import UsageError
from ..run.reader import Follower, RunReader, origins
from ..run.record.schema import RunDamaged
from ..run.sides import first_guess
from ..sweep.grid import Grid
from .pairs import (
    against_naive,
    distinct,
    matched,
    of_same_roles,
    pairs_meant,
    read_pair,
    row_names,
    rows_meant,
)
from .reports.aggregate import SPOKEN_DOUBTS, OutcomeTable
from .reports.results import Results, score_rows
from .scoring.asd import BETAS
from .scoring.estimate import Interval
from .scoring.inference import Floats, Influences, of_questions


@dataclass(frozen=True, slots=True)
class RunRows:
    """A run with its outcomes and the names of its rows."""

    run: RunReader
    table: OutcomeTable
    names: tuple[str, ...]
    """One per row, unique."""
    _means: dict[str, dict[str, tuple[Influences, bool]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """By score, once it was asked for."""
    _results: dict[object, Results] = field(default_factory=dict, repr=False, compare=False)
    """By score, betas and interval, once they were asked for."""

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def sweep(self) -> Grid:
        return self.run.sweep

    @property
    def origins(self) -> tuple[str, ...]:
        """Of the replies, as `engine.run.reader.origins` has them, and notes on the data sets."""
        return *origins(self.sweep, self.folder), *self.run.manifest.data

    def asd(self, score: str) -> dict[str, Influences]:
        """ASD by row name, of every row that was measured."""
        return {name: mean for name, (mean, measured) in self._means_of(score).items() if measured}

    def _means_of(self, score: str) -> dict[str, tuple[Influences, bool]]:
        """ASD of every row with a complete problem, and whether the row was measured."""
        if score not in self._means:
            known = (one.rows for one in self._results.values() if one.score == score)
            rows = [row.samples for row in next(known, ())]
            scored = (self.table.scored(n, score) for n in range(len(self.names)) if not rows)
            self._means[score] = {
                name: (part.mean, part.asd is not None)
                for name, part in zip(self.names, chain(rows, scored), strict=True)
                if part and part.mean
            }
        return self._means[score]

    def results(
        self,
        score: str,
        betas: tuple[float, ...] = BETAS,
        interval: Interval | None = None,
        *,
        guess: bool = True,
    ) -> Results:
        """The report's results of all rows, with the sweep's kind of interval unless another is
        asked for. It takes much longer than `asd`. guess: whether health has the first guess at
        refusals, which reads all speeches."""
        interval = interval or self.sweep.interval
        key = score, betas, interval, guess
        if key not in self._results:
            if guess:
                results = self.results(score, betas, interval, guess=False)
                health = results.health and replace(results.health, guess=self._guess())
                self._results[key] = replace(results, health=health)
            else:
                about = betas, self.run.manifest.mixed, self.origins, interval
                self._results[key] = score_rows(self.table, score, *about)
        return self._results[key]

    def _guess(self) -> str:
        """How many unread speeches read as refusals; empty for none. It counts words alone."""
        if not (unchecked := set(np.flatnonzero(self.table.unchecked).tolist())):
            return ""
        speeches, refusals = first_guess(self.run.tables, self.sweep, unchecked)
        read = f"{refusals:,} of {speeches:,} speeches read as refusals"
        return f"{read}: oversight measure sides {quote(str(self.folder))}" * bool(refusals)

    def complying(self) -> "RunRows":
        """These without the worlds in which a speaker did not do what it was told."""
        return RunRows(self.run, self.table.without(SPOKEN_DOUBTS), self.names)

    def clustered(self, score: str, ways: Sequence[str]) -> dict[str, Influences]:
        """`asd`, with problems by their groups or each by itself. UsageError for other ways."""
        match tuple(ways):
            case () | ("problem",):
                return self.asd(score)
            case ("question",):
                return {
                    name: of_questions(mean.questions, mean.values, ends=mean.ends)
                    for name, mean in self.asd(score).items()
                    if mean.questions
                }
        raise UsageError(
            f"--cluster {','.join(ways)}: for runs, choose group (the default) or question"
        )

    def asd_by_problem(self, score: str) -> Floats:
        """ASD of each problem under each row, problems × rows; NaN where it is not known."""
        table: Floats = np.full((len(self.sweep.problems), len(self.names)), np.nan)
        place = {problem.id: n for n, problem in enumerate(self.sweep.problems)}
        for row, name in enumerate(self.names):
            mean, _ = self._means_of(score).get(name, (None, False))
            if mean and mean.questions:
                table[[place[id] for id in mean.questions], row] = mean.values
        return table


def read_rows(run: RunReader | Path) -> RunRows:
    """A run as it stands, which outcomes that complete later leave as it is. Another call
    with one reader reads only the new lines. RunFolderError if it is not a run folder."""
    return (RunReader(run) if isinstance(run, Path) else run).kept(OutcomesRead).rows()


class OutcomesRead:
    """The outcomes of one run; each line is read once while the run goes on, also by threads."""

    _rows: RunRows

    def __init__(self, run: RunReader) -> None:
        self._run, self._lock = run, Lock()
        self._begin()

    def rows(self) -> RunRows:
        """The run by now. RunFolderError for a cell that is none of its sweep."""
        with self._lock:
            table = None
            try:
                for record in self._follower.new():
                    table = table or self._rows.table.copied()
                    if not 0 <= record.place < len(table.ended) or table.ended[record.place]:
                        cause = f"cell {record.cell} is none of the sweep, or comes twice"
                        raise RunDamaged(self._run.tables.file, cause)
                    table.add(record)
            except BaseException:
                # Outcomes that were read, and are in no table, would be missed for good.
                self._begin()
                raise
            if table:
                self._rows = RunRows(self._run, table, self._rows.names)
            return self._rows

    def _begin(self) -> None:
        self._follower = Follower(self._run, self._start_again)
        self._start_again()

    def _start_again(self) -> None:
        sweep = self._run.sweep
        self._rows = RunRows(self._run, OutcomeTable(sweep), row_names(sweep.rows))


def pairs_within(
    run: RunRows, baseline: str | None, pairs: Literal["all"] | None, texts: Sequence[str]
) -> list[tuple[int, int]]:
    rows, names = run.sweep.rows, run.names
    if len(rows) < 2:
        raise UsageError(f"{run.folder} has one row, {names[0]}: a contrast needs two")
    chosen: list[tuple[int, int]] = []
    for words in texts:
        chosen += pairs_meant(*read_pair(words), rows, names)
    if baseline is not None:
        base = rows_meant(baseline, rows, names)
        every = [(n, one) for one in base for n in range(len(rows)) if n not in base]
        chosen += [(n, one) for n, one in every if rows[n].judge == rows[one].judge] or every
    if not texts and baseline is None and pairs is None:
        chosen = against_naive(rows)
    if pairs == "all" or not chosen:
        chosen = list(combinations(range(len(rows)), 2))
    return distinct(chosen)


def pairs_between(first: RunRows, second: RunRows, texts: Sequence[str]) -> list[tuple[int, int]]:
    ours, theirs = first.sweep.rows, second.sweep.rows
    pairs = [] if texts else list(matched(ours, theirs).items())
    for words in texts:
        one, two = read_pair(words)
        ones, twos = rows_meant(one, ours, first.names), rows_meant(two, theirs, second.names)
        every, alike = list(product(ones, twos)), matched(ours, theirs)
        same_rows = [(a, b) for a, b in every if alike.get(a) == b]
        pairs += same_rows or of_same_roles(every, ours, theirs)
    if not pairs:
        raise UsageError(
            f"{first.folder} and {second.folder} have no row in common; name two: --contrast "
            f"'{first.names[0]} - {second.names[0]}'"
        )
    return list(dict.fromkeys(pairs))
