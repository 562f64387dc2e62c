"""What has completed of a run: verdicts, failures and counts by place, and their figures."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    results: "Results"
    """With JSE and EAS at beta 1 alone."""


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
                from ..reports.results import score_rows

                self._known[score] = CompletedOutcomes(
                    self._table.probs.copy(),
                    dict(self._failures),
                    dict(self._counts),
                    len(self._places),
                    score_rows(self._table, self._check, score=score, betas=(1.0,)),
                )
            return self._known[score]

    def _start_again(self, shorter: bool = False) -> None:
        # The page of a finished run, whose figures are in a file, needs no numpy.
        from ..reports.aggregate import OutcomeTable
        from ..reports.health import HealthCheck

        self._table, self._check = OutcomeTable(self._sweep), HealthCheck()
        self._failures: dict[int, Failure] = {}
        self._counts: dict[int, Mapping[str, int]] = {}
        self._places: set[int] = set()
        self._known.clear()

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
        self._places.add(record.place)
        self._table.add(record)
        self._check.add(record)
        if record.failure is not None:
            self._failures[record.place] = record.failure
        if record.counts:
            self._counts[record.place] = record.counts
