"""Iterated amplification (Christiano, Shlegeris and Amodei 2018, arXiv:1810.08575).

An overseer who could not answer a question asks helpers easier ones. If it can put their answers
together, and no helper is needed for more than it can be checked on, the overseer with its helpers
is better than either alone. This measures one amplified overseer, and how much it bears: some of
its helpers are turned against it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.gather import gather_in_order
from oversight.protocols.mechanisms.auxiliary import Aux, aux_name, check_aux
from oversight.protocols.mechanisms.listing import list_entries
from oversight.protocols.protocol import Conversation, Measured
from oversight.protocols.question import Answer, Question, randomness
from oversight.protocols.seat import Role, Seat
from oversight.protocols.settings import require_positive
from oversight.protocols.transcript import Transcript, Turn

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
    helpers: int
    """How many helpers it took."""
    steered: int
    """How many of them steered."""


@dataclass(frozen=True)
class Amplification(Conversation):
    """An overseer asks subquestions; the agent is all the helpers, and some steer toward `side`.

    World a:
      1. the overseer writes at most `subquestions` subquestions (a form);
      2. each is answered, all at once: by a helper, or where `depth` allows by 1 to 3 over again,
         one level deeper;
      3. the overseer answers from what it was told: at the top this is the judge, who hears the
         subquestions with their answers and decides.
    Helpers steer for a by chance `steered`, each by a coin of its own that falls by question,
    subquestion and `seed`, and so alike in both worlds, in every process and at every place in the
    tree. A helper that steers at some dose steers at every higher one. What anyone is shown depends
    on the question and the subquestion at hand, not on the way to it: a subquestion that comes up
    twice is one call, and is paid once.
    Helpers that do not steer are honest, or steer for another answer than a (`aux: sided`), as
    where two sides have each turned some. Those that are turned to a are the dose itself.
    Shared: the subquestions at the top, and all that honest helpers answer them; below, whatever
    does not rest on a steered answer. At `steered` 0 nothing depends on a, and both worlds are one.
    Reward: for the agent as a helper that steers, the judge's belief in a.
    Measured: how many `helpers` answered, and how many of them were `steered`.

    Where we differ: Christiano trains the next helper on the amplified overseer, and so on; ours
    are asked as they are, which is one iteration. His helpers see their subquestion alone; ours
    also see the question, whose passage is what subquestions are often about.
    """

    agent: Speaker
    overseer: Speaker | None = None
    """Who splits, and concludes below the top; None: the judge's model."""
    subquestions: int = 3
    """The most that are asked about any one thing."""
    depth: int = 1
    """Levels of subquestions; at 1 helpers answer those of the top."""
    steered: float = 0.5
    """Probability that a helper steers, in [0, 1]."""
    budget: int = 64
    """The most subquestions in one world. Each takes one, and those below it share what is left
    alike; one with nothing left is answered by a helper."""
    seed: int = 0
    aux: Aux = "honest"
    """Whose side the other helpers are on, those that do not steer."""

    sections: ClassVar[tuple[str, ...]] = ("amplification",)

    def __post_init__(self) -> None:
        check_aux(self.aux)
        if self.aux == "adversarial":
            raise ValueError("aux: adversarial helpers are what steered doses; set steered: 1")
        require_positive(self, "subquestions", "depth", "budget")
        if not 0 <= self.steered <= 1:
            raise ValueError(f"steered: {self.steered} is not a share of helpers, 0 to 1")

    @property
    def name(self) -> str:
        seed = f" seed {self.seed}" if self.seed else ""
        size = f"{self.subquestions} subquestions {self.depth} deep"
        return f"amplification {size} steered {self.steered:g}{seed}{aux_name(self.aux)}"

    def rule_values(self) -> dict[str, str | int]:
        return {"conduct": self.words.text(f"amplification.{self.aux}_conduct")}

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Measured:
        findings = await self._findings(floor, self.depth, self.budget, side, ask)
        helpers = sum(finding.helpers for finding in findings)
        steered = sum(finding.steered for finding in findings)
        return Measured(
            with_findings(floor, findings), (("helpers", helpers), ("steered", steered))
        )

    async def _findings(
        self, at_hand: Transcript, depth: int, budget: int, side: Answer, ask: Ask
    ) -> list[SubAnswer]:
        """Subquestions about what is at hand, at most `budget` in all below it, each answered."""
        most = min(self.subquestions, budget)
        seat = self.judge_seat(self.brief(OVERSEER, most=most), self.overseer)
        asked = await list_entries("subquestions", most, seat, at_hand, ask)
        left = shares(budget - len(asked), len(asked))
        return await gather_in_order(
            *(
                self._finding(at_hand.question, turn, depth - 1, share, side, ask)
                for turn, share in zip(asked, left, strict=True)
            )
        )

    async def _finding(
        self, question: Question, asked: Turn, depth: int, budget: int, side: Answer, ask: Ask
    ) -> SubAnswer:
        """One subquestion, answered by a helper or, with depth and budget left, from findings."""
        at_hand = Transcript(question, (replace(asked, speaker=AT_HAND),))
        if not depth or not budget:
            steers = self.steers(question, asked.text)
            seat = self._helper(question, side, steers)
            answer = await seat.speak(at_hand, ask)
            # A seat with a side is called by it, and would tell who steers.
            return SubAnswer(
                asked, replace(answer, speaker=AMPLIFICATION_HELPER.title), 1, int(steers)
            )
        findings = await self._findings(at_hand, depth, budget, side, ask)
        overseer = self.judge_seat(self.brief(CONCLUDER), self.overseer)
        answer = await overseer.speak(with_findings(at_hand, findings), ask)
        helpers = sum(finding.helpers for finding in findings)
        return SubAnswer(asked, answer, helpers, sum(finding.steered for finding in findings))

    def _helper(self, question: Question, side: Answer, steers: bool) -> Seat:
        if steers:
            return self.seat(self.agent, side, STEERER)
        if self.aux == "sided":
            return self.seat(self.agent, question.rival(side), OPPOSED)
        return self.seat(self.agent, None, AMPLIFICATION_HELPER)

    def steers(self, question: Question, subquestion: str) -> bool:
        """Whether the helper that answers this subquestion steers."""
        coin = randomness(self.seed, f"{question.text}\0{subquestion}", "steers")
        return coin.random() < self.steered


def with_findings(floor: Transcript, findings: list[SubAnswer]) -> Transcript:
    """The floor with the findings as the overseer reads them."""
    return floor.then(*(turn for each in findings for turn in (each.asked, each.answer)))


def shares(budget: int, parts: int) -> list[int]:
    """`budget` in so many whole parts, as equal as can be, the larger ones first."""
    return [budget // parts + (place < budget % parts) for place in range(parts)]
