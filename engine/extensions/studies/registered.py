"""What the core is given: the judgements of experiments made elsewhere."""

from collections.abc import Iterator
from pathlib import Path

from ...analysis.judged import JudgementSource
from ...analysis.scoring.judgements import Judgement
from .scoring import is_study, study_judgements


class Studies(JudgementSource):
    def holds(self, path: Path) -> bool:
        return is_study(path)

    def judgements(self, path: Path) -> Iterator[Judgement]:
        return study_judgements(path)


STUDIES = Studies()
