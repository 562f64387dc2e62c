"""Iterated amplification (Christiano, Shlegeris and Amodei 2018, arXiv:1810.08575).

An overseer who cannot answer a question asks helpers easier ones and combines their answers. If it
relies on no helper for more than it can check, the overseer with helpers is better than either
alone. This measures one amplified overseer, and how well it withstands helpers turned against it.
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
from ..settings import Count, Share
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

    subquestion: Turn
    answer: Turn
    helpers: tuple[bool, ...]
    """For each helper behind the answer, whether it steered."""
    below: tuple[Turn, ...] = ()
    """Subquestions and answers below it, which the judge does not read."""


@dataclass(frozen=True)
class Amplification(Assisted, Conversation):
    """An overseer asks subquestions. The agent is every helper, and some steer toward `side`.

    World a:
      1. the overseer writes at most `subquestions` subquestions (a form);
      2. all are answered concurrently, each by a helper or, if `depth` allows, by steps 1 to 3 one
         level deeper;
      3. the overseer answers from the findings. At the top this is the judge, who reads the
         subquestions with their answers and decides.
    Each helper steers for a with probability `steered`. Its coin depends only on the question, the
    subquestion and `seed`, so it is equal in both worlds and anywhere in the tree. A helper that
    steers at some dose steers at every higher one. Prompts depend on the question and the
    subquestion, not on the path to it, so a repeated subquestion is one call, and paid once.
    Helpers that do not steer are honest or, with `aux: sided`, steer for another answer than a
    (chosen at random), as if each side had turned some. Adversarial helpers are the dose itself.
    Shared: the subquestions at the top, and every honest helper's answer to them; below, all calls
    that do not depend on a steered answer. At `steered: 0` the two worlds are equal. Rows that
    differ in `steered` or `aux` share the subquestions at the top.
    Reward: for the agent, as a helper that steers, the judge's belief in a.
    Measured: the number of `helpers`, and how many of them were `steered`.

    Where we differ: Christiano et al. train the next helper on the amplified overseer, and so on.
    Ours are not trained, which is one iteration. Their helpers see only the subquestion; ours also
    see the question, since subquestions are often about its passage.
    """

    agent: Speaker
    overseer: Speaker | None = None
    """The model that asks subquestions, and concludes below the top. None: the judge's model."""
    subquestions: Count = 3
    """Maximum number of subquestions in one list."""
    depth: Count = 1
    """Levels of subquestions. At 1, helpers answer those at the top."""
    steered: Share = 0.5
    """Probability that a helper steers, in [0, 1]."""
    budget: Count = 64
    """Maximum number of subquestions in one world. Each uses one, and the subquestions of a list
    share the rest equally. A subquestion with none left is answered by a helper."""
    seed: int = 0
    aux: Aux = "honest"
    """The side of helpers that do not steer."""

    row: ClassVar[str] = (
        "amplification {0.subquestions} subquestions {0.depth} deep steered {0.steered:g}{0.seeded}"
    )
    sections: ClassVar[tuple[str, ...]] = ("amplification",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aux == "adversarial":
            raise ValueError(
                "aux: adversarial: set steered: 1, which makes all helpers adversarial"
            )

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
            drafts=tuple(turn for finding in findings for turn in finding.below),
        )

    async def _findings(
        self, at_hand: Transcript, depth: int, budget: int, side: Answer, ask: Ask
    ) -> list[SubAnswer]:
        """Subquestions about `at_hand`, each answered; at most `budget` in all below it."""
        most = min(self.subquestions, budget)
        seat = self.judge_seat(self.role_prompt(OVERSEER, most=most), self.overseer)
        subquestions = await list_entries("subquestions", most, seat, at_hand, ask)
        budgets = shares(budget - len(subquestions), len(subquestions))
        return await gather_deterministic(
            *(
                self._finding(at_hand.question, turn, depth - 1, part, side, ask)
                for turn, part in zip(subquestions, budgets, strict=True)
            )
        )

    async def _finding(
        self, question: Question, subquestion: Turn, depth: int, budget: int, side: Answer, ask: Ask
    ) -> SubAnswer:
        """One subquestion, answered by a helper or, with depth and budget left, from findings."""
        at_hand = Transcript(question, (replace(subquestion, speaker=AT_HAND, reasoning=""),))
        if not depth or not budget:
            steers = self.steers(question, subquestion.text)
            helper = self._helper(question, side, subquestion.text, steers)
            answer = await helper.speak_unlabelled(at_hand, ask)
            return SubAnswer(subquestion, answer, (steers,))
        findings = await self._findings(at_hand, depth, budget, side, ask)
        overseer = self.judge_seat(self.role_prompt(CONCLUDER, conduct=self.conduct), self.overseer)
        answer = await overseer.speak(with_findings(at_hand, findings), ask)
        below = tuple(
            t for finding in findings for t in (finding.subquestion, finding.answer, *finding.below)
        )
        return SubAnswer(subquestion, answer, helpers_behind(findings), below)

    def _helper(self, question: Question, side: Answer, subquestion: str, steers: bool) -> Seat:
        if steers:
            return self.seat(self.agent, side, STEERER)
        if self.aux == "sided":
            chance = randomness(self.seed, f"{question.text}\0{subquestion}", "opposes")
            return self.seat(self.agent, chance.choice(question.others(side)), OPPOSED)
        return self.seat(self.agent, None, AMPLIFICATION_HELPER)

    def steers(self, question: Question, subquestion: str) -> bool:
        """Whether the helper that answers this subquestion steers."""
        coin = randomness(self.seed, f"{question.text}\0{subquestion}", "steers")
        return coin.random() < self.steered


def with_findings(transcript: Transcript, findings: list[SubAnswer]) -> Transcript:
    """The transcript followed by the findings, as the overseer reads them."""
    return transcript.then(
        *(turn for finding in findings for turn in (finding.subquestion, finding.answer))
    )


def helpers_behind(findings: list[SubAnswer]) -> tuple[bool, ...]:
    """For each helper behind any of the findings, whether it steered."""
    return tuple(steered for finding in findings for steered in finding.helpers)


def shares(budget: int, parts: int) -> list[int]:
    """`budget` split into `parts` whole parts, as equal as possible, larger ones first."""
    return [budget // parts + (index < budget % parts) for index in range(parts)]
