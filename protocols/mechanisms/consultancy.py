"""Consultancy (Khan et al. 2024, arXiv:2402.06782): the judge questions one expert; or one for each
side, neither of whom hears the other."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..gather import gather_in_order
from ..protocol import Conversation, Lasting
from ..question import Answer
from ..seat import Role, hear
from ..settings import ranged
from ..transcript import Transcript

CONSULTANT = Role("consultancy.consultant", "Consultant")
CLIENT = Role("consultancy.client", "Client", "ask")


@dataclass(frozen=True)
class Consultancy(Lasting, Conversation):
    """A consultant argues for `side`; a client asks questions.

    World a: client and consultant take turns, beginning with `first`, for `turns` speeches in all;
    then the judge decides. The client is the judge's model, and reads the passage only if the
    judge does.
    Shared: the opening question of a client who begins. Every other call depends on a. A longer
    consultancy begins with the calls of a shorter one.

    Where we differ: the consultant of Khan et al. always speaks first; in SOlib, as here, the
    client does by default.
    """

    agent: Speaker
    first: Literal["client", "consultant"] = "client"
    turns: int = ranged(2)
    """An even number if the client begins and an odd one if the consultant does; otherwise the last
    question is never answered, which the paper's own grid allows."""

    row: ClassVar[str] = "consultancy {0.first} first {0.length}"
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
                seat = self.judge_seat(self.brief(CLIENT, turn=n + 1))
            else:
                seat = self.seat(self.agent, side, self.consulting, turn=n + 1)
            transcript = await hear(transcript, seat, ask=ask)
        return transcript


@dataclass(frozen=True)
class DoubleConsultancy(Consultancy):
    """One independent consultancy for each answer; the judge reads them all and decides once
    (Arnesen et al. 2024, arXiv:2409.16636).

    It stands between consultancy and debate: what it gains over consultancy is due to hearing both
    sides, and what debate gains over it is due to rebuttal.

    World a: a consultancy for a and one for every other answer, each of `turns` speeches and held
    as if the others did not exist; the judge reads all of them, in answer order, and decides.
    Shared: everything, with one policy in both seats. The consultancy for an answer is the same in
    every world, and the same as in the plain protocol, so its speeches are paid once; and the order
    of the consultancies does not depend on a. A client who begins asks all consultants the same
    opening question.
    Reward: for each consultant the judge's belief in its own answer.
    A judge that is asked in both orders reads the consultancies in the same places both times, with
    their labels exchanged.

    Where we differ: the consultants of Arnesen et al. also argue against the other answer, and
    quote the passage; ours argue for their own, and quote if their agent has `quotes`.
    """

    opponent: Speaker | None = None
    """Who advises for the other answers; None: a copy of the agent."""

    row: ClassVar[str] = f"double {Consultancy.row}"
    sections: ClassVar[tuple[str, ...]] = ("double_consultancy", "consultancy")

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Transcript:
        question = transcript.question
        held = await gather_in_order(
            *(self._consult(transcript, side, each, ask) for each in question.answers)
        )
        return transcript.then(*(turn for each in held for turn in each.turns))

    async def _consult(
        self, transcript: Transcript, side: Answer, advised: Answer, ask: Ask
    ) -> Transcript:
        """The consultancy for one answer; its client is named after the consultant that it asks."""
        alone = Consultancy(
            self.judge,
            self.agent if advised == side else self.opponent or self.agent,
            self.first,
            self.turns,
            horizon=self.horizon,
            prompts=self.prompts,
        )
        held = await alone.converse(transcript, advised, ask)
        named = f"Client of Consultant {advised.label}"
        return replace(
            held,
            turns=tuple(turn if turn.side else replace(turn, speaker=named) for turn in held.turns),
        )
