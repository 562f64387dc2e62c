"""One contrast on several data sets: its mean over them, and what to expect on a new one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oversight.engine.decisions.comparison import compare_rows
from oversight.engine.decisions.rows import RunRows
from oversight.engine.errors import UsageError
from oversight.protocols.scoring.contrasts import Contrast
from oversight.protocols.scoring.meta import Pooled, pooled_estimate


@dataclass(frozen=True, slots=True)
class Study:
    """What one run says of the contrast."""

    run: str
    contrast: Contrast


@dataclass(frozen=True, slots=True)
class Studies:
    """What all of them say together, by random effects (`oversight.protocols.scoring.meta`)."""

    score: str
    studies: tuple[Study, ...]
    pooled: Pooled


def over_runs(
    runs: Sequence[RunRows], named: str, *, score: str = "brier", equivalence: float = 0.05
) -> Studies:
    """The contrast `A,B` in every run. UsageError where A and B mean several contrasts of a run,
    where two runs share problems, for then they are not independent, and where one has no error."""
    seen: dict[str, RunRows] = {}
    for run in runs:
        for problem in run.sweep.problems:
            if (other := seen.setdefault(problem.id, run)) is not run:
                raise UsageError(
                    f"{other.folder} and {run.folder} share problems, {problem.id} for one, so "
                    "that they do not tell of two data sets: compare them with each other instead"
                )
    studies = []
    for run in runs:
        found = compare_rows(run, named=(named,), score=score, equivalence=equivalence).contrasts
        if len(found) != 1:
            raise UsageError(
                f"{run.folder}: {named} means {len(found)} contrasts there; name one, with the "
                "agent and the judge in the words"
            )
        studies.append(Study(run.folder.name, found[0].contrast))
    try:
        pooled = pooled_estimate(
            np.array([study.contrast.estimate for study in studies]),
            np.array([study.contrast.error for study in studies]),
        )
    except ValueError as exc:
        raise UsageError(f"{', '.join(study.run for study in studies)}: {exc}") from exc
    return Studies(score, tuple(studies), pooled)
