"""Debates, consultancies, open or not, and markets: known truths, and what they end with."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oversight.cache import Call, Reply
from oversight.protocols import (
    AdversarialPropaganda,
    Agent,
    Answer,
    Consultancy,
    Debate,
    DistributionJudge,
    DoubleConsultancy,
    InteractiveDebate,
    Jury,
    MarketMaking,
    NaiveJudge,
    OpenConsultancy,
    OpenDebate,
    OpenTrust,
    Problem,
    Propaganda,
    Protocol,
    Question,
    StatedJudge,
    Unreadable,
    WeakToStrong,
)
from oversight.protocols.mechanisms.market_making import distance, losses, surprise
from oversight.protocols.scores import brier
from tests.fakes import ALICE, APPLES, BOB, CRATES, JUDGE, A, B, Scripted, addresses, paid, prompt


async def test_a_judge_who_believes_whoever_spoke_last_is_won_by_the_reply():
    """The known truth: a judge who believes the last speaker. In a sequential debate that is the
    opponent, so each side loses its own world, and accuracy ASD is 0. In a simultaneous one
    speeches are heard in answer order, so (B), which is wrong, wins both worlds, and ASD is -1."""

    def last(call: Call) -> str:
        asked = prompt(call)
        if asked.task != "percentages":
            return "a speech"
        return "A: 100%\nB: 0%" if asked.speakers[-1] == "Debater A" else "A: 0%\nB: 100%"

    lost, won = (0.0, 1.0), (1.0, 0.0)
    for simultaneous, verdicts, expected in ((False, [lost, won], 0), (True, [lost, lost], -1)):
        protocol = Debate(JUDGE, ALICE, BOB, simultaneous=simultaneous)
        worlds = await protocol.worlds(APPLES, Scripted(last))
        assert [verdict.probs for verdict in worlds] == verdicts
        asd = await protocol.agent_score_difference(APPLES, Scripted(last), "accuracy")
        assert asd == expected


@pytest.mark.parametrize(("simultaneous", "order"), [(True, "ABC" * 2), (False, "BAC" * 2)])
async def test_every_answer_has_an_advocate(simultaneous, order):
    three = replace(CRATES, answers=(*CRATES.answers, Answer("C", "12")))

    def says(call: Call) -> str:
        asked = prompt(call)
        judges = asked.task == "percentages"
        return "A: 50%\nB: 30%\nC: 20%" if judges else f"{asked.side} by {call.model}"

    debate = Debate(JUDGE, ALICE, Agent("bob"), simultaneous=simultaneous)
    debate.check(three)
    verdict = await debate.run(three, three.answers[1], Scripted(says))
    spoke = [turn.text.split(" by ") for turn in verdict.transcript.turns]
    assert "".join(side for side, _ in spoke) == order
    assert {(side, model) for side, model in spoke} == {("A", "bob"), ("B", "alice"), ("C", "bob")}


@pytest.mark.parametrize("simultaneous", [True, False])
async def test_what_only_a_question_brings_out_decides_for_the_truth(simultaneous):
    """The known truth: evidence comes out only where the judge asks for it, and only the debater
    who is right has any. Without questions the judge is at even odds, and Brier ASD is 0; with them
    it is sure of the truth in both worlds, and ASD is 0 + 2."""

    def witnesses(call: Call) -> str:
        asked = prompt(call)
        match asked.task:
            case "ask":
                return f"Show me page {len(asked.speeches)}."
            case "percentages":
                # A page that nobody asked for is no evidence.
                shown = {
                    s
                    for who, s in zip(asked.speakers, asked.speeches, strict=True)
                    if who == "Debater A"
                }
                wanted = {
                    s
                    for who, s in zip(asked.speakers, asked.speeches, strict=True)
                    if who == "Judge"
                }
                proof = {f"Here: {each}" for each in wanted}
                return "A: 100%\nB: 0%" if proof & shown else "A: 50%\nB: 50%"
        pages = [s for who, s in zip(asked.speakers, asked.speeches, strict=True) if who == "Judge"]
        return f"Here: {pages[-1]}" if pages and asked.side == "A" else "Believe me."

    plain = Debate(JUDGE, ALICE, simultaneous=simultaneous)
    interactive = InteractiveDebate(JUDGE, ALICE, simultaneous=simultaneous)
    assert await plain.agent_score_difference(APPLES, Scripted(witnesses)) == 0
    assert await interactive.agent_score_difference(APPLES, Scripted(witnesses)) == 2


async def test_a_consultant_who_cannot_hear_the_other_cannot_copy_its_evidence():
    """The known truth: the consultant who is right has evidence and gives it when its client asks;
    the other would repeat whatever evidence it heard. Since it hears none, the judge, who reads
    both, is sure of the truth in both worlds: Brier ASD 0 + 2. Where no client asks, no evidence
    comes out, the judge is at even odds, and ASD is 0. Against an opponent without evidence the
    agent has some in the world of the truth alone: there the judge is sure, in the other at even
    odds, and ASD is 0 + 0.5."""

    def consulted(call: Call) -> str:
        asked = prompt(call)
        if asked.task == "ask":
            return "What is your evidence?" if call.model == "judge" else "Go on."
        if asked.task == "percentages":
            said = dict(zip(asked.speakers, asked.speeches, strict=True))
            a, b = ("evidence:" in said[f"Consultant {label}"] for label in "AB")
            return "A: 50%\nB: 50%" if a == b else f"A: {100 * a}%\nB: {100 * b}%"
        heard = [speech for speech in asked.speeches if "evidence:" in speech]
        if heard:
            return heard[-1]
        questioned = "What is your evidence?" in asked.speeches and call.model == "alice"
        return "evidence: page 7" if questioned and asked.side == "A" else "Believe me."

    asking = DoubleConsultancy(JUDGE, ALICE)
    silent = DoubleConsultancy(JUDGE, ALICE, first="consultant", turns=1)
    assert await asking.agent_score_difference(APPLES, Scripted(consulted)) == 2
    assert await silent.agent_score_difference(APPLES, Scripted(consulted)) == 0
    two = DoubleConsultancy(JUDGE, ALICE, opponent=BOB)
    assert await two.agent_score_difference(APPLES, Scripted(consulted)) == 0.5


OPENED = [
    (OpenConsultancy(JUDGE, ALICE), Consultancy(JUDGE, ALICE)),
    (OpenDebate(JUDGE, ALICE), Debate(JUDGE, ALICE)),
    (
        OpenDebate(JUDGE, ALICE, BOB, simultaneous=False),
        Debate(JUDGE, ALICE, BOB, simultaneous=False),
    ),
]


def script_opened(call: Call, chosen: str = "B") -> str:
    asked = prompt(call)
    match asked.task:
        case "choice":
            return orjson.dumps({"answer": chosen}).decode()
        case "percentages":
            return "A: 20%\nB: 80%"
    return f"{asked.asks} after {len(asked.speakers)}"


@pytest.mark.parametrize(("opened", "closed"), OPENED, ids=lambda p: p.name)
async def test_an_open_run_goes_as_the_closed_run_of_the_chosen_side_and_nobody_is_told_a_falsehood(
    opened, closed
):
    theirs, ours = Scripted(script_opened), Scripted(script_opened)
    expected = await closed.run(CRATES, B, theirs)
    verdict = await opened.run(CRATES, A, ours)
    said = [
        [(turn.speaker, turn.text) for turn in each.transcript.turns]
        for each in (verdict, expected)
    ]
    assert verdict.probs == expected.probs and said[0] == said[1]
    assert len(ours.calls) == len(theirs.calls) + 1
    told = [prompt(call) for call in ours.calls[1:]]
    assert all("first chose, freely" in each.system for each in told)
    argues = [each for each in told if each.side == "B"]
    assert argues and all("the answer that you chose is (B)" in each.user for each in argues)
    assert all("assigned" in each.user for each in told if each.side == "A")


async def test_asd_of_an_open_run_is_that_of_its_one_verdict():
    asd = await OpenDebate(JUDGE, ALICE).agent_score_difference(APPLES, Scripted(script_opened))
    # Brier: A, the truth, has 0.2 in both worlds: -(0.8^2 + 0.8^2) + (0.2^2 + 0.2^2).
    assert asd == pytest.approx(-1.2)


ANN, BEN = StatedJudge("ann"), StatedJudge("ben")


@pytest.mark.parametrize("size", [1, 2, 4])
async def test_the_error_that_each_judge_makes_for_itself_falls_with_their_number(size):
    """The known truth: judges who hear the debate state 0.7 of the answer for which the debaters
    have evidence, or 0.3 more or less, each for itself; without it they would be at 0.5. The mean
    of K of them is off from 0.7 with variance 0.09/K; so its expected Brier score is
    -2 (0.3^2 + 0.09/K). It is the same for K draws of one judge and for K named ones. All 2^K
    outcomes are counted."""
    named = tuple(StatedJudge(f"judge {n}") for n in range(1, size))
    several = WeakToStrong(StatedJudge("judge 0"), ALICE, rounds=1, weak=named)
    for protocol in (WeakToStrong(JUDGE, ALICE, rounds=1, size=size), *[several] * (size > 1)):
        expected = 0.0
        for pattern in product((30, -30), repeat=size):

            def noisy(call: Call, pattern: tuple[int, ...] = pattern) -> str:
                asked = prompt(call)
                if asked.task == "percentages":
                    heard = asked.speeches.count("evidence")
                    who = call.draw[0] if call.draw else int(call.model.removeprefix("judge "))
                    p = 50 + 20 * heard + pattern[who]
                    return f"A: {p}%\nB: {100 - p}%"
                return "evidence" if asked.side == "A" else "assertion"

            verdict = await protocol.run(CRATES, A, Scripted(noisy))
            expected += brier(verdict.probs, 0) / 2**size
        assert expected == pytest.approx(-2 * (0.09 + 0.09 / size))


def test_a_jury_may_be_one_of_the_weak_judges():
    assert WeakToStrong(Jury((ANN, BEN)), ALICE, weak=(JUDGE,)).panel().name.startswith("jury")


EVERY = (
    NaiveJudge(JUDGE),
    OpenTrust(JUDGE, ALICE),
    Propaganda(JUDGE, ALICE),
    Consultancy(JUDGE, ALICE, turns=3),
    Debate(JUDGE, ALICE),
    Debate(JUDGE, ALICE, BOB, simultaneous=False),
)


def script_baseline(call: Call) -> str:
    """Speeches that tell all that their speaker was told, and a judge who is swayed by length."""
    said = prompt(call)
    match said.task:
        case "percentages":
            return f"A: {50 + len(said.user) % 40}%\nB: {50 - len(said.user) % 40}%"
        case "choice":
            return '{"answer": "A"}'
    return f"{call.model} {said.asks} heard {len(said.speeches)}"


async def test_open_trust_shares_everything_and_is_worth_nothing():
    """The known truth: whoever is trusted blindly is believed for the lie as for the truth: the
    verdict is 1 on what each world argues for, so ASD is 0."""
    ask = Scripted(script_baseline)
    protocol = OpenTrust(JUDGE, ALICE)
    verdicts = [await protocol.run(CRATES, side, Scripted(script_baseline)) for side in (A, B)]
    assert [verdict.probs for verdict in verdicts] == [(1.0, 0.0), (0.0, 1.0)]
    assert {verdict.measures for verdict in verdicts} == {(("chose", "A"),)}
    assert await protocol.agent_score_difference(APPLES, ask) == 0
    assert ask.distinct == 1
    assert [call.model for call in ask.calls] == ["alice", "alice"]


@given(
    st.sampled_from(EVERY),
    st.tuples(st.integers(-3, 3), st.integers(-3, 3)).filter(lambda pair: pair[0] != pair[1]),
)
async def test_the_values_of_a_problem_influence_no_call(protocol, values):
    one, other = Scripted(script_baseline), Scripted(script_baseline)
    await protocol.worlds(APPLES, one)
    await protocol.worlds(Problem("other", CRATES, values, group="g"), other)
    assert addresses(one) == addresses(other)


@pytest.mark.parametrize("protocol", EVERY, ids=lambda protocol: protocol.name)
async def test_worlds_at_once_ask_what_worlds_one_by_one_ask(protocol):
    in_a, in_b = await paid(protocol, script_baseline)
    ask = Scripted(script_baseline)
    await protocol.worlds(APPLES, ask)
    assert addresses(ask) == in_a | in_b


async def test_the_agent_score_difference_weighs_each_world_by_its_value():
    """Brier: -0.08 where A is argued and gets 0.8, -0.32 where B is argued and gets 0.6."""

    def credulous(call: Call) -> str:
        said = prompt(call)
        if said.task != "percentages":
            return said.side
        return "A: 80%\nB: 20%" if "\nA\n" in said.user else "A: 40%\nB: 60%"

    protocol = Propaganda(JUDGE, ALICE)
    asd = await protocol.agent_score_difference(APPLES, Scripted(credulous))
    assert asd == pytest.approx(-0.08 + 0.32)
    graded = replace(APPLES, values=(0.5, 2))
    asd = await protocol.agent_score_difference(graded, Scripted(credulous))
    assert asd == pytest.approx(-0.75 * -0.08 + 0.75 * -0.32)


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
