import math
from dataclasses import replace
from itertools import product

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.protocols.agents.agent import Agent
from oversight.protocols.errors import Declined, Unreadable
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.auxiliary import Aux
from oversight.protocols.mechanisms.prover_estimator_debate import (
    Level,
    ProverEstimatorDebate,
    chained,
    gain,
)
from oversight.protocols.prompts.prompt_set import for_side
from oversight.protocols.question import Answer, Question
from oversight.protocols.transcript import Verdict
from tests.fakes import CRATES, Scripted, held, paid, prompt

JUDGE = StatedJudge("judge")
ALICE, ESTHER = Agent("alice"), Agent("esther")
A, B = CRATES.answers


def form(**fields: object) -> str:
    return orjson.dumps(fields).decode()


def estimates(*stated: object) -> str:
    return orjson.dumps({str(n): p for n, p in enumerate(stated, 1)}).decode()


def script(call: Call, subclaim: object = 2, truth_is: object = "higher") -> str:
    asked = prompt(call)
    match asked.task:
        case "subclaims":
            parts = [f"{asked.speeches[0]} part {n}" for n in "123"]
            return form(subclaims=parts, needed="all", at_least=3)
        case "estimates":
            return estimates(0.9, 0.5, 0.8, 0.95)
        case "pick":
            return form(subclaim=subclaim, truth_is=truth_is)
        case "statement":
            return held(0.75)
    raise AssertionError(asked.task)


async def test_split_estimate_pick_over_again_then_the_judge_labels_the_leaf():
    ask = Scripted(script)
    verdict = await ProverEstimatorDebate(JUDGE, ALICE, ESTHER).run(CRATES, A, ask)
    level = [("alice", "subclaims A"), ("esther", "estimates A"), ("alice", "pick A")]
    assert [(call.model, prompt(call).asks) for call in ask.calls] == [
        *level,
        *level,
        ("judge", "statement A"),
    ]
    # At the leaf 0.75 stands for part 2 of part 2; 0.9, 0.8 and 0.95 for the others on both levels.
    others = 0.9 * 0.8 * 0.95
    assert verdict.probs == pytest.approx((0.75 * others**2, 1 - 0.75 * others**2))
    assert dict(verdict.measures) == {
        "label": 0.75,
        "prover_gain": pytest.approx(0.25),
        "splits": 2,
        "asked_again": 0,
    }


async def test_everyone_sees_the_claim_at_hand_and_never_the_splits_above_it():
    ask = Scripted(script)
    await ProverEstimatorDebate(JUDGE, ALICE, ESTHER).run(CRATES, A, ask)
    prover, estimator = "Prover A", "Estimator"
    heard = [prompt(call).speakers for call in ask.calls]
    assert heard == [
        (prover,),
        (prover,) * 2,
        (prover, prover, estimator),
        (prover,) * 2,
        (prover,) * 3,
        (prover, prover, prover, estimator),
        (),
    ]
    claims = [prompt(call).speeches[0] for call in ask.calls[:-1]]
    root = "The right answer is (A) 48."
    assert claims == [root] * 3 + [f"{root} part 2"] * 3
    assert f"“{root} part 2 part 2”" in prompt(ask.calls[-1]).user
    assert "[2] The right answer is (A) 48. part 2" in prompt(ask.calls[1]).speeches[1]
    assert prompt(ask.calls[2]).speeches[2] == "[1] 90.0%, [2] 50.0%, [3] 80.0%, [4] 95.0%"


async def test_that_the_claim_follows_is_a_subclaim_that_can_be_picked_and_judged():
    ask = Scripted(lambda call: script(call, 4))
    verdict = await ProverEstimatorDebate(JUDGE, ALICE, depth=1).run(CRATES, A, ask)
    root = "The right answer is (A) 48."
    link = f"If all of these hold: (1) {root} part 1 (2) {root} part 2 (3) {root} part 3 "
    assert f"“{link}Then it follows that: {root}”" in prompt(ask.calls[-1]).user
    assert verdict.probs[0] == pytest.approx(0.9 * 0.5 * 0.8 * 0.75)


@pytest.mark.parametrize(("truth_is", "opening"), [("higher", ""), ("lower", "It is not the case")])
async def test_the_next_split_is_told_what_was_said_of_its_claim(truth_is: str, opening: str):
    ask = Scripted(lambda call: script(call, 1, truth_is))
    await ProverEstimatorDebate(JUDGE, ALICE).run(CRATES, A, ask)
    second = [call for call in ask.calls if prompt(call).task == "subclaims"][1]
    claim, said = prompt(second).speeches
    assert claim.startswith(opening or "The right answer")
    share = "90.0%" if truth_is == "higher" else "10.0%"
    assert said == f"The estimate of this claim is {share}. I say: more likely."


@pytest.mark.parametrize(
    ("needed", "at_least", "expected"),
    [
        ("all", 1, 0.9 * 0.75 * 0.8),
        ("any", 3, 1 - 0.1 * 0.25 * 0.2),
        ("at least", 2, 0.9 * 0.75 * 0.2 + 0.9 * 0.25 * 0.8 + 0.1 * 0.75 * 0.8 + 0.9 * 0.75 * 0.8),
    ],
)
async def test_a_claim_is_as_likely_as_its_subclaims_in_the_way_that_the_prover_stated(
    needed: str, at_least: int, expected: float
):
    def stating(call: Call) -> str:
        if prompt(call).task == "subclaims":
            return form(subclaims=["one", "two", "three"], needed=needed, at_least=at_least)
        return script(call)

    ask = Scripted(stating)
    verdict = await ProverEstimatorDebate(JUDGE, ALICE, depth=1).run(CRATES, A, ask)
    assert verdict.probs[0] == pytest.approx(0.95 * expected)
    count = {"all": "all", "any": "at least 1", "at least": "at least 2"}[needed]
    assert f"[4] If {count} of these hold: (1) one" in prompt(ask.calls[1]).speeches[1]


async def test_a_list_that_is_too_long_is_asked_for_again_and_never_cut():
    lists = [["one", "two", "three", "four"], ["one", "two", "three"]]

    def listing(call: Call) -> str:
        if prompt(call).task == "subclaims":
            return form(subclaims=lists.pop(0), needed="all", at_least=1)
        return script(call)

    ask = Scripted(listing)
    verdict = await ProverEstimatorDebate(JUDGE, ALICE, depth=1).run(CRATES, A, ask)
    assert "with 4 entries. That is more than 3" in prompt(ask.calls[1]).user
    assert dict(verdict.measures)["asked_again"] == 1
    lists += [["one", "two", "three", "four"]] * 2
    with pytest.raises(Unreadable, match="listed twice over, where 3 may be"):
        await ProverEstimatorDebate(JUDGE, ALICE, depth=1).run(CRATES, A, Scripted(listing))


async def test_the_transcript_keeps_every_split_and_pick():
    verdict = await ProverEstimatorDebate(JUDGE, ALICE, ESTHER).run(CRATES, A, Scripted(script))
    said = [turn.text for turn in verdict.transcript.turns]
    assert len(said) == 9 and said[3] == said[8] == "Of [2] the truth is higher."


async def test_a_claim_that_is_no_longer_split_is_the_leaf():
    def once(call: Call) -> str:
        asked = prompt(call)
        if asked.task == "subclaims" and "part" in asked.speeches[0]:
            return form(subclaims=[" "], needed="all", at_least=1)
        return script(call)

    ask = Scripted(once)
    verdict = await ProverEstimatorDebate(JUDGE, ALICE, depth=5).run(CRATES, A, ask)
    assert len(ask.calls) == 5 and dict(verdict.measures)["splits"] == 1
    assert verdict.probs[0] == pytest.approx(0.75 * 0.72 * 0.95)


async def test_a_case_against_a_claim_makes_it_less_likely_and_never_more():
    def doubting(call: Call, label: float) -> str:
        asked = prompt(call)
        if asked.task == "pick":
            first = asked.speeches[0] == "The right answer is (A) 48."
            return form(subclaim=2, truth_is="lower" if first else "higher")
        return held(label) if asked.task == "statement" else script(call)

    rest = 0.9 * 0.8 * 0.95
    for label, stands in ((0.0, 0.5), (0.5, 0.5), (1.0, 1 - rest)):
        ask = Scripted(lambda call, label=label: doubting(call, label))
        verdict = await ProverEstimatorDebate(JUDGE, ALICE).run(CRATES, A, ask)
        assert verdict.probs[0] == pytest.approx(rest * stands)


PROBABILITY = st.floats(0, 1)
LEVEL = st.lists(PROBABILITY, min_size=2, max_size=5).flatmap(
    lambda row: st.builds(
        Level,
        st.just(tuple(row)),
        st.integers(0, len(row) - 1),
        st.just("higher"),
        st.integers(1, len(row) - 1),
    )
)


@given(st.lists(LEVEL, min_size=1, max_size=4).map(tuple), PROBABILITY, PROBABILITY)
def test_a_higher_label_never_lowers_the_verdict(levels: tuple[Level, ...], one: float, two: float):
    low, high = sorted((one, two))
    assert 0 <= chained(levels, low) <= chained(levels, high) <= 1


@given(LEVEL, PROBABILITY)
def test_what_the_prover_gains_one_way_it_loses_the_other(level: Level, label: float):
    other = replace(level, truth_is="lower")
    assert gain(level, label) == -gain(other, label) and -1 <= gain(level, label) <= 1


@pytest.mark.parametrize("flawed", [None, 0, 1, 2])
async def test_an_estimator_who_knows_the_truth_cannot_be_evaded(flawed: int | None):
    """The known truth: a claim of three parts, one of them false. If the estimator knows which,
    the verdict is 0 whatever the prover picks; and it is 1 if none is false."""
    for pick in (1, 2, 3):

        def knowing(call: Call, pick: int = pick) -> str:
            asked = prompt(call)
            match asked.task:
                case "subclaims":
                    parts = ["true" if n != flawed else "false" for n in range(3)]
                    return form(subclaims=parts, needed="all", at_least=1)
                case "estimates":
                    return estimates(*(float(n != flawed) for n in range(3)), 1.0)
                case "statement":
                    return held(float("“true”" in asked.user))
            return script(call, pick)

        protocol = ProverEstimatorDebate(JUDGE, ALICE, depth=1)
        verdict = await protocol.run(CRATES, A, Scripted(knowing))
        assert verdict.probs[0] == float(flawed is None)


async def test_a_calibrated_estimator_who_cannot_find_the_flaw_is_right_on_average():
    """The known truth: of claims with four parts, a share of 0.4 has one false part, which nobody
    but the judge can tell from the others (the obfuscated argument). An estimator who knows the
    share alone, and so gives each part 0.9, is right on average about what it says: so the prover,
    who can only guess, gains 0 in the mean, whatever it picks and says; one who knows where the
    flaw is, and points at it, gains 0.9, and the verdict is 0 there."""

    async def played(flaw: int | None, pick: int, truth_is: str) -> Verdict:
        def obfuscated(call: Call) -> str:
            asked = prompt(call)
            match asked.task:
                case "subclaims":
                    parts = [f"part {n}" for n in range(4)]
                    return form(subclaims=parts, needed="all", at_least=1)
                case "estimates":
                    return estimates(*[0.9] * 4, 1.0)
                case "statement":
                    return held(float(f"“part {flaw}”" not in asked.user))
            return form(subclaim=pick + 1, truth_is=truth_is)

        protocol = ProverEstimatorDebate(JUDGE, ALICE, ESTHER, subclaims=4, depth=1)
        return await protocol.run(CRATES, A, Scripted(obfuscated))

    def gained(verdict: Verdict) -> float:
        return float(dict(verdict.measures)["prover_gain"])

    for pick, truth_is in product(range(4), ("higher", "lower")):
        mean = 0.6 * gained(await played(None, pick, truth_is))
        for flaw in range(4):
            mean += 0.1 * gained(await played(flaw, pick, truth_is))
        assert mean == pytest.approx(0)
    for flaw in range(4):
        pointed = await played(flaw, flaw, "lower")
        assert (pointed.probs[0], gained(pointed)) == (0.0, 0.9)


CHANCES = (0.9, 0.5, 0.2)
"""How likely each of three independent parts is to hold."""


def at_least(needed: int, **known: bool) -> float:
    """How likely so many of the parts are to hold, by counting all ways; known: by place."""
    total = 0.0
    for holds in product((True, False), repeat=3):
        if all(holds[int(place[1:])] == value for place, value in known.items()):
            free = (n for n in range(3) if f"n{n}" not in known)
            chance = math.prod(CHANCES[n] if holds[n] else 1 - CHANCES[n] for n in free)
            total += chance * (sum(holds) >= needed)
    return total


@pytest.mark.parametrize("needed", [1, 2, 3])
async def test_a_claim_is_as_likely_as_its_parts_given_what_the_judge_says_of_one(needed: int):
    """The known truth: a claim of three independent parts, which hold with 0.9, 0.5 and 0.2, and of
    which `needed` must. Whatever the prover picks, and whichever way it says that the truth is, the
    verdict is how likely the claim is given what the judge finds of that part (counted over all
    ways), and 0 if the judge finds that it does not follow. The prover gains by how far the truth
    is from the estimate in the way that it said."""
    count = {1: "any", 2: "at least", 3: "all"}[needed]

    for pick, truth_is, holds in product(range(4), ("higher", "lower"), (True, False)):

        def knowing(
            call: Call, pick: int = pick, truth_is: str = truth_is, holds: bool = holds
        ) -> str:
            asked = prompt(call)
            match asked.task:
                case "subclaims":
                    parts = [f"part {n}" for n in range(3)]
                    return form(subclaims=parts, needed=count, at_least=needed)
                case "estimates":
                    return estimates(*CHANCES, 1.0)
                case "statement":
                    told = "it follows that" if pick == 3 else f"“part {pick}”"
                    assert told in asked.user
                    return held(float(holds))
            return form(subclaim=pick + 1, truth_is=truth_is)

        protocol = ProverEstimatorDebate(JUDGE, ALICE, ESTHER, depth=1)
        verdict = await protocol.run(CRATES, A, Scripted(knowing))
        if pick == 3:
            expected = at_least(needed) * holds
        else:
            expected = at_least(needed, **{f"n{pick}": holds})
        assert verdict.probs[0] == pytest.approx(expected)
        sign = 1 if truth_is == "higher" else -1
        gained = sign * (holds - (*CHANCES, 1.0)[pick])
        assert dict(verdict.measures)["prover_gain"] == pytest.approx(gained)


@pytest.mark.parametrize("stated", [1, 2, 3])
async def test_a_prover_gains_nothing_by_misstating_how_many_parts_are_needed(stated: int):
    """The known truth: two of three parts are needed. An estimator who reads what is said to follow
    knows that it does from two or from all, and not from any one; so the verdict is the probability
    of at least two if that is stated, less if all are said to be needed, and 0 if any one is."""

    def reading(call: Call) -> str:
        asked = prompt(call)
        match asked.task:
            case "subclaims":
                return form(subclaims=["one", "two", "three"], needed="at least", at_least=stated)
            case "estimates":
                words = asked.speeches[1].splitlines()[-1].partition("If ")[2]
                return estimates(*CHANCES, float(not words.startswith("at least 1")))
            case "statement":
                return held(CHANCES[0])
        return form(subclaim=1, truth_is="higher")

    protocol = ProverEstimatorDebate(JUDGE, ALICE, ESTHER, depth=1)
    verdict = await protocol.run(CRATES, A, Scripted(reading))
    assert verdict.probs[0] == pytest.approx({1: 0.0, 2: at_least(2), 3: at_least(3)}[stated])


@pytest.mark.parametrize("truth_is", ["higher", "lower"])
@pytest.mark.parametrize("wrong", [False, True])
async def test_a_doubt_that_comes_to_nothing_leaves_the_verdict_as_it_was(
    truth_is: str, wrong: bool
):
    """The known truth: the prover doubts the part that holds with 0.9. The estimator, who keeps to
    what it said, gives the one thing that the doubted claim is split into the estimate that it is
    shown. If the judge finds that what is picked there is as the estimator said, the claim is as
    likely as before, in either direction. If the judge finds that one thing false, a claim that
    was said to be more likely falls, and one that was said to be less likely stands as it was."""

    def keeping(call: Call) -> str:
        asked = prompt(call)
        first = asked.speeches[:1] == ("The right answer is (A) 48.",)
        match asked.task:
            case "subclaims":
                parts = [f"part {n}" for n in range(3)] if first else ["the thing"]
                return form(subclaims=parts, needed="all", at_least=1)
            case "estimates":
                if first:
                    return estimates(*CHANCES, 1.0)
                shown = float(asked.speeches[1].partition(" is ")[2].partition("%")[0])
                return estimates(shown / 100, 1.0)
            case "statement":
                return held(0.0 if wrong else 1.0)
        # Of the second split what was picked is the thing itself, or that it follows.
        return form(subclaim=1 if first or wrong else 2, truth_is=truth_is if first else "higher")

    verdict = await ProverEstimatorDebate(JUDGE, ALICE, ESTHER).run(CRATES, A, Scripted(keeping))
    falls = wrong and truth_is == "higher"
    assert verdict.probs[0] == pytest.approx(0.0 if falls else math.prod(CHANCES))


async def test_the_worlds_share_nothing_of_their_seven_calls():
    """Whatever the estimator thinks, every claim is part of the claim that a is right."""
    in_a, in_b = await paid(ProverEstimatorDebate(JUDGE, ALICE), script)
    assert len(in_a) == len(in_b) == 7 and not in_a & in_b


async def test_more_than_two_answers_share_what_the_claim_leaves():
    three = Question("?", tuple(Answer(label, label) for label in "ABC"))
    protocol = ProverEstimatorDebate(JUDGE, ALICE, depth=1)
    protocol.check(three)
    verdict = await protocol.run(three, three.answers[1], Scripted(script))
    assert verdict.probs == pytest.approx((0.2435, 0.513, 0.2435))


@pytest.mark.parametrize(
    ("task", "reply"),
    [
        ("subclaims", form(subclaims=[], needed="all", at_least=1)),
        ("subclaims", form(parts=["one"], needed="all", at_least=1)),
        ("subclaims", form(subclaims=["one"], needed="some", at_least=1)),
        ("subclaims", form(subclaims=["one"], needed="at least", at_least=2)),
        ("subclaims", form(subclaims=["one"], needed="at least", at_least=0)),
        ("subclaims", form(subclaims=["one"])),
        ("estimates", estimates(0.9, 0.5, 0.8)),
        ("estimates", estimates(0.9, 0.5, 1.5, 0.9)),
        ("estimates", estimates(0.9, 0.5, "high", 0.9)),
        ("pick", form(subclaim=5, truth_is="higher")),
        ("pick", form(subclaim=0, truth_is="higher")),
        ("pick", form(subclaim=1, truth_is="elsewhere")),
        ("pick", form(subclaim=1, truth_is=None)),
        ("statement", held(1.01)),
        ("statement", "likely"),
    ],
)
async def test_what_cannot_be_read_leaves_the_world_without_a_verdict(task: str, reply: str):
    def muddled(call: Call) -> str:
        return reply if prompt(call).task == task else script(call)

    with pytest.raises(Unreadable):
        await ProverEstimatorDebate(JUDGE, ALICE).run(CRATES, A, Scripted(muddled))


@pytest.mark.parametrize("aux", ["honest", "sided", "adversarial"])
async def test_the_estimator_is_told_whose_side_it_is_on_and_so_is_everybody(aux: Aux):
    ask = Scripted(script)
    protocol = ProverEstimatorDebate(JUDGE, ALICE, ESTHER, depth=1, aux=aux)
    verdict = await protocol.run(CRATES, A, ask)
    words = protocol.words
    conduct = words.text(f"prover_estimator_debate.{aux}_conduct")
    assert all(conduct in prompt(call).system for call in ask.calls)
    told = for_side(words.text(f"prover_estimator_debate.{aux}"), "A", "48")
    assert told in prompt(ask.calls[1]).user
    estimator = verdict.transcript.turns[2]
    assert (estimator.speaker, estimator.side) == ("Estimator", None)


async def test_an_estimator_that_declines_is_told_from_a_muddle():
    def declining(call: Call) -> str | Reply:
        if prompt(call).task == "estimates":
            return Reply("No.", outcome="refused")
        return script(call)

    with pytest.raises(Declined):
        await ProverEstimatorDebate(JUDGE, ALICE).run(CRATES, A, Scripted(declining))


@pytest.mark.parametrize("setting", ["subclaims", "depth"])
def test_settings_that_split_nothing_are_refused(setting: str):
    with pytest.raises(ValueError, match="1 or more"):
        ProverEstimatorDebate(JUDGE, ALICE, **{setting: 0})
