"""Comparing from Python: `compare(a, b)`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from ...analysis.comparison import Comparison, compare_rows
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.contrasts import Family
from ...analysis.scoring.estimate import Interval
from ...run.listing import folder_named
from .library import Report

Compares: TypeAlias = Report | Path | str
"""A run: a Report, a run folder, or the beginning of the name of one in `runs/`."""


def compare(
    first: Compares,
    second: Compares | None = None,
    *,
    baseline: str | None = None,
    pairs: Literal["all"] | None = None,
    contrasts: Sequence[str] = (),
    score: str = "brier",
    family: Family = "holm",
    equivalence: float = 0.05,
    interval: Interval | None = None,
) -> Comparison:
    """Contrasts of the rows of one run, or of the common rows of two runs: first minus second.

    The parameters are those of `oversight compare`; contrasts: `"debate - consultancy"` each.
    Raises: UsageError for unknown names, and for baseline or pairs with two runs.
    """
    return compare_rows(
        _rows(first),
        None if second is None else _rows(second),
        baseline=baseline,
        pairs=pairs,
        named=contrasts,
        score=score,
        family=family,
        equivalence=equivalence,
        interval=interval,
    )


def _rows(run: Compares) -> RunRows:
    return read_rows(run.folder if isinstance(run, Report) else folder_named(str(run)))
