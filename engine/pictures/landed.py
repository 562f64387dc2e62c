"""What has landed of a run: verdicts, failures and counts by place, and their figures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oversight.engine.reports.results import Results, collect
from oversight.engine.runs.outcome import OutcomeRecord
from oversight.engine.runs.run_folder import outcomes
from oversight.engine.sweeps.sweep import Sweep
from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.transcript import Failure


@dataclass(frozen=True, slots=True)
class LandedOutcomes:
    """The outcomes of a run so far, by place in the sweep."""

    probs: Floats
    """Cells x answers; not a number where there is no verdict."""
    failures: Mapping[int, Failure]
    counts: Mapping[int, Mapping[str, int]]
    """Of cells that counted anything."""
    finished: int
    results: Results
    """With JSE and EAS at beta 1 alone."""


def landed_outcomes(folder: Path, sweep: Sweep, score: str) -> LandedOutcomes:
    """The outcomes in a run folder, and their figures under one score. RunFolderError."""
    most = max(len(problem.values) for problem in sweep.problems)
    probs: Floats = np.full((len(sweep), most), np.nan)
    failures: dict[int, Failure] = {}
    counts: dict[int, Mapping[str, int]] = {}
    finished = 0

    def seen() -> Iterator[OutcomeRecord]:
        nonlocal finished
        for record in outcomes(folder):
            finished += 1
            if record.failure is not None:
                failures[record.place] = record.failure
            if record.counts:
                counts[record.place] = record.counts
            if record.probs is not None:
                probs[record.place, : len(record.probs)] = record.probs
            yield record

    results = collect(sweep, seen(), score=score, betas=(1.0,), intervals=False)
    return LandedOutcomes(probs, failures, counts, finished, results)
