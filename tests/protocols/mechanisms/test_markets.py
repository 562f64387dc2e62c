"""What holds of every mechanism in which prices are stated."""

from collections.abc import Callable

import pytest

from oversight.protocols.agents.agent import Agent
from oversight.protocols.errors import Unreadable
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.adversarial_propaganda import AdversarialPropaganda
from oversight.protocols.mechanisms.market_making import MarketMaking
from oversight.protocols.protocol import Protocol
from tests.fakes import CRATES, Scripted

JUDGE, ALICE, MARY = StatedJudge("judge"), Agent("alice"), Agent("mary")
MARKETS: dict[str, Callable[..., Protocol]] = {
    "adversarial propaganda": lambda **settings: AdversarialPropaganda(
        JUDGE, ALICE, MARY, **settings
    ),
    "market making": lambda **settings: MarketMaking(JUDGE, MARY, **settings),
}

pytestmark = pytest.mark.parametrize("kind", MARKETS)


@pytest.mark.parametrize(
    "stated", ["about even", '{"A": 0.5}', '{"A": 0, "B": 0}', '{"A": -1, "B": 2}']
)
async def test_prices_that_cannot_be_read_leave_the_world_without_a_verdict(kind: str, stated: str):
    with pytest.raises(Unreadable):
        await MARKETS[kind]().run(CRATES, CRATES.answers[0], Scripted(lambda call: stated))
