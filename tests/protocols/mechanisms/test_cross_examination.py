"""Cross-examination, games of debate, and amplification."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oversight import Answer, Call, Question, Reply
from oversight.protocols.mechanisms.cross_examination import CrossExamination, statements
from oversight.protocols.mechanisms.debate_game import DebateGame, equilibrium
from oversight.protocols.mechanisms.decomposition import Amplification, shares
from tests.fakes import ALICE, APPLES, CRATES, JUDGE, A, B, Scripted, draft, form, prompt


@pytest.mark.parametrize(
    "blank", [Reply(" \n "), Reply("", outcome="empty"), Reply("", outcome="refused")]
)
async def test_a_speech_without_a_statement_is_judged_unchallenged(blank):
    def script(call: Call) -> str | Reply:
        return "A: 70%\nB: 30%" if prompt(call).task == "percentages" else blank

    ask = Scripted(script)
    verdict = await CrossExamination(JUDGE, ALICE, challenges=3).run(CRATES, A, ask)
    assert len(verdict.transcript.turns) == 1 and len(ask.calls) == 2


@given(st.text(alphabet="ab1.!?)\"' \n…", max_size=60))
def test_statements_cover_a_speech_and_lose_only_white_space(speech):
    words_said = statements(speech)
    assert "".join("".join(s.text.split()) for s in words_said) == "".join(speech.split())
    for statement in words_said:
        assert speech[: statement.end].endswith(statement.text)
        assert statement.text.strip() == statement.text != ""


PENNIES = ((90, 20), (30, 70))
"""Beliefs in (A), by draft of A and draft of B, without a saddle point. The equilibrium value is
(.9 x .7 - .2 x .3) / 1.1; A speaks its first draft with 4/11 and B with 5/11."""
VALUE = 0.57 / 1.1


def planted(table: Sequence[Sequence[int]]) -> Scripted:
    """A speech names its draft. The judge finds its percentage of (A) in the table."""

    def script(call: Call) -> str:
        words_said = prompt(call)
        if words_said.task == "speak":
            return f"{words_said.side}{draft(call)}"
        drafts = {speech[0]: int(speech[1:]) for speech in words_said.speeches}
        share = table[drafts["A"]][drafts["B"]]
        return f"A: {share}%\nB: {100 - share}%"

    return Scripted(script)


async def test_the_verdict_is_the_equilibrium_of_the_verdicts_on_all_pairs_of_drafts():
    """The known truth: two drafts per side without a saddle point are worth
    (ad - bc) / (a + d - b - c) = 0.518 to (A), in both worlds. At random they are worth the mean of
    the four, 0.525. (A) alone could gain 0.025 with its first draft, (B) 0.075 with its second."""
    game = DebateGame(JUDGE, ALICE, pool=2)
    in_a, in_b = [await game.run(CRATES, side, planted(PENNIES)) for side in (A, B)]
    assert in_a.probs == in_b.probs == pytest.approx((VALUE, 1 - VALUE))
    for world, drawn, agent, opponent in ((in_a, 0.525, 0.025, 0.075), (in_b, 0.475, 0.075, 0.025)):
        expected = {"drawn": drawn, "agent_gain": agent, "opponent_gain": opponent}
        assert dict(world.measures) == pytest.approx(expected)
    # The likeliest debate: drafts that are spoken with 7/11 and 6/11.
    assert [turn.text for turn in in_a.transcript.turns] == ["A1", "B1"]
    assert [turn.text for turn in in_a.unheard] == ["A0", "B0"]
    assert in_a.judgements[0].probs == (0.7, 0.3)


async def test_in_a_sequential_game_the_last_speaker_answers_the_best_it_can():
    """The known truth: the last speaker knows the other's draft. In world A the opponent leaves (A)
    the larger of its rows' minima, max(20, 30) %. In world B it takes the smaller of the columns'
    maxima, min(90, 70) %."""
    game = DebateGame(JUDGE, ALICE, pool=2, simultaneous=False)
    in_a, in_b = await game.worlds(APPLES, planted(PENNIES))
    assert in_a.probs == pytest.approx((0.3, 0.7)) and in_b.probs == pytest.approx((0.7, 0.3))
    assert [turn.text for turn in in_a.transcript.turns] == ["A1", "B0"]
    # Alone against random drafts: (A) speaks first, and gets 55 % or 50 %.
    expected = {"drawn": 0.525, "agent_gain": 0.025, "opponent_gain": 0.525 - (0.2 + 0.3) / 2}
    assert dict(in_a.measures) == pytest.approx(expected)


async def test_a_judge_whose_best_speech_is_known_hears_it_from_both_sides():
    """The known truth: draft n of the truth weighs w_n, draft m of the lie l_m, and the judge
    believes the truth with 50 + w_n - l_m %. Nobody needs to mix: the heaviest drafts give the
    value, and a larger pool changes it only by a heavier draft."""
    weights, lies = (5, 20, 10, 25), (0, 30, 10, 5)
    table = [[50 + w - lie for lie in lies] for w in weights]
    for pool, value in ((1, 0.55), (2, 0.40), (3, 0.40), (4, 0.45)):
        game = DebateGame(JUDGE, ALICE, pool=pool)
        assert (await game.run(CRATES, A, planted(table))).probs[0] == pytest.approx(value)


@given(st.integers(1, 5), st.integers(1, 5), st.integers())
@settings(deadline=None)
def test_neither_side_can_leave_an_equilibrium_with_a_gain(m, n, seed):
    """The known truth: against the columns' equilibrium no row exceeds the value, and against the
    rows' no column is below it (von Neumann 1928). If each entry is off by e, the value changes by
    at most e."""
    chance = np.random.default_rng(abs(seed))
    payoff = chance.integers(0, 11, (m, n)) / 10
    solution = equilibrium(payoff.tolist())
    assert sum(solution.rows) == pytest.approx(1) and sum(solution.columns) == pytest.approx(1)
    assert float((np.array(solution.rows) @ payoff).min()) == pytest.approx(solution.value)
    assert float((payoff @ np.array(solution.columns)).max()) == pytest.approx(solution.value)
    erring = payoff + 0.1 * chance.choice((-1, 1), (m, n))
    assert abs(equilibrium(erring.tolist()).value - solution.value) <= 0.1 + 1e-6


def script(call: Call) -> str:
    parsed = prompt(call)
    match parsed.task:
        case "subquestions":
            at_hand = f"{parsed.speeches[0]}." if parsed.speeches else "sub "
            return form(subquestions=[f"{at_hand}{n}" for n in (1, 2, 3)])
        case "percentages":
            return "A: 70%\nB: 30%"
    return f"{parsed.asks} on {parsed.speeches[0]}"


def test_steering_depends_only_on_contents_and_grows_with_the_dose():
    doses = [n / 20 for n in range(21)]
    subs = [f"sub {n}" for n in range(400)]
    steering = [
        {sub for sub in subs if Amplification(JUDGE, ALICE, steered=dose).steers(CRATES, sub)}
        for dose in doses
    ]
    for dose, smaller, larger in zip(doses, steering, steering[1:], strict=False):
        assert smaller <= larger
        assert abs(len(smaller) - 400 * dose) <= 4.5 * (400 * dose * (1 - dose)) ** 0.5
    assert not steering[0] and steering[-1] == set(subs)
    seeded = Amplification(JUDGE, ALICE, seed=1)
    assert {sub for sub in subs if seeded.steers(CRATES, sub)} != steering[10]


def total(parsed: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", parsed)]


def adding(call: Call) -> str:
    """An overseer who can halve a sum and add two numbers, and helpers who can add two as well."""
    parsed = prompt(call)
    about = parsed.speeches[0] if parsed.speeches else parsed.system.partition("What is ")[2]
    numbers = total(about.partition("?")[0])
    match parsed.task:
        case "subquestions":
            half = len(numbers) // 2
            halves = (" + ".join(map(str, part)) for part in (numbers[:half], numbers[half:]))
            return form(subquestions=[f"What is {half}?" for half in halves])
        case "percentages":
            right = parsed.system.partition('<answer label="A">\n')[2].partition("\n")[0]
            solution = sum(total(answer)[0] for answer in parsed.speeches[1::2])
            return "A: 100%\nB: 0%" if str(solution) == right else "A: 0%\nB: 100%"
    if parsed.side == "B":
        return str(sum(numbers) + 1)
    if len(parsed.speeches) > 1:
        return str(sum(total(answer)[0] for answer in parsed.speeches[2::2]))
    return str(sum(numbers)) if len(numbers) <= 2 else "too much for me: 0"


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_with_honest_helpers_it_answers_what_nobody_in_it_could(depth):
    """The known truth: an overseer who can add two numbers, and ask about two halves, adds
    2^(depth + 1) numbers at that depth, and no more."""
    for size, able in ((2 ** (depth + 1), True), (2 ** (depth + 2), False)):
        numbers = range(1, size + 1)
        answers = (Answer("A", str(sum(numbers))), Answer("B", str(sum(numbers) + 1)))
        question = Question(f"What is {' + '.join(map(str, numbers))}?", answers)
        protocol = Amplification(JUDGE, ALICE, subquestions=2, depth=depth, steered=0)
        for side in question.answers:
            verdict = await protocol.run(question, side, Scripted(adding))
            assert verdict.probs == ((1.0, 0.0) if able else (0.0, 1.0))
            assert dict(verdict.measures)["helpers"] == 2**depth


async def test_each_helper_that_steers_takes_what_it_is_worth_of_asd():
    """The known truth: each of five helpers moves the judge by a fifth, honest ones toward the
    truth and steered ones toward a. With s of them steered, the judge believes the truth at 1 in
    its world, and at 1 - s/5 in the other: Brier ASD is 2 (1 - s/5)^2. If the others steer for the
    other answer instead, each world's answer gets s/5."""

    def weighing(call: Call) -> str:
        parsed = prompt(call)
        match parsed.task:
            case "subquestions":
                return form(subquestions=[f"sub {n}" for n in range(5)])
            case "percentages":
                for_a = 20 * sum(words_said == "A" for words_said in parsed.speeches[1::2])
                return f"A: {for_a}%\nB: {100 - for_a}%"
        return parsed.side or "A"

    outcomes = []
    for dose in (n / 10 for n in range(11)):
        protocol = Amplification(JUDGE, ALICE, subquestions=5, steered=dose)
        in_b = await protocol.run(CRATES, B, Scripted(weighing))
        steered = int(dict(in_b.measures)["steered"])
        assert in_b.probs == pytest.approx((1 - steered / 5, steered / 5))
        asd = await protocol.agent_score_difference(APPLES, Scripted(weighing))
        assert asd == pytest.approx(2 * (1 - steered / 5) ** 2)
        outcomes.append((steered, asd))
        worlds = await replace(protocol, aux="sided").worlds(APPLES, Scripted(weighing))
        assert [item.probs[n] for n, item in enumerate(worlds)] == pytest.approx([steered / 5] * 2)
    assert outcomes == sorted(outcomes, key=lambda pair: (pair[0], -pair[1]))
    assert outcomes[0] == (0, 2.0) and outcomes[-1] == (5, 0.0)
    assert len({steered for steered, _ in outcomes}) >= 4


@pytest.mark.parametrize(("budget", "helpers"), [(1, 1), (2, 2), (3, 3), (7, 4), (12, 9), (99, 9)])
async def test_budget_bounds_all_subquestions_and_is_shared_equally(budget, helpers):
    """The known truth: an overseer who always asks as much as it may asks three at the top, which
    share the rest of the budget equally, at most three each. A helper answers each question below,
    and each one at the top without budget: with 7, 2 and 1 and 1 below make four."""
    ask = Scripted(script)
    protocol = Amplification(JUDGE, ALICE, depth=2, budget=budget, steered=0)
    verdict = await protocol.run(CRATES, A, ask)
    listed = sum(
        min(3, int(re.findall(r"at most (\d+) subquestions", prompt(call).user)[-1]))
        for call in ask.calls
        if prompt(call).task == "subquestions"
    )
    assert listed <= budget and dict(verdict.measures)["helpers"] == helpers


@given(st.integers(0, 200), st.integers(1, 9))
def test_budget_parts_are_whole_and_nearly_equal(budget, parts):
    split = shares(budget, parts)
    assert sum(split) == budget and len(split) == parts
    assert split == sorted(split, reverse=True) and split[0] - split[-1] <= 1


async def test_an_overseer_who_asks_nothing_leaves_the_judge_alone_with_the_question():
    def silent(call: Call) -> str:
        return form(subquestions=[]) if prompt(call).task == "subquestions" else script(call)

    ask = Scripted(silent)
    verdict = await Amplification(JUDGE, ALICE).run(CRATES, A, ask)
    assert len(ask.calls) == 2 and verdict.transcript.turns == ()
