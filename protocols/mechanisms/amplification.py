"""Iterated amplification (Christiano, Shlegeris and Amodei 2018, arXiv:1810.08575).

An overseer who could not answer a question asks helpers easier ones. If it can put their answers
together, and relies on no helper for more than it can check, the overseer with its helpers is
better than either alone. This measures one amplified overseer, and how much it withstands when some
of its helpers are turned against it.
"""

from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..gather import gather_deterministic
from ..protocol import Conversation, Measured
from ..question import Answer, Question, randomness
from ..seat import Role, Seat
from ..settings import ranged
from ..transcript import Transcript, Turn
from .auxiliary import Assisted, Aux
from .listing import list_entries

OVERSEER = Role("amplification.overseer", "Overseer")
CONCLUDER = Role("amplification.concluder", "Overseer", "answer")
AMPLIFICATION_HELPER = Role("amplification.honest", "Helper", "answer")
OPPOSED = Role("amplification.sided", "Helper", "answer")
STEERER = Role("amplification.steerer", "Helper", "answer")

AT_HAND = "Subquestion"


@dataclass(frozen=True, slots=True)
class SubAnswer:
    """A subquestion and its answer."""

    asked: Turn
    answer: Turn
    helpers: tuple[bool, ...]
    """For each helper behind the answer, whether it steered."""
    below: tuple[Turn, ...] = ()
    """What was asked and answered below it, which the judge does not read."""


@dataclass(frozen=True)
class Amplification(Assisted, Conversation):
    """An overseer asks subquestions; the agent is every helper, and some steer toward `side`.

    World a:
      1. the overseer writes at most `subquestions` subquestions (a form);
      2. all are answered at once, each by a helper or, where `depth` allows, by steps 1 to 3 one
         level deeper;
      3. the overseer answers from what it was told. At the top this is the judge, who reads the
         subquestions with their answers and decides.
    Each helper steers for a with probability `steered`. Its coin is fixed by the question, the
    subquestion and `seed`, and so falls the same in both worlds, in every process and anywhere in
    the tree; a helper that steers at some dose steers at every higher one. What anyone is shown
    depends on the question and the subquestion at hand, not on the way to it, so that a subquestion
    that comes up twice is one call, and is paid once.
    Helpers that do not steer are honest or, with `aux: sided`, steer for another answer than a
    (which of several is chance), as if two sides had each turned some. Adversarial helpers are the
    dose itself.
    Shared: the subquestions at the top and every answer of an honest helper to them; below, all
    that does not rest on a steered answer. At `steered: 0` nothing depends on a, and the two worlds
    are one. Rows that differ in `steered` or `aux` share the subquestions at the top.
    Reward: for the agent, as a helper that steers, the judge's belief in a.
    Measured: how many `helpers` answered, and how many of them were `steered`.

    Where we differ: Christiano et al. train the next helper on the amplified overseer, and so on;
    ours are asked as they are, which is one iteration. Their helpers see the subquestion alone;
    ours also see the question, whose passage is what subquestions are often about.
    """

    agent: Speaker
    overseer: Speaker | None = None
    """Who asks the subquestions, and concludes below the top; None: the judge's model."""
    subquestions: int = ranged(3)
    """The most subquestions in one list."""
    depth: int = ranged(1)
    """Levels of subquestions; at 1 helpers answer those at the top."""
    steered: float = ranged(0.5, least=0, most=1)
    """Probability that a helper steers, in [0, 1]."""
    budget: int = ranged(64)
    """The most subquestions in one world. Each takes one, and the subquestions of a list share
    equally what is left; one with nothing left is answered by a helper."""
    seed: int = 0
    aux: Aux = "honest"
    """Whose side those helpers are on that do not steer."""

    row: ClassVar[str] = (
        "amplification {0.subquestions} subquestions {0.depth} deep steered {0.steered:g}{0.seeded}"
    )
    sections: ClassVar[tuple[str, ...]] = ("amplification",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aux == "adversarial":
            raise ValueError("aux: adversarial helpers are what steered doses; set steered: 1")

    @property
    def seeded(self) -> str:
        return f" seed {self.seed}" if self.seed else ""

    @property
    def apart(self) -> int:
        return min(self.budget, int(self.subquestions**self.depth))

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Measured:
        findings = await self._findings(transcript, self.depth, self.budget, side, ask)
        helpers = helpers_behind(findings)
        return Measured(
            with_findings(transcript, findings),
            (("helpers", len(helpers)), ("steered", sum(helpers))),
            drafts=tuple(turn for each in findings for turn in each.below),
        )

    async def _findings(
        self, at_hand: Transcript, depth: int, budget: int, side: Answer, ask: Ask
    ) -> list[SubAnswer]:
        """Subquestions about what is at hand, at most `budget` in all below it, each answered."""
        most = min(self.subquestions, budget)
        seat = self.judge_seat(self.role_prompt(OVERSEER, most=most), self.overseer)
        asked = await list_entries("subquestions", most, seat, at_hand, ask)
        left = shares(budget - len(asked), len(asked))
        return await gather_deterministic(
            *(
                self._finding(at_hand.question, turn, depth - 1, share, side, ask)
                for turn, share in zip(asked, left, strict=True)
            )
        )

    async def _finding(
        self, question: Question, asked: Turn, depth: int, budget: int, side: Answer, ask: Ask
    ) -> SubAnswer:
        """One subquestion, answered by a helper or, with depth and budget left, from findings."""
        at_hand = Transcript(question, (replace(asked, speaker=AT_HAND, reasoning=""),))
        if not depth or not budget:
            steers = self.steers(question, asked.text)
            helper = self._helper(question, side, asked.text, steers)
            answer = await helper.speak_unlabelled(at_hand, ask)
            return SubAnswer(asked, answer, (steers,))
        findings = await self._findings(at_hand, depth, budget, side, ask)
        overseer = self.judge_seat(self.role_prompt(CONCLUDER, conduct=self.conduct), self.overseer)
        answer = await overseer.speak(with_findings(at_hand, findings), ask)
        below = tuple(t for each in findings for t in (each.asked, each.answer, *each.below))
        return SubAnswer(asked, answer, helpers_behind(findings), below)

    def _helper(self, question: Question, side: Answer, asked: str, steers: bool) -> Seat:
        if steers:
            return self.seat(self.agent, side, STEERER)
        if self.aux == "sided":
            chance = randomness(self.seed, f"{question.text}\0{asked}", "opposes")
            return self.seat(self.agent, chance.choice(question.others(side)), OPPOSED)
        return self.seat(self.agent, None, AMPLIFICATION_HELPER)

    def steers(self, question: Question, subquestion: str) -> bool:
        """Whether the helper that answers this subquestion steers."""
        coin = randomness(self.seed, f"{question.text}\0{subquestion}", "steers")
        return coin.random() < self.steered


def with_findings(transcript: Transcript, findings: list[SubAnswer]) -> Transcript:
    """The transcript with the findings as the overseer reads them."""
    return transcript.then(*(turn for each in findings for turn in (each.asked, each.answer)))


def helpers_behind(findings: list[SubAnswer]) -> tuple[bool, ...]:
    """For each helper behind any of the findings, whether it steered."""
    return tuple(steered for finding in findings for steered in finding.helpers)


def shares(budget: int, parts: int) -> list[int]:
    """`budget` in so many whole parts, as equal as they can be, the larger ones first."""
    return [budget // parts + (place < budget % parts) for place in range(parts)]
