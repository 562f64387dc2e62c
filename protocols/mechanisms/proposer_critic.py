"""Proposer and critic: critique (Saunders et al. 2022) by one who may agree."""

from dataclasses import dataclass, replace
from typing import ClassVar

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.mechanisms.baselines import choose
from oversight.protocols.protocol import Conversation, Measured
from oversight.protocols.question import Answer
from oversight.protocols.seat import Role, hear
from oversight.protocols.transcript import Transcript

PROPOSER = Role("proposer_critic.proposer", "Proposer")
VERDICT = Role("proposer_critic.verdict", "Critic")
REVIEW = Role("proposer_critic.review", "Critic", "critique")


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
    Shared: the critic's policy, asked alike in both worlds; but no call, since all quote the
    proposal.
    Reward: for the agent the judge's belief in a; for the critic the judge's belief in the answer
    it holds right. That answer is measured as `critic_chose`, and whether it is a as `agrees`.
    """

    agent: Speaker
    critic: Speaker | None = None
    """None: the agent reviews itself."""

    sections: ClassVar[tuple[str, ...]] = ("proposer_critic",)

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Measured:
        floor = await hear(floor, self.seat(self.agent, side, PROPOSER), ask=ask)
        critic = self.critic or self.agent
        held = await choose(critic, floor, ask, self.brief(VERDICT))
        speech = await self.seat(critic, held, REVIEW).speak(floor, ask)
        # A seat with a side is called by it, and would make the private verdict public.
        floor = floor.then(replace(speech, speaker=REVIEW.title))
        return Measured(floor, (("critic_chose", held.label), ("agrees", held == side)))
