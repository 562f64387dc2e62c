"""Baselines: the judge alone, one advocate, and consultancies, in which no side rebuts another.

Consultancy is by Khan et al. (2024, arXiv:2402.06782), double consultancy by Arnesen et al. (2024,
arXiv:2409.16636)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..errors import gather_deterministic
from ..protocol import Conversation, WithHorizon
from ..question import Answer
from ..seat import Role, hear
from ..settings import Count
from ..transcript import Transcript

ADVOCATE_ROLE = Role("propaganda.advocate", "Advocate")


@dataclass(frozen=True)
class NaiveJudge(Conversation):
    """The judge answers alone.

    World a: one judge call.
    Shared: everything, since the call is the same in both worlds. The ASD of a judge with knowledge
    is not zero; lift is measured from here."""

    sections: ClassVar[tuple[str, ...]] = ("naive_judge",)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        return transcript


@dataclass(frozen=True)
class Propaganda(Conversation):
    """One agent argues for `side`, unopposed.

    World a: the agent speaks once for a, and the judge decides.
    Shared: nothing."""

    agent: Speaker

    sections: ClassVar[tuple[str, ...]] = ("propaganda",)

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        return await hear(transcript, self.seat(self.agent, side, ADVOCATE_ROLE), ask=ask)


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
    client does by default."""

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


@dataclass(frozen=True)
class DoubleConsultancy(Consultancy):
    """One independent consultancy for each answer. The judge reads them all and decides once.

    It lies between consultancy and debate: its gain over consultancy comes from hearing both sides,
    and debate's gain over it from rebuttal.

    World a: a consultancy for a and one for every other answer, each of `turns` speeches and
    unaware of the others. The judge reads all of them, in answer order, and decides.
    Shared: everything, with one policy in both seats. The consultancy for an answer is the same in
    every world and in the plain protocol, so its speeches are paid once. The order of the
    consultancies does not depend on a. A client who begins asks all consultants the same opening
    question.
    Reward: for each consultant the judge's belief in its own answer.
    A judge asked in both orders reads the consultancies in the same places both times, with their
    labels exchanged.

    Where we differ: the consultants of Arnesen et al. also argue against the other answer, and
    quote the passage. Ours argue for their own, and quote if their agent has `quotes`."""

    opponent: Speaker | None = None
    """The consultant for the other answers. None: a copy of the agent."""

    row: ClassVar[str] = f"double {Consultancy.row}"
    sections: ClassVar[tuple[str, ...]] = ("double_consultancy", "consultancy")

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        question = transcript.question
        consultancies = await gather_deterministic(
            *(self._consult(transcript, side, advised, ask) for advised in question.answers)
        )
        return transcript.then(*(turn for one in consultancies for turn in one.turns))

    async def _consult(
        self, transcript: Transcript, side: Answer, advised: Answer, ask: Ask
    ) -> Transcript:
        """The consultancy for one answer. Its client is named after the consultant it asks."""
        separate = Consultancy(
            self.judge,
            self.agent if advised == side else self.opponent or self.agent,
            self.first,
            self.turns,
            horizon=self.horizon,
            prompts=self.prompts,
        )
        consultancy = await separate.converse(transcript, advised, ask)
        client = f"Client of Consultant {advised.label}"
        return replace(
            consultancy,
            turns=tuple(
                turn if turn.side else replace(turn, speaker=client) for turn in consultancy.turns
            ),
        )
