"""Double consultancy (Arnesen et al. 2024, arXiv:2409.16636): the judge hears separate sides."""

from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..errors import gather_deterministic
from ..question import Answer
from ..transcript import Transcript
from .consultancy import Consultancy


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
    quote the passage. Ours argue for their own, and quote if their agent has `quotes`.
    """

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
