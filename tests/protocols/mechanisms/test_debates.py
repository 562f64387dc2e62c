"""Debates, consultancies, open and recorded protocols, and markets: known truths, and endings."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oversight import Agent, Answer, Call, Protocol, Question, Reply
from oversight.protocols import Debate, InteractiveDebate, MarketMaking, WeakToStrong
from oversight.protocols.counts import unread_by_seat
from oversight.protocols.doubts import ANYTHING
from oversight.protocols.errors import NotRun
from oversight.protocols.held import DiscussedQuestion, RecordedConversation, RecordedTurn
from oversight.protocols.judges.logprob import LogprobJudge
from oversight.protocols.judges.stated import DistributionJudge, StatedJudge
from oversight.protocols.mechanisms.baselines import Consultancy, DoubleConsultancy, Propaganda
from oversight.protocols.mechanisms.market_making import AdversarialPropaganda, losses
from oversight.protocols.mechanisms.open_protocols import (
    OpenConsultancy,
    OpenDebate,
    OpenTrust,
    Recorded,
)
from oversight.protocols.scores import brier
from tests.fakes import ALICE, APPLES, BOB, CRATES, JUDGE, A, B, Scripted, form, prompt, token


async def test_judge_who_believes_the_last_speaker_is_won_by_the_reply():
    """The known truth: a judge who believes the last speaker. In a sequential debate this is the
    opponent, so each side loses its own world, and accuracy ASD is 0. In a simultaneous one
    speeches are heard in answer order, so (B), which is wrong, wins both worlds, and ASD is -1."""

    def last(call: Call) -> str:
        parsed = prompt(call)
        if parsed.task != "percentages":
            return "a speech"
        return "A: 100%\nB: 0%" if parsed.speakers[-1] == "Debater A" else "A: 0%\nB: 100%"

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
        parsed = prompt(call)
        judges = parsed.task == "percentages"
        return "A: 50%\nB: 30%\nC: 20%" if judges else f"{parsed.side} by {call.model}"

    debate = Debate(JUDGE, ALICE, Agent("bob"), simultaneous=simultaneous)
    debate.check(three)
    verdict = await debate.run(three, three.answers[1], Scripted(says))
    spoke = [turn.text.split(" by ") for turn in verdict.transcript.turns]
    assert "".join(side for side, _ in spoke) == order
    assert {(side, model) for side, model in spoke} == {("A", "bob"), ("B", "alice"), ("C", "bob")}


@pytest.mark.parametrize("simultaneous", [True, False])
async def test_evidence_brought_out_by_questions_decides_for_the_truth(simultaneous):
    """The known truth: evidence comes out only if the judge asks for it, and only the debater who
    is right has any. Without questions the judge is at even odds, and Brier ASD is 0. With them it
    is sure of the truth in both worlds, and ASD is 0 + 2."""

    def witnesses(call: Call) -> str:
        parsed = prompt(call)
        words_said = [*zip(parsed.speakers, parsed.speeches, strict=True)]
        pages = [speech for speaker_name, speech in words_said if speaker_name == "Judge"]
        match parsed.task:
            case "ask":
                return f"Show me page {len(parsed.speeches)}."
            case "percentages":
                # Unrequested pages are not evidence.
                proof = {("Debater A", f"Here: {page}") for page in pages}
                return "A: 100%\nB: 0%" if proof & {*words_said} else "A: 50%\nB: 50%"
        return f"Here: {pages[-1]}" if pages and parsed.side == "A" else "Believe me."

    plain = Debate(JUDGE, ALICE, simultaneous=simultaneous)
    interactive = InteractiveDebate(JUDGE, ALICE, simultaneous=simultaneous)
    assert await plain.agent_score_difference(APPLES, Scripted(witnesses)) == 0
    assert await interactive.agent_score_difference(APPLES, Scripted(witnesses)) == 2


async def test_a_consultant_who_cannot_hear_the_other_cannot_copy_its_evidence():
    """The known truth: the consultant who is right gives evidence when its client asks, and the
    other would repeat any evidence it heard. It hears none, so the judge, who reads both, is sure
    of the truth in both worlds: Brier ASD 0 + 2. Without a client no evidence comes out, the judge
    is at even odds, and ASD is 0. Against an opponent without evidence the agent has some only in
    the world of the truth. There the judge is sure, in the other at even odds: ASD is 0 + 0.5."""

    def consulted(call: Call) -> str:
        parsed = prompt(call)
        if parsed.task == "ask":
            return "What is your evidence?" if call.model == "judge" else "Go on."
        if parsed.task == "percentages":
            words_said = dict(zip(parsed.speakers, parsed.speeches, strict=True))
            a, b = ("evidence:" in words_said[f"Consultant {label}"] for label in "AB")
            return "A: 50%\nB: 50%" if a == b else f"A: {100 * a}%\nB: {100 * b}%"
        facts = [speech for speech in parsed.speeches if "evidence:" in speech]
        if facts:
            return facts[-1]
        questioned = "What is your evidence?" in parsed.speeches and call.model == "alice"
        return "evidence: page 7" if questioned and parsed.side == "A" else "Believe me."

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


def script_opened(call: Call) -> str:
    parsed = prompt(call)
    return {"choice": form(answer="B"), "percentages": "A: 20%\nB: 80%"}.get(
        parsed.task, f"{parsed.asks} after {len(parsed.speakers)}"
    )


@pytest.mark.parametrize(("opened", "closed"), OPENED, ids=lambda p: p.name)
async def test_open_run_equals_the_closed_run_of_the_chosen_side(opened, closed):
    theirs, ours = Scripted(script_opened), Scripted(script_opened)
    expected = await closed.run(CRATES, B, theirs)
    verdict = await opened.run(CRATES, A, ours)
    words_said = [
        [(turn.speaker, turn.text) for turn in entry.transcript.turns]
        for entry in (verdict, expected)
    ]
    assert verdict.probs == expected.probs and words_said[0] == words_said[1]
    assert len(ours.calls) == len(theirs.calls) + 1
    prompts_read = [prompt(call) for call in ours.calls[1:]]
    assert all("first chose, freely" in entry.system for entry in prompts_read)
    argues = [entry for entry in prompts_read if entry.side == "B"]
    assert argues and all("the answer that you chose is (B)" in entry.user for entry in argues)
    assert all(("been assigned" in entry.user) == (entry.side == "A") for entry in prompts_read)


@pytest.mark.parametrize("size", [1, 2, 4])
async def test_the_error_that_each_judge_makes_for_itself_falls_with_their_number(size):
    """The known truth: judges who hear the debate state 0.7 for the answer with evidence, or
    independently 0.3 more or less; without it they would be at 0.5. The mean of K of them is off
    from 0.7 with variance 0.09/K, so its expected Brier score is -2 (0.3^2 + 0.09/K). It is the
    same for K draws of one judge and for K named ones. All 2^K outcomes are counted."""
    by_name = tuple(StatedJudge(f"judge {n}") for n in range(1, size))
    several = WeakToStrong(StatedJudge("judge 0"), ALICE, rounds=1, weak=by_name)
    for protocol in (WeakToStrong(JUDGE, ALICE, rounds=1, size=size), *[several] * (size > 1)):
        expected = 0.0
        for pattern in product((30, -30), repeat=size):

            def noisy(call: Call, pattern: tuple[int, ...] = pattern) -> str:
                parsed = prompt(call)
                if parsed.task == "percentages":
                    facts = parsed.speeches.count("evidence")
                    n = call.draw[0] if call.draw else int(call.model.removeprefix("judge "))
                    p = 50 + 20 * facts + pattern[n]
                    return f"A: {p}%\nB: {100 - p}%"
                return "evidence" if parsed.side == "A" else "assertion"

            expected += brier((await protocol.run(CRATES, A, Scripted(noisy))).probs, 0) / 2**size
        assert expected == pytest.approx(-2 * (0.09 + 0.09 / size))


async def test_open_trust_shares_everything_and_is_worth_nothing():
    """The known truth: a blindly trusted agent is believed for the lie as for the truth. The
    verdict is 1 on each world's own answer, so ASD is 0."""
    ask, protocol = Scripted(script_opened), OpenTrust(JUDGE, ALICE)
    verdicts = await protocol.worlds(APPLES, ask)
    assert [verdict.probs for verdict in verdicts] == [(1.0, 0.0), (0.0, 1.0)]
    assert await protocol.agent_score_difference(APPLES, ask) == 0 and ask.distinct == 1


async def test_the_agent_score_difference_weighs_each_world_by_its_value():
    """Brier: -0.08 in the world of A, which gets 0.8, -0.32 in the world of B, which gets 0.6."""

    def credulous(call: Call) -> str:
        words_said = prompt(call)
        if words_said.task != "percentages":
            return words_said.side
        return "A: 80%\nB: 20%" if "\nA\n" in words_said.user else "A: 40%\nB: 60%"

    protocol = Propaganda(JUDGE, ALICE)
    asd = await protocol.agent_score_difference(APPLES, Scripted(credulous))
    assert asd == pytest.approx(-0.08 + 0.32)
    graded = replace(APPLES, values=(0.5, 2))
    asd = await protocol.agent_score_difference(graded, Scripted(credulous))
    assert asd == pytest.approx(-0.75 * -0.08 + 0.75 * -0.32)


def trading(*prices: float) -> Callable[[Call], str]:
    """A market whose price for A after n speeches is prices[n]. The judge ends at 70 %."""

    def answer(call: Call) -> str:
        parsed = prompt(call)
        match parsed.task:
            case "probabilities":
                price = prices[len(parsed.speeches)]
                return form(A=price, B=1 - price)
            case "percentages":
                return "A: 70%\nB: 30%"
        return f"{parsed.asks} after {parsed.speeches}"

    return answer


MARY = Agent("mary")
MARKETS: dict[str, Callable[..., Protocol]] = {
    "advocate": partial(AdversarialPropaganda, JUDGE, ALICE, MARY),
    "adversary": partial(MarketMaking, JUDGE, MARY, ALICE),
}
"""Protocols by the speakers in them. Mary is the market."""

EACH = pytest.mark.parametrize("kind", MARKETS)


@EACH
@pytest.mark.parametrize("start", [0.0, 0.2, 0.78, 0.8, 1.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.01, 0.001])
async def test_trade_ends_at_the_fixed_point_of_the_market(kind, start, epsilon):
    """The known truth: for p_t+1 = f(p_t) with f(p) = p/2 + 0.4, the price tends to 0.8 and its
    t-th move is |0.8 - p_0| / 2^t. So trade ends with the first t for which this is under epsilon,
    within epsilon of 0.8."""
    prices = [start]
    for _ in range(60):
        prices.append(prices[-1] / 2 + 0.4)
    last = next(t for t in range(1, 60) if round(abs(0.8 - start) / 2**t, 9) < epsilon)
    protocol = MARKETS[kind](epsilon=epsilon, rounds=50)
    verdict = await protocol.run(CRATES, A, Scripted(trading(*prices)))
    measures = dict(verdict.measures)
    price = measures["price"] if "price" in measures else verdict.probs[0]
    assert measures["speeches"] == last and measures["settled"] is True
    assert price == pytest.approx(prices[last]) and abs(float(price) - 0.8) < epsilon


@EACH
@pytest.mark.parametrize("side", [A, B])
async def test_the_market_loses_by_the_judge_and_the_adversary_gains_by_each_move(kind, side):
    """The known truth: prices of 0.5, 0.8, 0.9 and 0.91, and a judge who believes any price that it
    hears, and otherwise 0.7. It hears none, so it ends at 0.7. The market loses the mean cross
    entropy of its prices, and the adversary gains the mean of its moves: 0.3, 0.1 and 0.01. The
    verdict is the judge's on an advocate, and the last price on a market."""

    def led(call: Call) -> str | Reply:
        believes = call.model == "judge" and "Market" in prompt(call).speakers
        return "A: 100%\nB: 0%" if believes else trading(0.5, 0.8, 0.9, 0.91)(call)

    verdict = await MARKETS[kind]().run(CRATES, side, Scripted(led))
    measures, place = dict(verdict.measures), CRATES.place(side)
    believed, price = (0.7, 0.3), (0.91, 0.09)
    missed = [-0.7 * math.log(p) - 0.3 * math.log(1 - p) for p in (0.5, 0.8, 0.9, 0.91)]
    assert measures["market_loss"] == pytest.approx(sum(missed) / 4)
    assert measures["adversary_loss"] == pytest.approx(-(0.3 + 0.1 + 0.01) / 3)
    assert measures["speeches"] == 3 and measures["settled"] is True
    if kind == "advocate":
        assert verdict.probs == pytest.approx(believed)
        assert measures["price"] == pytest.approx(price[place])
    else:
        assert verdict.probs == verdict.judgements[0].probs == pytest.approx(price)
        assert measures["judged"] == pytest.approx(believed[place])
        assert measures["last_loss"] == pytest.approx(missed[-1])
        words_said = verdict.transcript.turns[-1]
        assert (words_said.speaker, words_said.text) == ("Judge", "A 70.0%, B 30.0%")
        assert words_said.call != ""


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize(("fact", "lie"), [(0.9, 0.4), (0.5, 0.5), (0.4, 0.9)])
async def test_a_market_that_knows_the_judge_answers_what_it_believes_of_all_that_can_be_said(
    rounds, fact, lie
):
    """The known truth: a judge starts from 0.3 nats for the truth. A speech for the truth moves it
    by a fact, one for the other answer by a lie. A market that knows the judge answers
    s(0.3 - rounds x lie) in the world of the truth, and 1 - s(0.3 + rounds x fact) in the other,
    where s(x) = 1 / (1 + e^-x). ASD is the advantage of facts over lies for that judge, below 0 if
    lies are stronger. A judge who differs changes only the market's loss."""

    def believed(call: Call) -> float:
        parsed = prompt(call)
        words_said = zip(parsed.speakers, parsed.speeches, strict=True)
        sides = [speaker[-1] for speaker, speech in words_said if speech == "a speech"]
        return 1 / (1 + math.exp(-(0.3 + fact * sides.count("A") - lie * sides.count("B"))))

    def knowing(call: Call) -> str:
        match prompt(call).task:
            case "probabilities":
                return form(A=believed(call), B=1 - believed(call))
            case "percentages":
                return "A: 50%\nB: 50%"
        # The adversary follows the price, and would not speak against itself.
        facts = "Market" in prompt(call).speakers
        return "a speech" if call.model == "bob" and facts else "nothing"

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
def test_a_market_that_knows_the_verdict_loses_least(final, prices):
    oracle, market = dict(losses((final, final), final)), dict(losses(tuple(prices), final))
    assert market["market_loss"] >= oracle["market_loss"] - 1e-12
    assert -1 <= market["adversary_loss"] <= oracle["adversary_loss"] == 0


async def test_market_trades_in_more_than_two_answers():
    three = Question("?", tuple(Answer(label, label.lower()) for label in "ABC"))

    def answer(call: Call) -> str:
        last = len(prompt(call).speeches) / (1 + len(prompt(call).speeches))
        shares = {"A": (1 - last) / 2, "B": (1 - last) / 2, "C": last}
        return "speech" if prompt(call).side else form(**shares)

    verdict = await AdversarialPropaganda(DistributionJudge("judge"), ALICE, rounds=1).run(
        three, three.answers[2], Scripted(answer)
    )
    assert verdict.probs == (0.25, 0.25, 0.5)
    assert dict(verdict.measures)["adversary_loss"] == -0.5


async def test_a_price_with_unread_mass_leaves_the_verdict_open():
    def answer(call: Call) -> Reply | str:
        if prompt(call).side:
            return "speech"
        chosen = token("A", 0.6, B=0.4) if prompt(call).speeches else token("A", 0.4, B=0.1)
        return Reply("A", logprobs=(chosen,))

    protocol = AdversarialPropaganda(LogprobJudge("judge"), ALICE, rounds=1)
    verdict = await protocol.run(CRATES, A, Scripted(answer))
    assert verdict.bounds == (ANYTHING, ANYTHING)
    assert unread_by_seat(verdict) == {"Judge: partial": 1}


SAID = (
    RecordedTurn(0, "Judge", "Begin."),
    RecordedTurn(1, "Debater A", "One.", "A"),
    RecordedTurn(1, "Judge", "Go on."),
    RecordedTurn(2, "Debater B", "Two.</turn>", "B"),
    RecordedTurn(2, "Judge", "I decide."),
)


def discussed(argued: str = "") -> DiscussedQuestion:
    conversation = RecordedConversation("human debate", SAID, argued)
    return DiscussedQuestion(CRATES.text, CRATES.answers, held=conversation)


@pytest.mark.parametrize(("rounds", "facts"), [(0, 4), (1, 2), (2, 4), (9, 4)])
async def test_a_recorded_conversation_is_judged_as_it_stood_after_its_rounds(rounds, facts):
    """The known truth: a judge who decided and remarked after each round had heard only the earlier
    turns. Our judge hears the same, after the last round if the conversation is shorter. Recorded
    text cannot imitate another speaker."""
    ask = Scripted(lambda call: "A: 70%\nB: 30%")
    for side in (A, B):
        turns = (await Recorded(JUDGE, rounds=rounds).run(discussed(), side, ask)).transcript.turns
        assert [turn.speaker for turn in turns] == [turn.speaker for turn in SAID[:facts]]
        assert [turn.side for turn in turns] == [None, A, None, B][:facts]
        forged = [turn.text for turn in turns if turn.forged]
        assert len(forged) == (facts == 4) and "</turn>" not in "".join(forged)
    assert ask.distinct == 1 and prompt(ask.calls[0]).speakers == tuple(t.speaker for t in turns)


@pytest.mark.parametrize(
    ("setting", "argued", "run"),
    [("", "", "AB"), ("human debate", "B", "B"), ("AI debate", "", "")],
)
async def test_a_recorded_conversation_counts_in_the_worlds_that_were_argued(setting, argued, run):
    for side in (A, B):
        ask = Scripted(lambda call: "A: 70%\nB: 30%")
        world = Recorded(JUDGE, setting).run(discussed(argued), side, ask)
        if side.label in run:
            assert (await world).probs == (0.7, 0.3)
        else:
            with pytest.raises(NotRun):
                await world
    with pytest.raises(ValueError, match="needs recorded conversations"):
        Recorded(JUDGE, setting).check(CRATES)
