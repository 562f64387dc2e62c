"""What has completed of a run: verdicts, failures and counts by place, and their figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from ...protocols.transcript import Failure
from ..errors import RunFolderError
from ..runs.outcome import read_outcome
from ..runs.outcome_index import OutcomeFollower
from ..runs.reader import RunReader
from ..runs.run_folder import OUTCOMES, outcomes
from ..sweeps.grid import Grid

if TYPE_CHECKING:
    from ...protocols.scoring.arrays import Floats
    from ..reports.results import Results

MARKS = ("refused", "conceded", "off_side", "forged", "truncated")
"""Counts that speak against a cell, as outcomes name them; the gravest first."""


@dataclass(frozen=True, slots=True)
class CompletedOutcomes:
    """The outcomes of a run so far, by place in the sweep."""

    probs: "Floats"
    """Cells x answers; not a number where there is no verdict."""
    failures: Mapping[int, Failure]
    counts: Mapping[int, Mapping[str, int]]
    """Of cells that counted anything."""
    finished: int
    asd: "Floats"
    """Of each problem under each row, problems x rows; not a number where it is not known."""
    score_rows: "Callable[[], Results]"

    @property
    def results(self) -> "Results":
        """The figures of all rows, with JSE and EAS at beta 1 alone. They take much longer than
        `asd`, and are made when they are first asked for."""
        return self.score_rows()


def tallied(run: RunReader, score: str = "brier") -> CompletedOutcomes:
    """What has completed of a run by now, and its figures under one score. RunFolderError."""
    return run.kept(_tally).completed(score)


def _tally(run: RunReader) -> "OutcomeTally":
    return OutcomeTally(run.folder, run.sweep)


class OutcomeTally:
    """The outcomes of one run folder, which reads no line twice while the run goes on.

    Threads may share it: pages of one run are made in several.
    """

    def __init__(self, folder: Path, sweep: Grid) -> None:
        self._folder, self._sweep = folder, sweep
        self._lock = Lock()
        self._follower = OutcomeFollower(folder / OUTCOMES, self._start_again)
        self._known: dict[str, CompletedOutcomes] = {}
        """By score, of the outcomes that are read."""
        self._start_again()

    def completed(self, score: str) -> CompletedOutcomes:
        """What has completed by now, and its figures under one score. RunFolderError."""
        with self._lock:
            self._read_on()
            if score not in self._known:
                self._known[score] = CompletedOutcomes(
                    self._table.probs.copy(),
                    dict(self._failures),
                    dict(self._counts),
                    len(self._places),
                    self._asd(score),
                    partial(self._results, score),
                )
            return self._known[score]

    def _results(self, score: str) -> "Results":
        from ..reports.results import score_rows

        with self._lock:
            if score not in self._scored:
                scored = score_rows(self._table, self._check, score=score, betas=(1.0,))
                self._scored[score] = scored
            return self._scored[score]

    def _asd(self, score: str) -> "Floats":
        import numpy as np

        found = np.full((len(self._sweep.problems), len(self._sweep.rows)), np.nan)
        place = {problem.id: n for n, problem in enumerate(self._sweep.problems)}
        for number in range(len(self._sweep.rows)):
            if samples := self._table.worlds(number).samples(score, ()):
                at = [place[id] for id in samples.asd.questions]
                found[at, number] = samples.asd.values
        return found

    def _start_again(self, shorter: bool = False) -> None:
        # The page of a finished run, whose figures are in a file, needs no numpy.
        from ..reports.aggregate import OutcomeTable
        from ..reports.health import HealthCheck

        self._table, self._check = OutcomeTable(self._sweep), HealthCheck()
        self._failures: dict[int, Failure] = {}
        self._counts: dict[int, Mapping[str, int]] = {}
        self._places: set[int] = set()
        self._known.clear()
        self._scored: dict[str, Results] = {}

    def _read_on(self) -> None:
        try:
            for _, line in self._follower.new_lines():
                self._add(line)
        except ValueError as exc:
            # The next call starts again; reading them all names the line and the remedy.
            self._follower = OutcomeFollower(self._folder / OUTCOMES, self._start_again)
            for _ in outcomes(self._folder):
                pass
            raise RunFolderError(f"{self._folder / OUTCOMES}: {exc}") from exc

    def _add(self, line: bytes) -> None:
        record = read_outcome(line)
        if record.place in self._places:
            raise ValueError(f"cell {record.cell} stands there twice")
        self._known.clear()
        self._scored.clear()
        self._places.add(record.place)
        self._table.add(record)
        self._check.add(record)
        if record.failure is not None:
            self._failures[record.place] = record.failure
        if record.counts:
            self._counts[record.place] = record.counts
