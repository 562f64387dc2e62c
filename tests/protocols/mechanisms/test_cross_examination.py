"""Debates with questions about statements, and debate as a game: planted verdicts on every pair of
drafts, and what the equilibrium is worth.
"""

from collections.abc import Sequence

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oversight.cache import Call, Reply
from oversight.protocols.mechanisms.cross_examination import CrossExamination, statements
from oversight.protocols.mechanisms.debate_game import DebateGame, equilibrium
from tests.fakes import ALICE, APPLES, BOB, CRATES, JUDGE, A, B, Scripted, draft, prompt

SPEECH = "There are four crates. Each holds 12.\n1. Four times 12 is 48."


def challenged(statement: object, question: object = "How do you know?") -> str:
    return orjson.dumps({"statement": statement, "question": question}).decode()


def script_questions(
    call: Call, speech: str | Reply = SPEECH, challenge: str | Reply = ""
) -> str | Reply:
    asked = prompt(call)
    match asked.task:
        case "percentages":
            return "A: 70%\nB: 30%"
        case "challenge":
            return challenge or challenged(2)
        case "answer":
            return "I counted."
    return speech


@pytest.mark.parametrize(
    "blank", [" \n ", Reply("", outcome="empty"), Reply("", outcome="refused")]
)
async def test_a_speech_without_a_statement_is_judged_unchallenged(blank):
    ask = Scripted(lambda call: script_questions(call, speech=blank))
    verdict = await CrossExamination(JUDGE, ALICE, challenges=3).run(CRATES, A, ask)
    assert len(verdict.transcript.turns) == 1 and len(ask.calls) == 2


SHIFTS = ["A crate is a box.", "All boxes are full.", "By full I mean half.", "So it is 48."]


@pytest.mark.parametrize("shift", [1, 2, 3, 4, None])
@pytest.mark.parametrize("picked", [1, 2, 3, 4])
async def test_a_speaker_who_shifts_its_meaning_is_caught_wherever_the_copy_does_not_know_it(
    shift, picked
):
    """The known truth: a speaker gives a word another meaning in statement `shift` of four. Its
    copy answers by the meaning that its context gives, and a copy of anyone else would betray it;
    the judge rejects the side if the two differ. So a shift is caught if and only if an earlier
    statement is challenged, and an honest speaker never is."""
    said = [f"{line[:-1]} ({'new' if n == shift else 'old'})." for n, line in enumerate(SHIFTS, 1)]

    def planted(call: Call) -> str:
        asked = prompt(call)
        meaning = "new" if any("(new)" in speech for speech in asked.speeches[:1]) else "old"
        match asked.task:
            case "challenge":
                # Who speaks would rather be asked about its last word.
                lines = asked.speeches[0].splitlines() if call.model == "bob" else []
                at = [n for n, line in enumerate(lines, 1) if SHIFTS[picked - 1][:-1] in line]
                return challenged((at or [4])[0], "Which meaning?")
            case "answer":
                asked_of = SHIFTS[picked - 1][:-1] in asked.speeches[-1]
                return f"The {meaning} one." if call.model == "alice" and asked_of else "Neither."
            case "percentages":
                caught = asked.speeches[-1] != f"The {meaning} one."
                return "A: 0%\nB: 100%" if caught else "A: 100%\nB: 0%"
        return " ".join(said)

    verdict = await CrossExamination(JUDGE, ALICE, BOB).run(CRATES, A, Scripted(planted))
    caught = verdict.probs[0] == 0
    assert caught == (shift is not None and picked < shift)


def test_a_long_sentence_is_cut_into_statements_of_forty_words():
    said = statements(" ".join(f"w{n}" for n in range(90)) + ". Short.")
    assert [len(statement.text.split()) for statement in said] == [40, 40, 10, 1]


@given(st.text(alphabet="ab1.!?)\"' \n…", max_size=60))
def test_statements_cover_a_speech_and_lose_only_white_space(speech):
    said = statements(speech)
    assert "".join("".join(s.text.split()) for s in said) == "".join(speech.split())
    for statement in said:
        assert speech[: statement.end].endswith(statement.text)
        assert statement.text.strip() == statement.text != ""


PENNIES = ((90, 20), (30, 70))
"""Beliefs in (A), by draft of A and draft of B: no saddle. (.9 x .7 - .2 x .3) / 1.1 in
equilibrium, where A speaks its first draft with 4/11 and B with 5/11."""
VALUE = 0.57 / 1.1


def planted(table: Sequence[Sequence[int]]) -> Scripted:
    """A speech says which draft it is; the judge finds its percentage of (A) in the table."""

    def script(call: Call) -> str:
        said = prompt(call)
        if said.task == "speak":
            return f"{said.side}{draft(call)}"
        drafts = {speech[0]: int(speech[1:]) for speech in said.speeches}
        share = table[drafts["A"]][drafts["B"]]
        return f"A: {share}%\nB: {100 - share}%"

    return Scripted(script)


async def test_the_verdict_is_the_equilibrium_of_the_verdicts_on_all_pairs_of_drafts():
    """The known truth: two drafts a side, of which no pair is a saddle point, are worth
    (ad - bc) / (a + d - b - c) = 0.518 to (A), in both worlds. Drawn at random they are worth the
    mean of the four, 0.525; (A) alone could gain 0.025 by its first draft, (B) 0.075 by its
    second."""
    game = DebateGame(JUDGE, ALICE, pool=2)
    in_a, in_b = [await game.run(CRATES, side, planted(PENNIES)) for side in (A, B)]
    assert in_a.probs == in_b.probs == pytest.approx((VALUE, 1 - VALUE))
    for world, drawn, agent, opponent in ((in_a, 0.525, 0.025, 0.075), (in_b, 0.475, 0.075, 0.025)):
        told = {"drawn": drawn, "agent_gain": agent, "opponent_gain": opponent}
        assert dict(world.measures) == pytest.approx(told)
    # The likeliest debate: drafts that are spoken with 7/11 and 6/11.
    assert [turn.text for turn in in_a.transcript.turns] == ["A1", "B1"]
    assert in_a.judgements[0].probs == (0.7, 0.3)


async def test_in_a_sequential_game_the_last_speaker_answers_the_best_it_can():
    """The known truth: who speaks last knows the other's draft. In world A the opponent leaves (A)
    the larger of its rows' least, max(20, 30) %; in world B it takes the least of the columns'
    most, min(90, 70) %."""
    game = DebateGame(JUDGE, ALICE, pool=2, simultaneous=False)
    in_a, in_b = await game.worlds(APPLES, planted(PENNIES))
    assert in_a.probs == pytest.approx((0.3, 0.7))
    assert in_b.probs == pytest.approx((0.7, 0.3))
    assert [turn.text for turn in in_a.transcript.turns] == ["A1", "B0"]
    # Alone against drafts at random: (A) speaks first, and gets 55 % or 50 %.
    told = {"drawn": 0.525, "agent_gain": 0.025, "opponent_gain": 0.525 - (0.2 + 0.3) / 2}
    assert dict(in_a.measures) == pytest.approx(told)


async def test_a_judge_whose_best_speech_is_known_hears_it_from_both_sides():
    """The known truth: draft n of the truth weighs w_n, draft m of the lie l_m, and the judge
    believes the truth with 50 + w_n - l_m %. Nobody needs to mix: the value is that of the
    heaviest drafts, and a larger pool moves it only where it has a heavier one."""
    weights, lies = (5, 20, 10, 25), (0, 30, 10, 5)
    table = [[50 + w - lie for lie in lies] for w in weights]
    for pool, value in ((1, 0.55), (2, 0.40), (3, 0.40), (4, 0.45)):
        game = DebateGame(JUDGE, ALICE, pool=pool)
        assert (await game.run(CRATES, A, planted(table))).probs[0] == pytest.approx(value)


@given(st.integers(1, 5), st.integers(1, 5), st.integers())
@settings(deadline=None)
def test_neither_side_can_leave_an_equilibrium_with_a_gain(m, n, seed):
    payoff = np.random.default_rng(abs(seed)).integers(0, 11, (m, n)) / 10
    found = equilibrium(payoff.tolist())
    assert sum(found.rows) == pytest.approx(1) and sum(found.columns) == pytest.approx(1)
    assert float((np.array(found.rows) @ payoff).min()) == pytest.approx(found.value)
    assert float((payoff @ np.array(found.columns)).max()) == pytest.approx(found.value)


def test_rock_paper_scissors_is_worth_nothing_and_played_evenly():
    found = equilibrium([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    assert found.value == pytest.approx(0)
    assert found.rows == pytest.approx((1 / 3,) * 3)


def test_of_several_saddle_points_the_first_is_played():
    found = equilibrium([[0.5, 0.5], [0.5, 0.5], [0.1, 0.2]])
    assert (found.value, found.rows, found.columns) == (0.5, (1, 0, 0), (1, 0))
