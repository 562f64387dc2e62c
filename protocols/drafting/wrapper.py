"""What wrappers of a speaker share: who is beneath, and who speaks where there is no side."""

from abc import abstractmethod
from dataclasses import replace

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import ADVOCATE, Agent, Brief, Speaker
from oversight.protocols.question import Answer
from oversight.protocols.transcript import Transcript, Turn


def heard_as(brief: Brief) -> Brief:
    """What a judge reads that picks among drafts: the speaker's rules, and that it is the judge."""
    return replace(brief, title="Judge", stance=brief.words.text("judge.role"))


class Wrapper(Speaker):
    """A speaker who does more than speak: drafts are chosen, rewritten or sent back.

    All of that is done for a side. A speaker without one has nothing to be better for.
    """

    agent: Speaker

    @property
    def base_agent(self) -> Agent:
        return self.agent.base_agent

    async def speak(
        self, floor: Transcript, side: Answer | None, ask: Ask, brief: Brief = ADVOCATE
    ) -> Turn:
        if side is None:
            return await self.speak_plainly(floor, ask, brief)
        return await self.speak_for(side, floor, ask, brief)

    async def speak_plainly(self, floor: Transcript, ask: Ask, brief: Brief) -> Turn:
        """The turn of a speaker without a side."""
        return await self.agent.speak(floor, None, ask, brief)

    @abstractmethod
    async def speak_for(self, side: Answer, floor: Transcript, ask: Ask, brief: Brief) -> Turn:
        """The turn for a side, made of what the agent beneath says."""
