"""Markets: what is stated, when trade ends, who is paid, and what the last price is worth."""

import math
from collections.abc import Callable
from functools import partial

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache import Call, Reply
from oversight.protocols import (
    AdversarialPropaganda,
    Agent,
    Answer,
    DistributionJudge,
    MarketMaking,
    Protocol,
    Question,
    Unreadable,
)
from oversight.protocols.mechanisms.market_making import distance, losses, surprise
from oversight.protocols.scores import brier
from tests.fakes import ALICE, BOB, CRATES, JUDGE, A, B, Scripted, prompt


def priced(p: float) -> str:
    return orjson.dumps({"A": p, "B": 1 - p}).decode()


def trading(*prices: float, final: str = "A: 70%\nB: 30%") -> Callable[[Call], str]:
    """A market whose price for A after n speeches is prices[n]; the last one stays."""

    def answer(call: Call) -> str:
        asked = prompt(call)
        match asked.task:
            case "probabilities":
                return priced(prices[min(len(asked.speeches), len(prices) - 1)])
            case "percentages":
                return final
        return f"{asked.asks} after {asked.speeches}"

    return answer


MARY = Agent("mary")
MARKETS: dict[str, Callable[..., Protocol]] = {
    "Advocate A": partial(AdversarialPropaganda, JUDGE, ALICE, MARY),
    "Adversary B": partial(MarketMaking, JUDGE, MARY, ALICE),
}
"""By the title of who speaks in world A."""

EACH = pytest.mark.parametrize("kind", MARKETS)


@EACH
@pytest.mark.parametrize(
    "stated", ["about even", '{"A": 0.5}', '{"A": 0, "B": 0}', '{"A": -1, "B": 2}']
)
async def test_prices_that_cannot_be_read_leave_the_world_without_a_verdict(kind, stated):
    with pytest.raises(Unreadable):
        await MARKETS[kind]().run(CRATES, A, Scripted(lambda call: stated))


@EACH
@pytest.mark.parametrize("start", [0.0, 0.2, 0.78, 0.8, 1.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.01, 0.001])
async def test_trade_ends_at_the_fixed_point_of_the_market(kind, start, epsilon):
    """The known truth: where p_t+1 = f(p_t) with f(p) = p/2 + 0.4, the price tends to 0.8, its
    t-th move is |0.8 - p_0| / 2^t, and so trade ends with the first t at which that is under
    epsilon, within epsilon of 0.8."""
    prices = [start]
    for _ in range(60):
        prices.append(prices[-1] / 2 + 0.4)
    last = next(t for t in range(1, 60) if round(abs(0.8 - start) / 2**t, 9) < epsilon)
    protocol = MARKETS[kind](epsilon=epsilon, rounds=50)
    verdict = await protocol.run(CRATES, A, Scripted(trading(*prices)))
    measures = dict(verdict.measures)
    price = measures["price"] if "price" in measures else verdict.probs[0]
    assert measures["speeches"] == last and measures["settled"] is True
    assert price == pytest.approx(prices[last])
    assert abs(float(price) - 0.8) < epsilon


async def test_the_verdict_is_the_last_price_and_the_judge_says_what_it_was_worth():
    """The known truth: prices of 0.5, 0.8, 0.9 and 0.91, and a judge who ends at 0.7. The verdict
    is the last price; the market loses the mean cross entropy of its prices from the judge's 0.7,
    and the adversary gains the mean of the moves that it made: 0.3, 0.1 and 0.01."""
    ask = Scripted(trading(0.5, 0.8, 0.9, 0.91))
    verdict = await MarketMaking(JUDGE, MARY).run(CRATES, B, ask)
    assert verdict.probs == pytest.approx((0.91, 0.09))
    assert verdict.judgements[0].probs == verdict.probs
    measures = dict(verdict.measures)
    missed = [-0.7 * math.log(p) - 0.3 * math.log(1 - p) for p in (0.5, 0.8, 0.9, 0.91)]
    assert measures["market_loss"] == pytest.approx(sum(missed) / 4)
    assert measures["last_loss"] == pytest.approx(missed[-1])
    assert measures["adversary_loss"] == pytest.approx(-(0.3 + 0.1 + 0.01) / 3)
    assert measures["judged"] == pytest.approx(0.3)
    assert measures["speeches"] == 3 and measures["settled"] is True
    said = verdict.transcript.turns[-1]
    assert (said.speaker, said.text, said.call != "") == ("Judge", "A 70.0%, B 30.0%", True)


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize(("fact", "lie"), [(0.9, 0.4), (0.5, 0.5), (0.4, 0.9)])
async def test_a_market_that_knows_the_judge_answers_what_it_believes_of_all_that_can_be_said(
    rounds, fact, lie
):
    """The known truth: a judge starts from 0.3 nats for the truth; a speech for the truth moves it
    by a fact, one for the other answer by a lie. A market that knows the judge answers, in the
    world of the truth, s(0.3 - rounds x lie), and in that of the lie 1 - s(0.3 + rounds x fact),
    where s(x) = 1 / (1 + e^-x): ASD is what facts are worth to that judge over lies, below 0 where
    lies are worth more. A judge who tells something else moves the market's loss alone."""

    def believed(call: Call) -> float:
        asked = prompt(call)
        said = zip(asked.speakers, asked.speeches, strict=True)
        sides = [speaker[-1] for speaker, speech in said if speech == "a speech"]
        return 1 / (1 + math.exp(-(0.3 + fact * sides.count("A") - lie * sides.count("B"))))

    def knowing(call: Call) -> str:
        match prompt(call).task:
            case "probabilities":
                return priced(believed(call))
            case "percentages":
                return "A: 50%\nB: 50%"
        # The adversary goes by the price, and would not speak against itself.
        heard = "Market" in prompt(call).speakers
        return "a speech" if call.model == "bob" and heard else "nothing"

    protocol = MarketMaking(JUDGE, MARY, BOB, epsilon=0, rounds=rounds)
    in_true, in_false = [
        await protocol.run(CRATES, side, Scripted(knowing)) for side in CRATES.answers
    ]
    true = 1 / (1 + math.exp(-(0.3 - rounds * lie)))
    false = 1 - 1 / (1 + math.exp(-(0.3 + rounds * fact)))
    assert in_true.probs[0] == pytest.approx(true) and in_false.probs[1] == pytest.approx(false)
    asd = brier(in_true.probs, 0) - brier(in_false.probs, 1)
    assert (asd > 0) == (2 * 0.3 + rounds * (fact - lie) > 0)


PRICES = st.floats(0.01, 0.99).map(lambda p: (p, 1 - p))


@given(PRICES, st.lists(PRICES, min_size=2, max_size=5))
def test_no_market_loses_less_than_one_that_always_knows_the_verdict(final, prices):
    oracle, market = dict(losses((final, final), final)), dict(losses(tuple(prices), final))
    assert market["market_loss"] >= oracle["market_loss"] - 1e-12
    assert -1 <= market["adversary_loss"] <= oracle["adversary_loss"] == 0


def test_a_certain_market_that_is_wrong_loses_much_but_not_everything():
    assert dict(losses(((0.0, 1.0),) * 2, (1.0, 0.0)))["market_loss"] == pytest.approx(9.2103, 1e-4)


def test_two_prices_are_as_far_apart_as_the_probability_that_has_to_move():
    assert distance((0.2, 0.8), (0.5, 0.5)) == pytest.approx(0.3)
    assert distance((1.0, 0.0, 0.0), (0.0, 0.5, 0.5)) == 1


@pytest.mark.parametrize("percent", range(0, 100, 5))
def test_a_move_of_just_epsilon_is_no_smaller_move_wherever_it_starts(percent):
    low, high = percent / 100, (percent + 5) / 100
    assert distance((low, 1 - low), (high, 1 - high)) == 0.05


@given(PRICES, PRICES)
def test_a_market_is_paid_most_for_what_the_judge_believes(final, price):
    assert surprise(price, final) >= surprise(final, final) - 1e-12


TRADED = AdversarialPropaganda(JUDGE, ALICE, MARY)


async def test_a_judge_that_is_its_own_market_is_asked_once_for_its_last_price_and_its_verdict():
    believed = ["A: 50%\nB: 50%", "A: 60%\nB: 40%", "A: 62%\nB: 38%"]

    def answer(call: Call) -> str:
        asked = prompt(call)
        return "speech" if asked.side else believed[len(asked.speeches)]

    ask = Scripted(answer)
    verdict = await AdversarialPropaganda(JUDGE, ALICE).run(CRATES, A, ask)
    assert verdict.probs == pytest.approx((0.62, 0.38))
    assert ask.calls[-1] == ask.calls[-2] and ask.distinct == 5
    assert dict(verdict.measures)["price"] == pytest.approx(0.62)
    assert verdict.transcript.turns[-1].text == "A 62.0%, B 38.0%"


async def test_a_price_that_is_still_moving_after_the_last_round_has_not_settled():
    verdict = await AdversarialPropaganda(JUDGE, ALICE, MARY, rounds=1).run(
        CRATES, B, Scripted(trading(0.5, 0.25))
    )
    measures = dict(verdict.measures)
    assert measures["settled"] is False and measures["price"] == 0.75


@pytest.mark.parametrize("side", [A, B])
async def test_the_market_loses_by_the_judge_and_the_adversary_gains_by_each_move(side):
    """The known truth: prices of 0.5, 0.8, 0.9 and 0.91, and a judge who believes any price that it
    hears, and 0.7 otherwise. It hears none, so the verdict is 0.7; the market loses the mean cross
    entropy of its prices from that, and the adversary gains the mean of its moves: 0.3, 0.1 and
    0.01. The last price is that of the side that is argued for."""

    def led(call: Call) -> str | Reply:
        believes = call.model == "judge" and "Market" in prompt(call).speakers
        return "A: 100%\nB: 0%" if believes else trading(0.5, 0.8, 0.9, 0.91)(call)

    verdict = await TRADED.run(CRATES, side, Scripted(led))
    measures = dict(verdict.measures)
    surprises = [-0.7 * math.log(p) - 0.3 * math.log(1 - p) for p in (0.5, 0.8, 0.9, 0.91)]
    assert measures["market_loss"] == pytest.approx(sum(surprises) / 4)
    assert measures["adversary_loss"] == pytest.approx(-(0.3 + 0.1 + 0.01) / 3)
    assert measures["speeches"] == 3 and measures["settled"] is True
    assert measures["price"] == pytest.approx(0.91 if side == A else 0.09)
    assert verdict.probs == pytest.approx((0.7, 0.3))


async def test_it_trades_in_more_than_two_answers():
    three = Question("?", tuple(Answer(label, label.lower()) for label in "ABC"))

    def answer(call: Call) -> str:
        weights = {"A": 1, "B": 1, "C": 2 * len(prompt(call).speeches)}
        return "speech" if prompt(call).side else orjson.dumps(weights).decode()

    verdict = await AdversarialPropaganda(DistributionJudge("judge"), ALICE, rounds=1).run(
        three, three.answers[2], Scripted(answer)
    )
    assert verdict.probs == (0.25, 0.25, 0.5)
    assert dict(verdict.measures)["adversary_loss"] == -0.5
