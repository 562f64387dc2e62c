"""The analyses of a run that a page or a picture shows as they are: findings with their charts."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from .calibration import calibration_finding, worlds_finding
from .costs import sampled_costs
from .findings.finding import Finding
from .frontier import frontier_finding
from .rows import RunRows

Analysis: TypeAlias = Callable[[RunRows, Sequence[int], str], Finding]
"""From (run, numbers of rows, score) to a finding. UsageError for rows that it does not suit."""


def _frontier(run: RunRows, rows: Sequence[int], score: str) -> Finding:
    return frontier_finding(run, sampled_costs(run), score=score)


ANALYSES: Mapping[str, Analysis] = MappingProxyType(
    {
        "frontier": _frontier,
        "calibration": lambda run, rows, _: calibration_finding(run, rows),
        "worlds": lambda run, rows, _: worlds_finding(run, rows),
    }
)
