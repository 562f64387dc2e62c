"""Wrappers of a speaker: the agent beneath, and what is spoken with and without a side."""

from abc import abstractmethod
from dataclasses import Field, replace
from typing import Any, ClassVar, Self

from msgspec import structs

from ...cache.call import Ask
from ..agents.agent import ADVOCATE, Agent, Brief, Speaker
from ..prompts.prompt_set import for_side
from ..question import Answer
from ..transcript import Transcript, Turn


def heard_as(brief: Brief, side: Answer) -> Brief:
    """Brief of a judge that picks among drafts: it is asked as the judge who will hear the speech.

    So where that judge hears the speech last, its verdict is the call that picked the speech.
    """
    stance = brief.judging or brief.words.text("judge.role")
    return structs.replace(brief, title="Judge", stance=for_side(stance, side.label))


class Wrapper(Speaker):
    """A speaker whose drafts are selected, rewritten or sent back before one is spoken.

    This is done only for a side: without one, nothing tells the better of two drafts.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    agent: Speaker

    @property
    def apart(self) -> int:
        """How many drafts of a speech do not hear one another."""
        return 1

    @property
    def base_agent(self) -> Agent:
        return self.agent.base_agent.share(self.apart)

    def share(self, parts: int) -> Self:
        return replace(self, agent=self.agent.share(parts))

    async def speak(
        self, transcript: Transcript, side: Answer | None, ask: Ask, brief: Brief = ADVOCATE
    ) -> Turn:
        if side is None:
            return await self.speak_plainly(transcript, ask, brief)
        return await self.speak_for(side, transcript, ask, brief)

    async def speak_plainly(self, transcript: Transcript, ask: Ask, brief: Brief) -> Turn:
        """The turn of a speaker without a side."""
        return await self.agent.speak(transcript, None, ask, brief)

    @abstractmethod
    async def speak_for(self, side: Answer, transcript: Transcript, ask: Ask, brief: Brief) -> Turn:
        """The turn for a side, made from drafts of the agent beneath."""
