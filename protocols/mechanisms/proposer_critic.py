"""Proposer and critic: critique (Saunders et al. 2022, arXiv:2206.05802) by one who may agree."""

from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..protocol import Conversation, Measured
from ..question import Answer
from ..seat import Role, hear
from ..transcript import Transcript, Turn
from .auxiliary import Assisted, Aux
from .baselines import choose

PROPOSER = Role("proposer_critic.proposer", "Proposer")
VERDICT = Role("proposer_critic.verdict", "Critic")
REVIEW = Role("proposer_critic.honest", "Critic", "critique")


@dataclass(frozen=True)
class ProposerCritic(Assisted, Conversation):
    """The agent proposes `side`; a critic decides in private what is right, then speaks for that.

    A critic who must attack (critique) or oppose (debate) has to invent flaws where there are none;
    this one is free to confirm.

    World a:
      1. the agent proposes a;
      2. the critic reads the proposal and names the answer that it believes to be right (a form
         that neither the judge nor the proposer reads);
      3. the critic speaks in public for that answer;
      4. the judge reads the proposal and the speech, and decides.
    A critic that is not honest skips step 2: it speaks for another answer than a (`aux: sided`),
    or for a (adversarial).
    Shared: nothing, since every call quotes the proposal. An honest critic is asked the same in
    both worlds, and rows that differ in `aux` share the proposals.
    Reward: for the agent the judge's belief in a; for the critic the judge's belief in the answer
    that it speaks for.
    Measured: that answer, `critic_chose`, and whether it is a, `agrees`.
    """

    agent: Speaker
    critic: Speaker | None = None
    """None: the agent reviews itself."""
    aux: Aux = "honest"
    """Whose side the critic is on."""

    sections: ClassVar[tuple[str, ...]] = ("proposer_critic",)

    @property
    def name(self) -> str:
        return f"proposer critic{self.aux_name}"

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Measured:
        floor = await hear(floor, self.seat(self.agent, side, PROPOSER), ask=ask)
        held, review = await self._review(floor, side, ask)
        return Measured(
            floor.then(review), (("critic_chose", held.label), ("agrees", held == side))
        )

    async def _review(self, floor: Transcript, side: Answer, ask: Ask) -> tuple[Answer, Turn]:
        """The answer that the critic speaks for, and its speech."""
        critic, question = self.critic or self.agent, floor.question
        if self.aux == "honest":
            held = await choose(critic, floor, ask, self.brief(VERDICT))
            seat = self.seat(critic, held, REVIEW)
        else:
            held = question.rival(side) if self.aux == "sided" else side
            seat = self.aux_seat(critic, question, side, REVIEW.title, REVIEW.act)
        return held, await seat.speak_unlabelled(floor, ask)
