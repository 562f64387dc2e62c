"""Consultancy (Khan et al. 2024, arXiv:2402.06782): the judge questions one expert."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..protocol import Conversation, WithHorizon
from ..question import Answer
from ..seat import Role, hear
from ..settings import Count
from ..transcript import Transcript

CONSULTANT = Role("consultancy.consultant", "Consultant")
CLIENT = Role("consultancy.client", "Client", "ask")


@dataclass(frozen=True)
class Consultancy(WithHorizon, Conversation):
    """A consultant argues for `side`; a client asks questions.

    World a: client and consultant take turns, beginning with `first`, for `turns` speeches in all.
    Then the judge decides. The client is the judge's model, and reads the passage only if the judge
    does.
    Shared: the opening question of a client who begins. Every other call depends on a. A longer
    consultancy begins with the calls of a shorter one.

    Where we differ: the consultant of Khan et al. always speaks first. In SOlib, as here, the
    client does by default.
    """

    agent: Speaker
    first: Literal["client", "consultant"] = "client"
    turns: Count = 2
    """Even if the client begins, odd if the consultant does. Otherwise the last question is not
    answered, which the paper's own grid allows."""

    row: ClassVar[str] = "consultancy, {0.first} first, {0.length}"
    sections: ClassVar[tuple[str, ...]] = ("consultancy",)
    consulting: ClassVar[Role] = CONSULTANT
    """The agent's role."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first == "client" and self.turns < 2:
            raise ValueError(
                f"turns: {self.turns}: the client asks, and the consultant never answers; take 2 "
                "or more, or first: consultant"
            )

    @property
    def length(self) -> str:
        return "1 turn" if self.turns == 1 else f"{self.turns} turns"

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        for n in range(self.turns):
            if (n % 2 == 0) == (self.first == "client"):
                seat = self.judge_seat(self.role_prompt(CLIENT, turn=n + 1))
            else:
                seat = self.seat(self.agent, side, self.consulting, turn=n + 1)
            transcript = await hear(transcript, seat, ask=ask)
        return transcript
