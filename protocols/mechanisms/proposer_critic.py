"""Proposer and critic: critique (Saunders et al. 2022) by one who may agree."""

from dataclasses import dataclass, replace
from typing import ClassVar

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.mechanisms.auxiliary import Aux, aux_name, aux_seat, check_aux
from oversight.protocols.mechanisms.baselines import choose
from oversight.protocols.protocol import Conversation, Measured
from oversight.protocols.question import Answer
from oversight.protocols.seat import Role, hear
from oversight.protocols.transcript import Transcript, Turn

PROPOSER = Role("proposer_critic.proposer", "Proposer")
VERDICT = Role("proposer_critic.verdict", "Critic")
REVIEW = Role("proposer_critic.honest", "Critic", "critique")


@dataclass(frozen=True)
class ProposerCritic(Conversation):
    """The agent proposes `side`; a critic decides in private what is right, then speaks for that.

    A critic who must attack (critique), or oppose (debate), has to invent flaws where there are
    none; this one is free to confirm.

    World a:
      1. the agent proposes a;
      2. the critic reads the proposal and names the answer it holds right (a form that neither
         judge nor proposer reads);
      3. the critic speaks in public, for that answer;
      4. the judge reads proposal and speech, and decides.
    A critic that is not honest is not asked what it holds right: it speaks for another answer than
    a (`aux: sided`), or for a (adversarial).
    Shared: the critic's policy, asked alike in both worlds; but no call, since all quote the
    proposal.
    Reward: for the agent the judge's belief in a; for the critic the judge's belief in the answer
    it speaks for. That answer is measured as `critic_chose`, and whether it is a as `agrees`.
    """

    agent: Speaker
    critic: Speaker | None = None
    """None: the agent reviews itself."""
    aux: Aux = "honest"
    """Whose side the critic is on."""

    sections: ClassVar[tuple[str, ...]] = ("proposer_critic",)

    def __post_init__(self) -> None:
        check_aux(self.aux)

    @property
    def name(self) -> str:
        return f"proposer critic{aux_name(self.aux)}"

    def rule_values(self) -> dict[str, str | int]:
        return {"conduct": self.words.text(f"proposer_critic.{self.aux}_conduct")}

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Measured:
        floor = await hear(floor, self.seat(self.agent, side, PROPOSER), ask=ask)
        held, review = await self._reviewed(floor, side, ask)
        # A seat with a side is called by it, and would make the private verdict public.
        floor = floor.then(replace(review, speaker=REVIEW.title))
        return Measured(floor, (("critic_chose", held.label), ("agrees", held == side)))

    async def _reviewed(self, floor: Transcript, side: Answer, ask: Ask) -> tuple[Answer, Turn]:
        """The answer that the critic speaks for, and its speech."""
        critic, question = self.critic or self.agent, floor.question
        if self.aux == "honest":
            held = await choose(critic, floor, ask, self.brief(VERDICT))
            seat = self.seat(critic, held, REVIEW)
        else:
            held = question.rival(side) if self.aux == "sided" else side
            seat = aux_seat(self, self.aux, critic, question, side, REVIEW.title, REVIEW.act)
        return held, await seat.speak(floor, ask)
