"""Adversarial propaganda: propaganda that goes on while it moves a market.

It is market making (Hubinger 2020, «AI safety via market making») with the adversary in the agent's
seat.
"""

from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace

from ...cache.call import Ask
from ..agents.agent import Speaker
from ..protocol import Lasting
from ..question import Answer, Question
from ..seat import Role
from ..settings import ranged
from ..transcript import Transcript, Turn, Verdict
from .market_making import Prices, distance, in_words, losses, prices_form, speeches, traded

ADVOCATE = Role("adversarial_propaganda.advocate", "Advocate")
FORECASTER = Role("adversarial_propaganda.market", "Market")


@dataclass(frozen=True)
class AdversarialPropaganda(Lasting):
    """The agent, as the adversary of a market, argues for `side` while that moves the price; then
    the judge decides.

    World a:
      1. the market M states p_0 with only the question before it;
      2. the agent, who has heard all speeches and prices, speaks for a;
      3. M, who hears the speeches alone, states p_t;
      4. steps 2 and 3 are repeated until p_t is less than `epsilon` from p_t-1, or for `rounds`
         speeches;
      5. the judge, who hears the speeches alone, decides.
    M is the judge, and its price what the judge believes so far, asked in the judge's own way; the
    last price is then the verdict, and the same call. Or M is another model, which fills in a form
    with what it thinks that the judge will believe.
    Shared: p_0, before anyone argues; from the first speech on everything depends on a.
    Reward: the judge's belief in a.
    Measured: as in `MarketMaking`, `market_loss`, `adversary_loss`, the number of `speeches`, and
    whether the price `settled`; and the last `price` of a.
    """

    agent: Speaker
    market: Speaker | None = None
    """None: the judge is its own market."""
    epsilon: float = ranged(0.05, least=0, most=1)
    """In [0, 1]; a smaller move ends the trade. At 0 it always lasts all rounds."""
    rounds: int = ranged(4)
    """The most speeches."""

    sections: ClassVar[tuple[str, ...]] = ("adversarial_propaganda",)

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        transcript, prices = await traded(
            lambda heard: self._price(heard, ask),
            self.seat(self.agent, side, ADVOCATE),
            Transcript(question),
            ask,
            self.epsilon,
            self.rounds,
        )
        verdict = await self.judge.judge(speeches(transcript), ask, self.judging())
        measures = (
            *verdict.measures,
            *losses(prices, verdict.probs),
            ("speeches", len(prices) - 1),
            ("settled", distance(prices[-2], prices[-1]) < self.epsilon),
            ("price", prices[-1][question.place(side)]),
        )
        return replace(verdict, transcript=transcript, measures=measures)

    async def _price(self, heard: Transcript, ask: Ask) -> tuple[Turn, Prices]:
        """What M says, having heard these speeches. Unreadable if it states no prices."""
        if self.market is not None:
            market = self.seat(self.market, None, FORECASTER)
            return await market.fill(prices_form(market, heard.question), heard, ask)
        so_far = await self.judge.judge(heard, ask, self.judging())
        call = so_far.judgements[-1].call if so_far.judgements else ""
        said = in_words(heard.question, so_far.probs)
        return Turn(FORECASTER.title, said, call=call), so_far.probs
