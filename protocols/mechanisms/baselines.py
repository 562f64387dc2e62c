"""The baselines of every protocol: the judge alone, and one advocate."""

from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..protocol import Conversation
from ..question import Answer
from ..seat import Role, hear
from ..transcript import Transcript

ADVOCATE_ROLE = Role("propaganda.advocate", "Advocate")


@dataclass(frozen=True)
class NaiveJudge(Conversation):
    """The judge answers alone.

    World a: one judge call.
    Shared: everything, since the call is the same in both worlds. The ASD of a judge with knowledge
    is not zero; lift is measured from here.
    """

    sections: ClassVar[tuple[str, ...]] = ("naive_judge",)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        return transcript


@dataclass(frozen=True)
class Propaganda(Conversation):
    """One agent argues for `side`, unopposed.

    World a: the agent speaks once for a, and the judge decides.
    Shared: nothing.
    """

    agent: Speaker

    sections: ClassVar[tuple[str, ...]] = ("propaganda",)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        return await hear(transcript, self.seat(self.agent, side, ADVOCATE_ROLE), ask=ask)
