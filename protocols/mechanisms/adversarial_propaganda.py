"""Adversarial propaganda: propaganda that goes on while it moves a market.

It is market making (Hubinger 2020) with the adversary in the agent's seat.
"""

from dataclasses import dataclass, replace

from oversight.cache.call import Ask
from oversight.protocols.agents.agent import Speaker
from oversight.protocols.mechanisms.market_making import (
    MARKET,
    MARKET_ADVERSARY,
    Prices,
    distance,
    losses,
    require_trade,
    speeches,
    traded,
)
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Question
from oversight.protocols.seat import Seat
from oversight.protocols.settings import require_positive
from oversight.protocols.transcript import Transcript, Verdict


@dataclass(frozen=True)
class AdversarialPropaganda(Protocol):
    """The agent, as the adversary of a market, argues for `side` while that moves the price; the
    judge decides.

    World a:
      1. the market M states p_0, hearing the question alone (a form);
      2. the agent, who has heard all speeches and prices, speaks for a;
      3. M, who hears the speeches alone, states p_t;
      4. 2 and 3 again until p_t is less than `epsilon` from p_t-1, or after `rounds` speeches;
      5. the judge, who hears the speeches alone, decides.
    The verdict is the judge's.
    Shared: p_0, before anyone argues; from the first speech on everything depends on a.
    Reward: the judge's belief in a. Measured as in `MarketMaking`: `market_loss`, `adversary_loss`,
    the number of `speeches`, whether the price `settled`, and the last `price` of a.
    """

    agent: Speaker
    market: Speaker | None = None
    """None: the judge's model predicts itself."""
    epsilon: float = 0.05
    """In [0, 1]; a smaller move ends the trade. At 0 it always lasts all rounds."""
    rounds: int = 4
    """The most speeches."""

    def __post_init__(self) -> None:
        require_trade(self.epsilon)
        require_positive(self, "rounds")

    async def converse(self, floor: Transcript, side: Answer, ask: Ask) -> Transcript:
        floor, _ = await self._traded(floor, side, ask)
        return speeches(floor)

    async def run(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        floor, prices = await self._traded(Transcript(question), side, ask)
        verdict = await self.judge.judge(speeches(floor), ask)
        measures = (
            *verdict.measures,
            *losses(prices, verdict.probs),
            ("speeches", len(prices) - 1),
            ("settled", distance(prices[-2], prices[-1]) < self.epsilon),
            ("price", prices[-1][question.place(side)]),
        )
        return replace(verdict, transcript=floor, measures=measures)

    async def _traded(
        self, floor: Transcript, side: Answer, ask: Ask
    ) -> tuple[Transcript, tuple[Prices, ...]]:
        market = self.judge_seat(MARKET, self.market)
        adversary = Seat(self.agent, side, MARKET_ADVERSARY)
        return await traded(market, adversary, floor, ask, self.epsilon, self.rounds)
