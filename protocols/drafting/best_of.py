"""Best of N: several drafts of a speech, of which a judge picks the one that is spoken."""

from dataclasses import dataclass, replace

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import ADVOCATE, Agent, Brief, Speaker
from oversight.protocols.errors import Unreadable
from oversight.protocols.gather import gather_in_order
from oversight.protocols.judges.judge import Judge
from oversight.protocols.question import Answer
from oversight.protocols.transcript import Transcript, Turn


@dataclass(frozen=True)
class BestOf(Speaker):
    """N draws of every speech; the one with which a selection judge believes `side` most is spoken.

    The judge hears the floor with each candidate as its last turn (Khan et al. 2024,
    arXiv:2402.06782). The spoken turn's score is never below that of draw 0; of equals the
    lowest draw is spoken, so raising N changes a speech only for a better one.
    """

    n: int
    agent: Agent
    judge: Judge
    temperature: float | None = 0.8
    """Of the draws; at 0 all of them would be one."""

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"best of {self.n}: there must be at least one draw")

    @property
    def name(self) -> str:
        return f"{self.agent.name} best of {self.n}"

    @property
    def base_agent(self) -> Agent:
        return self.agent

    async def speak(
        self,
        floor: Transcript,
        side: Answer | None,
        ask: Ask,
        brief: Brief = ADVOCATE,
        *,
        words: int | None = None,
    ) -> Turn:
        """The best draft. A speaker without a side has nothing to select for: draw 0 is spoken.

        A draft after which the judge cannot be read is not spoken; Unreadable if that is all.
        """
        drafter = replace(
            self.agent,
            temperature=self.temperature,
            words=self.agent.words if words is None else words,
        )
        call = drafter.compose(floor, side, brief)
        draws = range(self.n if side else 1)
        turns = await gather_in_order(
            *(drafter.deliver(call.drawn(n), floor, side, ask, brief) for n in draws)
        )
        if side is None:
            return turns[0]
        beliefs = await gather_in_order(*(self._belief(floor.then(t), side, ask) for t in turns))
        readable = [belief for belief in beliefs if not isinstance(belief, Unreadable)]
        if not readable:
            raise next(belief for belief in beliefs if isinstance(belief, Unreadable))
        return turns[beliefs.index(max(readable))]

    async def _belief(self, floor: Transcript, side: Answer, ask: Ask) -> float | Unreadable:
        try:
            return await self.judge.belief(floor, side, ask)
        except Unreadable as fault:
            return fault
