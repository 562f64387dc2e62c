"""Debate as a game: planted verdicts on every pair of drafts, and what the equilibrium is worth."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oversight.cache.call import Call
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.mechanisms.debate_game import DebateGame, equilibrium
from tests.fakes import ALICE, APPLES, CRATES, JUDGE, A, B, Scripted, addresses, draft, prompt

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


async def test_the_verdict_is_the_equilibrium_of_the_verdicts_on_all_pairs_of_drafts() -> None:
    """The known truth: two drafts a side, of which no pair is a saddle point, are worth
    (ad - bc) / (a + d - b - c) = 0.518 to (A), in both worlds. Drawn at random they are worth the
    mean of the four, 0.525; (A) alone could gain 0.025 by its first draft, (B) 0.075 by its
    second."""
    game = DebateGame(JUDGE, ALICE, pool=2)
    in_a, in_b = [await game.run(CRATES, side, planted(PENNIES)) for side in (A, B)]
    assert in_a.probs == in_b.probs == pytest.approx((VALUE, 1 - VALUE))
    for world, drawn, agent, opponent in (
        (in_a, 0.525, 0.025, 0.075),
        (in_b, 0.475, 0.075, 0.025),
    ):
        told = {"drawn": drawn, "agent_gain": agent, "opponent_gain": opponent}
        assert dict(world.measures) == pytest.approx(told)
    # The likeliest debate: drafts that are spoken with 7/11 and 6/11.
    assert [turn.text for turn in in_a.transcript.turns] == ["A1", "B1"]
    assert in_a.judgements[0].probs == (0.7, 0.3)


async def test_in_a_sequential_game_the_last_speaker_answers_the_best_it_can() -> None:
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


async def test_two_rounds_are_worth_what_is_left_after_the_first() -> None:
    """The known truth: in round 2 the game is matching pennies with stakes that round 1 has set,
    so each floor is worth the middle of its stakes, and round 1 is the game of these middles."""

    def script(call: Call) -> str:
        said = prompt(call)
        if said.task == "speak":
            return f"{said.side}{draft(call)}"
        first, second = said.speeches[:2], said.speeches[2:]
        middle = PENNIES[int(first[0][1])][int(first[1][1])]
        share = middle + (10 if second[0][1] == second[1][1] else -10)
        return f"A: {share}%\nB: {100 - share}%"

    ask = Scripted(script)
    verdict = await DebateGame(JUDGE, ALICE, pool=2, rounds=2).run(CRATES, A, ask)
    assert verdict.probs == pytest.approx((VALUE, 1 - VALUE))
    assert dict(verdict.measures)["drawn"] == pytest.approx(0.525)
    # Two drafts a side on 1 + 4 floors, and 2^4 debates.
    assert ask.distinct == len(ask.calls) == 4 * 5 + 16


async def test_a_judge_whose_best_speech_is_known_hears_it_from_both_sides() -> None:
    """The known truth: draft n of the truth weighs w_n, draft m of the lie l_m, and the judge
    believes the truth with 50 + w_n - l_m %. Nobody needs to mix: the value is that of the
    heaviest drafts, and a larger pool moves it only where it has a heavier one."""
    weights, lies = (5, 20, 10, 25), (0, 30, 10, 5)
    table = [[50 + w - lie for lie in lies] for w in weights]
    for pool, value in ((1, 0.55), (2, 0.40), (3, 0.40), (4, 0.45)):
        game = DebateGame(JUDGE, ALICE, pool=pool)
        assert (await game.run(CRATES, A, planted(table))).probs[0] == pytest.approx(value)


async def test_a_pool_of_one_is_the_debate() -> None:
    for simultaneous in (True, False):
        ask, plain = planted(PENNIES), planted(PENNIES)
        game = DebateGame(JUDGE, ALICE, pool=1, simultaneous=simultaneous)
        debate = Debate(JUDGE, ALICE, rounds=1, simultaneous=simultaneous)
        ended = await debate.run(CRATES, A, plain)
        played = await game.run(CRATES, A, ask)
        assert played.probs == pytest.approx(ended.probs)
        assert played.transcript == ended.transcript
        assert addresses(ask) == addresses(plain)


@given(st.integers(), st.integers(1, 3), st.booleans())
@settings(deadline=None)
async def test_equilibrium_lies_between_what_each_side_gets_by_choosing_alone(
    salt: int, pool: int, simultaneous: bool
) -> None:
    def babble(call: Call) -> str:
        share = crc32(f"{salt}{call.address}".encode()) % 101
        spoke = prompt(call).task == "speak"
        return f"speech {share}" if spoke else f"A: {share}%\nB: {100 - share}%"

    game = DebateGame(JUDGE, ALICE, pool=pool, simultaneous=simultaneous)
    a, b = await game.worlds(APPLES, Scripted(babble))
    if simultaneous:
        assert (a.probs, a.transcript) == (b.probs, b.transcript)
    for world, place in ((a, 0), (b, 1)):
        told = dict(world.measures)
        drawn, agent, opponent = (
            float(told[name]) for name in ("drawn", "agent_gain", "opponent_gain")
        )
        assert agent >= -1e-9 and opponent >= -1e-9
        if simultaneous:
            assert drawn - opponent - 1e-9 <= world.probs[place] <= drawn + agent + 1e-9


@given(st.integers(1, 5), st.integers(1, 5), st.integers())
@settings(deadline=None)
def test_neither_side_can_leave_an_equilibrium_with_a_gain(m: int, n: int, seed: int) -> None:
    payoff = np.random.default_rng(abs(seed)).integers(0, 11, (m, n)) / 10
    found = equilibrium(payoff.tolist())
    assert sum(found.rows) == pytest.approx(1) and sum(found.columns) == pytest.approx(1)
    assert float((np.array(found.rows) @ payoff).min()) == pytest.approx(found.value)
    assert float((payoff @ np.array(found.columns)).max()) == pytest.approx(found.value)


def test_rock_paper_scissors_is_worth_nothing_and_played_evenly() -> None:
    found = equilibrium([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    assert found.value == pytest.approx(0)
    assert found.rows == pytest.approx((1 / 3,) * 3)


def test_of_several_saddle_points_the_first_is_played() -> None:
    found = equilibrium([[0.5, 0.5], [0.5, 0.5], [0.1, 0.2]])
    assert (found.value, found.rows, found.columns) == (0.5, (1, 0, 0), (1, 0))
