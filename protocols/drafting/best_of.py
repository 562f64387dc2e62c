"""Best of N: several drafts of a speech, of which a judge picks the one that is spoken."""

from dataclasses import dataclass, replace

from msgspec import structs

from ...cache.call import Ask, used_as
from ..agents.agent import Agent, Brief
from ..doubts import readings
from ..gather import gather_in_order
from ..judges.judge import Judge
from ..question import Answer
from ..settings import require_positive
from ..transcript import Transcript, Turn
from .wrapper import Wrapper, heard_as


@dataclass(frozen=True)
class BestOf(Wrapper):
    """N drafts of a speech; the one after which a selection judge believes `side` most is spoken.

    The judge reads the transcript with each candidate as its last turn (Khan et al. 2024,
    arXiv:2402.06782), and is asked as the judge of the protocol is. Draft 0 is what the agent would
    say without drafts, at its own temperature, so it is shared with rows that have none, unless the
    agent has a budget, of which each draft has a part. The spoken turn's score is never below that
    of draft 0; ties go to the lowest draft, so raising N changes a speech only for a better one.
    """

    n: int
    agent: Agent
    judge: Judge
    temperature: float | None = 0.8
    """Sampling temperature of the drafts after the first; at 0 they would all be identical."""

    def __post_init__(self) -> None:
        require_positive(self, "n")

    @property
    def name(self) -> str:
        return f"{self.agent.name} best of {self.n}"

    @property
    def apart(self) -> int:
        return self.n

    async def speak_for(self, side: Answer, transcript: Transcript, ask: Ask, brief: Brief) -> Turn:
        """The draft after which the judge believes `side` most. A belief that cannot be read counts
        as none at all, and is told in the turn, with the drafts that are not spoken."""
        first = self.agent.share(self.n)
        drafter = replace(first, temperature=self.temperature)
        call, hearing = drafter.compose(transcript, side, brief), heard_as(brief, side)
        calls = [first.compose(transcript, side, brief), *(call.drawn(n) for n in range(1, self.n))]
        drafting, rating = used_as(ask, "draft"), used_as(ask, "rate")
        turns = await gather_in_order(
            *(drafter.deliver(each, transcript, side, drafting, brief) for each in calls)
        )
        beliefs = await readings(
            *(self.judge.belief(transcript.then(turn), side, rating, hearing) for turn in turns),
            needed=False,
        )
        # A draft that says nothing is spoken only if no other says more.
        best = max(range(self.n), key=lambda n: (not turns[n].silent, beliefs.read.get(n, 0.0)))
        others = tuple(turn for n, turn in enumerate(turns) if n != best)
        return structs.replace(turns[best], drafts=others, doubts=beliefs.doubts)
