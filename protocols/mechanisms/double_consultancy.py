"""Double consultancy (Arnesen et al. 2024, arXiv:2409.16636): the judge hears both sides, and
neither side hears the other."""

from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..gather import gather_deterministic
from ..question import Answer
from ..transcript import Transcript
from .consultancy import Consultancy


@dataclass(frozen=True)
class DoubleConsultancy(Consultancy):
    """One independent consultancy for each answer; the judge reads them all and decides once.

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
        held = await gather_deterministic(
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
