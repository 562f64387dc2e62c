"""One judge asked many times: redrawn on one transcript, or as an ensemble.

Redrawn it tells the noise of verdicts from that of debates; an ensemble of one weak judge is bagged
and weighted (Sang et al. 2024, arXiv:2402.00667).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from ...cache.call import Ask, nth
from ..agents.agent import Agent
from ..doubts import readings
from ..errors import Unreadable
from ..gather import gather_in_order
from ..question import randomness
from ..scores import accuracy
from ..settings import require_known, require_positive, unusual
from ..transcript import Verdict
from .case import Case
from .judge import Judge, ModelJudge, average, spans_with_unread
from .jury import POOLS, Pooling, pooled
from .shots import Shot

Weighing: TypeAlias = Literal["uniform", "adaboost", "logodds"]
Right: TypeAlias = Sequence[Sequence[bool]]
"""right[m][e]: whether member m was right on case e; all have the same cases, at least one."""


def uniform(right: Right) -> tuple[float, ...]:
    """Equal weights."""
    return (1.0,) * len(right)


def adaboost(right: Right) -> tuple[float, ...]:
    """Boosting of given members (AdaBoost.M1: Freund and Schapire 1997).

    In each step the member with the least weighted error e (the first, if several tie) gets the
    weight ln((1 - e)/e); then the cases on which it was wrong count (1 - e)/e times as much. Each
    member is taken once, and none whose error has come to 1/2.
    A member that is never wrong is taken to err on half a case, or it would silence all others.
    """
    cases = len(right[0])
    shares = [1 / cases] * cases
    weights = [0.0] * len(right)
    left = list(range(len(right)))
    while left:
        errors = {m: _weighted_error(right[m], shares) for m in left}
        best = min(left, key=errors.__getitem__)
        if errors[best] >= 1 / 2:
            break
        error = max(errors[best], 1 / (2 * cases))
        odds = (1 - error) / error
        weights[best] = math.log(odds)
        shares = [s * (1 if ok else odds) for s, ok in zip(shares, right[best], strict=True)]
        shares = [share / sum(shares) for share in shares]
        left.remove(best)
    return _or_uniform(weights)


def logodds_weights(right: Right) -> tuple[float, ...]:
    """The log odds of being right, ln(q/(1 - q)): with votes from independent members this is the
    rule that is right most often (Nitzan and Paroush 1982).

    q is estimated as (right + 1)/(cases + 2); a member that is wrong more often than right gets the
    weight 0, not a negative one.
    """
    weights = []
    for row in right:
        q = (sum(row) + 1) / (len(row) + 2)
        weights.append(max(0.0, math.log(q / (1 - q))))
    return _or_uniform(weights)


def _weighted_error(row: Sequence[bool], shares: Sequence[float]) -> float:
    # Rounded: an error that has come to 1/2 must not look like a hair less.
    return round(sum(share for share, ok in zip(shares, row, strict=True) if not ok), 12)


def _or_uniform(weights: Sequence[float]) -> tuple[float, ...]:
    return tuple(weights) if any(weights) else (1.0,) * len(weights)


WEIGHINGS: Mapping[Weighing, Callable[[Right], tuple[float, ...]]] = MappingProxyType(
    {"uniform": uniform, "adaboost": adaboost, "logodds": logodds_weights}
)
"""Each makes of `Right` a weight for each member, none below 0; only their proportions count. They
are equal if no member is right more often than wrong."""


@dataclass(frozen=True)
class RepeatedJudge(Judge):
    """One judge asked many times; it reads what the member reads, and its model is the member's."""

    member: Judge

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


@dataclass(frozen=True)
class Ensemble(RepeatedJudge):
    """One judge asked many times, each time with other examples; it can judge any protocol.

    To judge a transcript:
      1. member n is the judge with `shots` examples, drawn with replacement (bagging: Breiman 1996)
         by chance that depends on `seed` and n alone; it is asked as a draw of its own;
      2. every member reads the transcript, and none reads the others;
      3. unless the weighing is uniform, half of the examples are held out, so that no member is
         tested on what it was shown. Every member judges those too, and
         `WEIGHINGS` makes weights of what it gets right; an answer that
         cannot be read is wrong;
      4. the probabilities are pooled as those of a jury (`oversight.protocols.judges.jury`).
    A member that cannot be read gives the verdict bounds, as a juror does. An example about the
    question at hand is left out.
    Shared by the worlds: what the transcript shares, as with any judge. The verdicts on held-out
    examples depend on no question, so a whole run pays for them once.

    Where we differ: Sang et al. fine-tune one model for each member; ours are shown examples in
    context.
    """

    size: int = 5
    """Number of members."""
    examples: tuple[Shot, ...] = ()
    """Decided cases; without any, members differ by their draw alone."""
    shots: int = 4
    """Number of examples that a member is shown."""
    weighing: Weighing = "uniform"
    pool: Pooling = "mean"
    temperature: float | None = 1.0
    """Sampling temperature of all members; at 0, and without examples, they would be identical."""
    seed: int = 0

    def __post_init__(self) -> None:
        require_positive(self, "size", "shots")
        if not isinstance(self.member, ModelJudge):
            raise ValueError(f"member: {self.member.name} is not the judge of one model")
        require_known("weighing", self.weighing, WEIGHINGS)
        require_known("pool", self.pool, POOLS)
        if self.weighing != "uniform" and self.pool == "median":
            raise ValueError("weighing: a median has no weights; use the pool mean or logodds")
        if self.weighing != "uniform" and len(self.examples) < 4:
            raise ValueError(
                f"weighing: {len(self.examples)} examples are too few for {self.weighing}; give 4 "
                "or more, of which half are held out"
            )

    @property
    def name(self) -> str:
        return " ".join(["ensemble", *unusual(self), f"({self.member.name})"])

    async def decide(self, case: Case, ask: Ask) -> Verdict:
        about = case.transcript.question.text
        known = [shot for shot in self.examples if shot.floor.question.text != about]
        taught, held_out = self.halves(known)
        members = [self.taught(number, taught) for number in range(self.size)]
        verdicts = await readings(
            *(member.decide(case, nth(ask, number)) for number, member in enumerate(members))
        )
        right = [
            await gather_in_order(*(_is_right(member, shot, nth(ask, number)) for shot in held_out))
            for number, member in enumerate(members)
        ]
        weights = WEIGHINGS[self.weighing](right) if held_out else (1.0,) * self.size
        return pooled(case.transcript, verdicts, self.pool, weights)

    def halves(self, known: Sequence[Shot]) -> tuple[list[Shot], list[Shot]]:
        """The examples for teaching, and those for testing; none of the latter if uniform."""
        if self.weighing == "uniform":
            return list(known), []
        mixed = list(known)
        randomness(self.seed, "examples", "halves").shuffle(mixed)
        middle = (len(mixed) + 1) // 2
        return mixed[:middle], mixed[middle:]

    def taught(self, number: int, examples: Sequence[Shot]) -> ModelJudge:
        """Member `number`, from 0, with its examples behind those that the judge has anyway."""
        assert isinstance(self.member, ModelJudge)
        bag = randomness(self.seed, str(number), "shots")
        drawn = bag.choices(examples, k=self.shots) if examples else []
        shots = (*self.member.shots, *drawn)
        return replace(self.member, temperature=self.temperature, shots=shots)


async def _is_right(member: Judge, shot: Shot, ask: Ask) -> bool:
    """Whether the member's single likeliest answer is that of the example."""
    try:
        verdict = await member.judge(shot.floor, ask)
    except Unreadable:
        return False
    return accuracy(verdict.probs, shot.probs.index(max(shot.probs))) == 1
