"""Proposer and critic: critique (Saunders et al. 2022, arXiv:2206.05802) by one who may agree."""

from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..gather import gather_in_order
from ..protocol import Conversation, Measured
from ..question import Answer
from ..seat import Role, hear, laid_down
from ..transcript import Transcript
from .auxiliary import Assisted, Aux
from .open_protocols import choose

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
    A critic that is not honest skips step 2: it speaks for a (`aux: adversarial`), or for another
    answer (sided); of several others each has a critic of its own, who do not hear each other.
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

    row: ClassVar[str] = "proposer critic"
    sections: ClassVar[tuple[str, ...]] = ("proposer_critic",)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Measured:
        transcript = await hear(transcript, self.seat(self.agent, side, PROPOSER), ask=ask)
        critic, question = self.critic or self.agent, transcript.question
        held: tuple[Answer, ...]
        if self.aux == "honest":
            held = (await choose(critic, transcript, ask, self.brief(VERDICT)),)
            seats = tuple(self.seat(critic, each, REVIEW) for each in held)
        else:
            held = question.others(side) if self.aux == "sided" else (side,)
            seats = self.aux_seats(critic, question, side, REVIEW.title, REVIEW.act)
        reviews = await gather_in_order(*(seat.speak_unlabelled(transcript, ask) for seat in seats))
        chose = ", ".join(each.label for each in held)
        measures = (("critic_chose", chose), ("agrees", held == (side,)))
        return Measured(laid_down(transcript, *reviews), measures)
