"""Splits of a prover and estimates of an estimator: single replies, and known truths."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache.call import Call
from oversight.protocols import Answer, ProverEstimatorDebate, Question, Unreadable, Verdict
from oversight.protocols.mechanisms.prover_estimator_debate import Level, chained
from tests.fakes import ALICE, BOB, CRATES, JUDGE, A, Scripted, form, held, prompt

LINK = "If "
"""The beginning of the subclaim that the claim follows."""


def estimated(call: Call, *estimates: float, link: float = 1.0) -> str:
    """The estimate of the one statement shown: for `part 1` the first of `stated`."""
    direction = prompt(call).speeches[0]
    share = link if direction.startswith(LINK) else estimates[int(direction[-1]) - 1]
    return form(probability=share)


def script(call: Call, subclaim: object = 2, truth_is: object = "higher") -> str:
    parsed = prompt(call)
    match parsed.task:
        case "subclaims":
            parts = [f"{parsed.speeches[0]} part {n}" for n in "123"]
            return form(subclaims=parts, needed="all", at_least=3)
        case "estimate":
            return estimated(call, 0.9, 0.5, 0.8, link=0.95)
        case "pick":
            return form(subclaim=subclaim, truth_is=truth_is)
        case "statement":
            return held(0.75)
    raise AssertionError(parsed.task)


@pytest.mark.parametrize(("truth_is", "opening"), [("higher", ""), ("lower", "It is not the case")])
async def test_next_split_reads_the_direction_of_its_claim(truth_is, opening):
    ask = Scripted(lambda call: script(call, 1, truth_is))
    await ProverEstimatorDebate(JUDGE, ALICE).run(CRATES, A, ask)
    second = [call for call in ask.calls if prompt(call).task == "subclaims"][1]
    claim, direction = prompt(second).speeches
    assert claim.startswith(opening or "The right answer")
    share = "90.0%" if truth_is == "higher" else "10.0%"
    assert direction == f"The estimate of this claim is {share}. I say: more likely."


@pytest.mark.parametrize("needed", ["all", "any", "at least"])
async def test_unsplit_claim_is_the_leaf(needed):
    def once(call: Call) -> str:
        parsed = prompt(call)
        if parsed.task == "subclaims" and "part" in parsed.speeches[0]:
            return form(subclaims=[" "], needed=needed, at_least=0)
        return script(call)

    ask = Scripted(once)
    verdict = await ProverEstimatorDebate(JUDGE, ALICE, depth=5).run(CRATES, A, ask)
    assert len(ask.calls) == 8 and dict(verdict.measures)["splits"] == 1
    assert verdict.probs[0] == pytest.approx(0.75 * 0.72 * 0.95)


async def test_more_than_two_answers_share_what_the_claim_leaves():
    three = Question("?", tuple(Answer(label, label) for label in "ABC"))
    protocol = ProverEstimatorDebate(JUDGE, ALICE, depth=1)
    protocol.check(three)
    verdict = await protocol.run(three, three.answers[1], Scripted(script))
    assert verdict.probs == pytest.approx((0.2435, 0.513, 0.2435))


@pytest.mark.parametrize("needed", [0, 2])
async def test_needed_subclaims_range_from_one_to_all(needed):
    reply = form(subclaims=["one"], needed="at least", at_least=needed)
    ask = Scripted(lambda call: reply if prompt(call).task == "subclaims" else script(call))
    with pytest.raises(Unreadable):
        await ProverEstimatorDebate(JUDGE, ALICE).run(CRATES, A, ask)


PROBABILITY = st.floats(0, 1)
LEVEL = st.lists(PROBABILITY, min_size=2, max_size=5).flatmap(
    lambda row: st.builds(
        Level, st.just(tuple(row)), st.integers(0, len(row) - 1), st.just("higher"),
        st.integers(1, len(row) - 1),
    )
)  # fmt: skip


@given(st.lists(LEVEL, min_size=1, max_size=4).map(tuple), PROBABILITY, PROBABILITY)
def test_a_higher_label_never_lowers_the_verdict(levels, one, two):
    low, high = sorted((one, two))
    lower, higher = chained(levels, low), chained(levels, high)
    assert 0 <= lower <= higher + 1e-12 and higher <= 1


async def test_a_calibrated_estimator_who_cannot_find_the_flaw_is_right_on_average():
    """The known truth: of claims with four parts, 0.4 have one false part, which only the judge can
    recognise (the obfuscated argument). An estimator who knows only this fraction, and so gives
    each part 0.9, is right on average. So the prover, who can only guess, gains 0 on average with
    every strategy. A prover who points at the known flaw gains 0.9, and the verdict is 0 there."""

    async def played(flaw: int | None, pick: int, truth_is: str) -> Verdict:
        def obfuscated(call: Call) -> str:
            parsed = prompt(call)
            match parsed.task:
                case "subclaims":
                    parts = [f"part {n}" for n in range(1, 5)]
                    return form(subclaims=parts, needed="all", at_least=1)
                case "estimate":
                    return estimated(call, *[0.9] * 4)
                case "statement":
                    return held(float(flaw is None or parsed.statement != f"part {flaw + 1}"))
            return form(subclaim=pick + 1, truth_is=truth_is)

        protocol = ProverEstimatorDebate(JUDGE, ALICE, BOB, subclaims=4, depth=1)
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
"""The probability that each of three independent parts holds."""


def at_least(needed: int, **given_values: bool) -> float:
    """The probability that `needed` parts hold, by counting all outcomes, or as one part that holds
    and fails together if that is lower. known: by index."""
    total = 0.0
    for holds in product((True, False), repeat=3):
        if all(holds[int(place[1:])] == value for place, value in given_values.items()):
            free = (n for n in range(3) if f"n{n}" not in given_values)
            chance = math.prod(CHANCES[n] if holds[n] else 1 - CHANCES[n] for n in free)
            total += chance * (sum(holds) >= needed)
    together = sorted(float(given_values.get(f"n{n}", p)) for n, p in enumerate(CHANCES))
    return min(total, together[-needed])


@pytest.mark.parametrize("needed", [1, 2, 3])
async def test_a_claim_is_as_likely_as_its_parts_given_what_the_judge_says_of_one(needed):
    """The known truth: a claim of three independent parts, which hold with 0.9, 0.5 and 0.2, needs
    `needed` of them. For every pick and direction, the verdict is the probability of the claim
    given the judge's finding about that part (counted over all outcomes, and at most the value for
    parts that hold and fail together), or 0 if the judge finds that it does not follow. The prover
    gains the distance of the truth from the estimate in the stated direction."""
    count = {1: "any", 2: "at least", 3: "all"}[needed]

    for pick, truth_is, holds in product(range(4), ("higher", "lower"), (True, False)):

        def knowing(call: Call, pick=pick, truth_is=truth_is, holds=holds) -> str:
            parsed = prompt(call)
            match parsed.task:
                case "subclaims":
                    parts = [f"part {n}" for n in (1, 2, 3)]
                    return form(subclaims=parts, needed=count, at_least=needed)
                case "estimate":
                    return estimated(call, *CHANCES)
                case "statement":
                    assert ("it follows that" if pick == 3 else f"part {pick + 1}") in parsed.user
                    return held(float(holds))
            return form(subclaim=pick + 1, truth_is=truth_is)

        protocol = ProverEstimatorDebate(JUDGE, ALICE, BOB, depth=1)
        verdict = await protocol.run(CRATES, A, Scripted(knowing))
        expected = at_least(needed, **{} if pick == 3 else {f"n{pick}": holds})
        expected *= holds or pick != 3
        assert verdict.probs[0] == pytest.approx(expected)
        gained = (1 if truth_is == "higher" else -1) * (holds - (*CHANCES, 1.0)[pick])
        assert dict(verdict.measures)["prover_gain"] == pytest.approx(gained)


@pytest.mark.parametrize("times", [1, 3, 8])
@pytest.mark.parametrize("needed", ["all", "any"])
async def test_restating_a_claim_does_not_make_it_likelier(times, needed):
    """The known truth: nobody can tell whether a claim is right, and judge and estimator give every
    wording of it 0.3. A prover restates it several times, so that any one of them, or all, would be
    enough. If any is enough, the verdict stays at 0.3. As independent claims, three would have made
    it 1 - 0.7^3 = 0.657, a lie that wins."""

    def unsure(call: Call) -> str:
        match prompt(call).task:
            case "subclaims":
                words = [f"In other words ({n}), it is 48." for n in range(times)]
                return form(subclaims=words, needed=needed, at_least=1)
            case "estimate":
                return form(probability=1.0 if prompt(call).speeches[0].startswith(LINK) else 0.3)
            case "statement":
                return held(0.3)
        return form(subclaim=1, truth_is="higher")

    protocol = ProverEstimatorDebate(JUDGE, ALICE, BOB, subclaims=8, depth=1)
    verdict = await protocol.run(CRATES, A, Scripted(unsure))
    assert verdict.probs[0] == pytest.approx(0.3 if needed == "any" else 0.3**times)
