"""What the core is given: the people who judged a run, for its page of them."""

from collections.abc import Callable
from pathlib import Path

from ...analysis.findings.finding import Finding, Part
from ...errors import EngineError
from .journal import JOURNAL, PERSONS
from .rater_tables import agreement_finding, standings_finding
from .raters import rater_agreement, rater_standings


def people_of(folder: Path) -> Callable[[], tuple[Finding, list[str]]] | None:
    """None if nobody was asked. Else what makes the tables, and sentences on what is missing."""
    return (lambda: _people(folder)) if (folder / PERSONS / JOURNAL).is_file() else None


def _people(folder: Path) -> tuple[Finding, list[str]]:
    parts: list[Part] = [*standings_finding(rater_standings(folder)).parts]
    try:
        parts += agreement_finding(rater_agreement(folder)).parts
    except EngineError as exc:
        return Finding(tuple(parts)), [str(exc)]
    return Finding(tuple(parts)), []
