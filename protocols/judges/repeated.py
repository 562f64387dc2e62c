"""One judge asked many times: redrawn on one transcript, or as an ensemble.

Redrawn it tells the noise of verdicts from that of debates; an ensemble of one weak judge is bagged
(Sang et al. 2024, arXiv:2402.00667).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...cache.call import Ask, nth
from ..agents.agent import Agent
from ..doubts import parse_all
from ..question import randomness
from ..settings import check_numbers, ranged, require_known, unusual
from ..transcript import Verdict
from .case import Case
from .judge import Judge, ModelJudge, average, ranges_with_unread
from .jury import POOLS, Pooling, pooled
from .shots import Shot


@dataclass(frozen=True)
class RepeatedJudge(Judge):
    """One judge asked many times; it reads what the member reads, and its model is the member's."""

    member: Judge

    def __post_init__(self) -> None:
        check_numbers(self)

    @property
    def reads_passage(self) -> bool:
        return self.member.reads_passage

    @property
    def base_agent(self) -> Agent:
        return self.member.base_agent


@dataclass(frozen=True)
class Redrawn(RepeatedJudge):
    """Several verdicts of one judge on the same transcript; the verdict is their mean.

    Each verdict is recorded beside the mean, so that a report can tell the noise of verdicts, which
    are cheap, from that of the debates that they are about. Draw 0 is the judge's plain call, so a
    run with `draws: 3` reuses the calls of a run without. A judge at temperature 0 says much the
    same each time.
    """

    draws: int = ranged(3)
    """Number of verdicts on each transcript."""

    @property
    def name(self) -> str:
        return f"{self.member.name} × {self.draws}"

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        asks = [ask, *(nth(ask, number) for number in range(1, self.draws))]
        found = await parse_all(*(self.member.decide(case, each) for each in asks))
        verdicts = list(found.read.values())
        spans = ranges_with_unread([verdict.spans for verdict in verdicts], len(found.doubts))
        doubts = (*found.doubts, *(doubt for verdict in verdicts for doubt in verdict.doubts))
        return Verdict(
            average([verdict.probs for verdict in verdicts]),
            case.transcript,
            tuple(judgement for verdict in verdicts for judgement in verdict.judgements),
            redraws=tuple(verdict.probs for verdict in verdicts),
            bounds=spans if doubts or any(verdict.bounds for verdict in verdicts) else (),
            doubts=doubts,
        )


@dataclass(frozen=True)
class Ensemble(RepeatedJudge):
    """One judge asked many times, each time with other examples; it can judge any protocol.

    To judge a transcript:
      1. member n is the judge with `shots` examples, drawn with replacement (bagging: Breiman 1996)
         by chance that depends on `seed` and n alone; it is asked as a draw of its own;
      2. every member reads the transcript, and none reads the others;
      3. the probabilities are pooled as those of a jury (`oversight.protocols.judges.jury`).
    A member that cannot be read gives the verdict bounds, as a juror does. An example about the
    question at hand is left out.
    Shared by the worlds: what the transcript shares, as with any judge.

    Where we differ: Sang et al. fine-tune one model for each member, and may boost and weigh them;
    ours are shown examples in context, and count alike.
    """

    size: int = ranged(5)
    """Number of members."""
    examples: tuple[Shot, ...] = ()
    """Decided cases; without any, members differ by their draw alone."""
    shots: int = ranged(4)
    """Number of examples that a member is shown."""
    pool: Pooling = "mean"
    temperature: float | None = 1.0
    """Sampling temperature of all members; at 0, and without examples, they would be identical."""
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.member, ModelJudge):
            raise ValueError(f"member: {self.member.name} is not the judge of one model")
        require_known("pool", self.pool, POOLS)

    @property
    def name(self) -> str:
        return " ".join(["ensemble", *unusual(self), f"({self.member.name})"])

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        about = case.transcript.question.text
        known = [shot for shot in self.examples if shot.floor.question.text != about]
        verdicts = await parse_all(
            *(self.taught(n, known).decide(case, nth(ask, n)) for n in range(self.size))
        )
        return pooled(case.transcript, verdicts, self.pool, (1.0,) * self.size)

    def taught(self, number: int, examples: Sequence[Shot]) -> ModelJudge:
        """Member `number`, from 0, with its examples behind those that the judge has anyway."""
        assert isinstance(self.member, ModelJudge)
        bag = randomness(self.seed, str(number), "shots")
        drawn = bag.choices(examples, k=self.shots) if examples else []
        shots = (*self.member.shots, *drawn)
        return replace(self.member, temperature=self.temperature, shots=shots)
