"""Double consultancy (Arnesen et al. 2024, arXiv:2409.16636): both sides are heard, and neither
hears the other."""

from dataclasses import dataclass, replace
from typing import ClassVar

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.gather import gather_in_order
from oversight.protocols.mechanisms.consultancy import Consultancy
from oversight.protocols.question import Answer
from oversight.protocols.transcript import Transcript


@dataclass(frozen=True)
class DoubleConsultancy(Consultancy):
    """Independent consultancies, one an answer, judged once (Arnesen et al. 2024).

    It stands between consultancy and debate: what debate gains over it is due to rebuttal, and
    what it gains over consultancy to hearing both sides.

    World a: a consultancy for a and one for every other answer, each `turns` speeches long and each
    as if the others did not exist; the judge reads all, in answer order, and decides.
    Shared: with one policy in both seats, everything. Each consultancy is that of its side
    whichever world asks, and is paid once with the plain consultancy too; the order in which they
    are shown does not depend on a. A client who begins asks both consultants the same first thing.
    Reward: the judge's belief in one's own answer.

    Where we differ: the consultants of Arnesen et al. also argue against the other answer, and
    quote the passage; ours argue for their own, and quote if their agent has `quotes`.
    """

    opponent: Speaker | None = None
    """Who advises for the other answer; None: a copy of the agent."""

    sections: ClassVar[tuple[str, ...]] = ("double_consultancy", "consultancy")

    @property
    def name(self) -> str:
        return f"double {super().name}"

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript:
        consultancies = await gather_in_order(
            *(
                self._consult(
                    self.agent if answer == side else self.opponent or self.agent,
                    floor,
                    answer,
                    ask,
                )
                for answer in floor.question.answers
            )
        )
        return floor.then(*(turn for consultancy in consultancies for turn in consultancy.turns))

    async def _consult(
        self, consultant: Speaker, floor: Transcript, side: Answer, ask: Ask
    ) -> Transcript:
        """The consultancy for `side`; its client is called by the consultant it asks."""
        alone = Consultancy(self.judge, consultant, self.first, self.turns, prompts=self.prompts)
        held = await alone.converse(floor, side, ask)
        named = f"Client of Consultant {side.label}"
        return replace(
            held,
            turns=tuple(turn if turn.side else replace(turn, speaker=named) for turn in held.turns),
        )
