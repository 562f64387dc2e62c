"""What the core is given: the people who judged a run, as an analysis."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...analysis.catalogue import Analysis
from ...analysis.findings.finding import Finding
from ...analysis.rows import RunRows
from ...errors import EngineError, UsageError
from ...run.reader import RunReader
from .journal import read_journal
from .rater_tables import agreement_finding, standings_finding
from .raters import rater_agreement, rater_standings


@dataclass(frozen=True, slots=True)
class People(Analysis):
    """Print the progress of the raters of RUN, their agreement, and the score of each.

    Krippendorff's alpha of the answers that they found likeliest, and of their probabilities; for
    each rater, Brier score, accuracy and calibration, and what the transcript changed. Where they
    judged finished transcripts, the judge of the run on the same ones. RUN may be a study's folder:
    then its judges, and those of one conversation beside each other.
    """

    title = "People"
    lead = (
        "People who judged transcripts of this run, beside its models. Raters are pseudonyms; of a "
        "person nothing else is kept."
    )

    def of_run(self, run: RunRows, rows: Sequence[int], score: str) -> Finding:
        parts = standings_finding(rater_standings(run.folder)).parts
        try:
            found = agreement_finding(rater_agreement(run.folder))
            return Finding((*parts, *found.parts), found.about)
        except EngineError as exc:
            return Finding(parts, lead=(str(exc),))

    def of_table(self, file: Path, score: str) -> Finding:
        from ..studies.scoring import is_study, study_agreement

        if not is_study(file):
            raise UsageError(f"{file}: neither a run nor a study's folder")
        return study_agreement(file)

    def suits(self, run: RunReader) -> bool:
        return any(True for _ in read_journal(run.folder))
