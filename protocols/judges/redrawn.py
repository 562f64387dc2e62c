"""A judge asked several times on one transcript, to tell noise of verdicts from that of debates."""

from dataclasses import dataclass

from ...cache.call import Ask, nth
from ..doubts import readings
from ..settings import require_positive
from ..transcript import Verdict
from .case import Case
from .judge import RepeatedJudge, average, spans_with_unread


@dataclass(frozen=True)
class Redrawn(RepeatedJudge):
    """Several verdicts of one judge on the same transcript; the verdict is their mean.

    Each verdict is recorded beside the mean, so that a report can tell the noise of verdicts, which
    are cheap, from that of the debates that they are about. Draw 0 is the judge's plain call, so a
    run with `draws: 3` reuses the calls of a run without. A judge at temperature 0 says much the
    same each time.
    """

    draws: int = 3
    """Number of verdicts on each transcript."""

    def __post_init__(self) -> None:
        require_positive(self, "draws")

    @property
    def name(self) -> str:
        return f"{self.member.name} × {self.draws}"

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        asks = [ask, *(nth(ask, number) for number in range(1, self.draws))]
        found = await readings(*(self.member.decide(case, each) for each in asks))
        verdicts = list(found.read.values())
        spans = spans_with_unread([verdict.spans for verdict in verdicts], len(found.doubts))
        doubts = (*found.doubts, *(doubt for verdict in verdicts for doubt in verdict.doubts))
        return Verdict(
            average([verdict.probs for verdict in verdicts]),
            case.transcript,
            tuple(judgement for verdict in verdicts for judgement in verdict.judgements),
            redraws=tuple(verdict.probs for verdict in verdicts),
            bounds=spans if doubts or any(verdict.bounds for verdict in verdicts) else (),
            doubts=doubts,
        )
