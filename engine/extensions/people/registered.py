"""What the core is given: the people who judged a run, as an analysis."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.catalogue import Analysis
from ...analysis.findings.finding import Finding
from ...analysis.rows import RunRows
from ...errors import EngineError
from ...run.reader import RunReader
from .journal import read_journal
from .rater_tables import agreement_finding, standings_finding
from .raters import rater_agreement, rater_standings


@dataclass(frozen=True, slots=True)
class People(Analysis):
    """Print how far the people are who judged RUN, how they agree, and how good each is."""

    title = "People"
    lead = (
        "People who judged transcripts of this run, beside its models. Raters are pseudonyms; of a "
        "person nothing else is kept."
    )

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        parts = standings_finding(rater_standings(run.folder)).parts
        try:
            return Finding((*parts, *agreement_finding(rater_agreement(run.folder)).parts))
        except EngineError as exc:
            return Finding(parts, lead=(str(exc),))

    def suits(self, run: RunReader) -> bool:
        return any(True for _ in read_journal(run.folder))
