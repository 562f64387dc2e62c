"""Interactive debate (Khan et al. 2024, arXiv:2402.06782): the judge questions the debaters."""

from dataclasses import dataclass
from typing import ClassVar

from ...cache.call import Ask
from ..agents.agent import Brief
from ..seat import Role, hear
from ..transcript import Transcript
from .debate import Debate

QUESTIONER = Role("interactive_debate.questioner", "Judge", "ask")


@dataclass(frozen=True)
class InteractiveDebate(Debate):
    """A debate in which the judge opens every round but the first with questions to both sides.

    World a: round 1 of the debate; in each further round, one turn of questions by the judge's
    model, which has heard the transcript, and then the speeches that answer them; after the last
    round the judge decides.
    Shared: what the plain debate shares. Questions depend on the transcript alone, so where both
    worlds have the same transcript (simultaneous, one policy in both seats) they have the same
    questions. No call is shared with a plain debate, since the rules say that the judge will ask; a
    longer interactive debate begins with the calls of a shorter one.
    Reward: as in debate.

    In the paper the judge asks at the end of a round; in its authors' code, as here, at the start
    of the next one, so that no question goes without an answer.
    """

    row: ClassVar[str] = f"interactive {Debate.row}"
    sections: ClassVar[tuple[str, ...]] = ("interactive_debate", "debate")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 2:
            raise ValueError(
                f"rounds: {self.rounds} leaves the judge no round to ask before; use 2 or more"
            )

    def judging(self, block: str = "judge") -> Brief | None:
        return self.brief(Role("debate.judge", "Judge"))

    async def open_round(self, number: int, transcript: Transcript, ask: Ask) -> Transcript:
        if number == 1:
            return transcript
        brief = self.brief(QUESTIONER, round=number)
        return await hear(transcript, self.judge_seat(brief), ask=ask)
