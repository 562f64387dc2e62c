"""One judge asked several times: redrawn on one transcript, or as an ensemble.

Redrawing separates the noise of verdicts from the noise of debates. An ensemble of one weak judge
is bagging (Sang et al. 2024, arXiv:2402.00667)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...cache.call import Ask, with_repeat
from ..agents.agent import Agent
from ..doubts import parse_all
from ..question import randomness
from ..settings import Count, check_ranges, require_known, unusual
from ..transcript import Verdict
from .case import Case, Shot
from .judge import Judge, ModelJudge, average, ranges_with_unread
from .jury import POOLS, Pooling, pooled


@dataclass(frozen=True)
class RepeatedJudge(Judge):
    """One judge asked several times. It reads what its member reads, with the member's model."""

    member: Judge

    def __post_init__(self) -> None:
        check_ranges(self)

    @property
    def reads_passage(self) -> bool:
        return self.member.reads_passage

    @property
    def base_agent(self) -> Agent:
        return self.member.base_agent


@dataclass(frozen=True)
class Redrawn(RepeatedJudge):
    """Several verdicts of one judge on the same transcript. The verdict is their mean.

    Each verdict is recorded with the mean, so that a report can separate the noise of verdicts,
    which are cheap, from the noise of the debates. Draw 0 is the judge's plain call, so a run with
    `draws: 3` reuses the calls of a run without. At temperature 0 the verdicts differ little."""

    draws: Count = 3
    """Number of verdicts on each transcript."""

    @property
    def name(self) -> str:
        return f"{self.member.name} × {self.draws}"

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        asks = [ask, *(with_repeat(ask, number) for number in range(1, self.draws))]
        replies = await parse_all(*(self.member.decide(case, asker) for asker in asks))
        verdicts = list(replies.read.values())
        spans = ranges_with_unread([verdict.spans for verdict in verdicts], len(replies.doubts))
        doubts = (*replies.doubts, *(doubt for verdict in verdicts for doubt in verdict.doubts))
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
    """One judge asked several times, each time with other examples. It can judge any protocol.

    To judge a transcript:
      1. member n is the judge with `shots` examples, drawn with replacement (bagging: Breiman 1996)
         by a generator that depends only on `seed` and n; it is asked as a separate repeat;
      2. every member reads the transcript, and none reads the others;
      3. the probabilities are pooled as in a jury (`oversight.protocols.judges.jury`).
    An unread member gives the verdict bounds, as an unread juror does. Examples about the same
    question are left out. Worlds share calls as far as they share transcripts.

    Where we differ: Sang et al. fine-tune one model per member, and may boost and weigh them. Our
    members see examples in context and count equally.
    """

    size: Count = 5
    """Number of members."""
    examples: tuple[Shot, ...] = ()
    """Decided cases. Without any, members differ only by their draw."""
    shots: Count = 4
    """Number of examples that a member sees."""
    pool: Pooling = "mean"
    temperature: float | None = 1.0
    """Sampling temperature of all members. At 0 and without examples they would be identical."""
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
        text = case.transcript.question.text
        usable = [shot for shot in self.examples if shot.floor.question.text != text]
        verdicts = await parse_all(
            *(self.taught(n, usable).decide(case, with_repeat(ask, n)) for n in range(self.size))
        )
        return pooled(case.transcript, verdicts, self.pool, (1.0,) * self.size)

    def taught(self, number: int, examples: Sequence[Shot]) -> ModelJudge:
        """Member `number`, from 0, with its examples after the judge's own."""
        assert isinstance(self.member, ModelJudge)
        bag = randomness(self.seed, str(number), "shots")
        drawn = bag.choices(examples, k=self.shots) if examples else []
        shots = (*self.member.shots, *drawn)
        return replace(self.member, temperature=self.temperature, shots=shots)
