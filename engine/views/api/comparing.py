"""Comparing and measuring from Python: `compare(a, b)`, `measure(run, "calibration")`."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ...analysis.catalogue import analysis
from ...analysis.comparison import Compare, Comparison, compare_rows
from ...analysis.findings.finding import Finding
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.estimate import Interval
from ...errors import UsageError
from ...run.listing import folder_named
from ...system.flags import check_flags
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
    equivalence: float = 0.05,
    interval: Interval | None = None,
) -> Comparison:
    """Contrasts of the rows of one run, or of the common rows of two runs: first minus second.

    The parameters are those of `oversight compare`; contrasts: `"debate - consultancy"` each.
    Raises: UsageError for unknown names, and for baseline or pairs with two runs.
    """
    how = Compare(
        baseline,
        pairs,
        tuple(contrasts),
        equivalence,
        ways=(),
        error="cr3",
        interval=interval,
    )
    return compare_rows(_rows(first), None if second is None else _rows(second), how, score)


def measure(run: Compares, name: str, *, score: str = "brier", **settings: Any) -> Finding:
    """What an analysis finds, as `oversight measure NAME` prints it; a Finding has it as text, too.

    name: of an analysis, or `my_file.py:MyAnalysis`. settings: its options, with `_` for `-`.
    Raises: UsageError for an unknown name, and for what the run does not tell.
    """
    kind, rows = analysis(name), _rows(run)
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # a dataclass by contract
    if unknown := [each for each in settings if each not in known]:
        raise UsageError(f"{name} has no setting {unknown[0]!r}; there are {', '.join(known)}")
    asked = kind(**settings)
    check_flags(asked)
    return asked.sourced(rows, score)


def _rows(run: Compares) -> RunRows:
    return read_rows(run.folder if isinstance(run, Report) else folder_named(str(run)))
