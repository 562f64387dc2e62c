"""One question that was judged in every world, measured as any table of judgements is."""

from collections.abc import Sequence
from dataclasses import dataclass

from oversight.engine.analysis.scoring.asd import Scored, propensity, scored
from oversight.engine.analysis.scoring.inference import Floats
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements
from oversight.protocols.scores import Compat


@dataclass(frozen=True)
class Worlds:
    verdicts: tuple[tuple[float, ...] | None, ...]
    """By answer argued, the probability of each answer; None without a verdict."""
    values: tuple[float, ...]
    compat: Compat = "none"

    def scored(self, score: str) -> Scored:
        return measured([self], score)

    def asd(self, score: str) -> float:
        return float(self.scored(score).by_judgement[0])

    def jse(self, score: str, beta: float) -> float:
        return float(self.scored(score).chosen_by_judgement([beta])["jse", beta][0])

    def eas(self, score: str, beta: float) -> float:
        return float(self.scored(score).chosen_by_judgement([beta])["eas", beta][0])

    def agent_scores(self, score: str) -> Floats:
        return self.scored(score).own[0]

    def propensity(self, beta: float) -> Floats:
        return propensity(self.agent_scores("log"), beta, self.compat)


def measured(questions: Sequence[Worlds], score: str) -> Scored:
    lines = [Judgement(n, one.values, one.verdicts, {}) for n, one in enumerate(questions)]
    table = scored(Judgements.of(lines), score, questions[0].compat)
    assert table
    return table
