"""Several judges or votes on one transcript; graded answers; exchanged labels."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from msgspec import structs

from oversight import Answer, Call, Problem, Question, Reply, Transcript, Turn
from oversight.protocols import Agent, Conversation, Debate, Shot, StatedJudge, Unreadable
from oversight.protocols.counts import unread_by_seat
from oversight.protocols.doubts import UnreadReply
from oversight.protocols.held import (
    BeliefHistory,
    DiscussedQuestion,
    RecordedConversation,
    RecordedTurn,
)  # fmt: skip
from oversight.protocols.judges.jury import Jury, Pooling
from oversight.protocols.judges.published import PublishedJudge
from oversight.protocols.judges.repeated import Ensemble
from oversight.protocols.mechanisms.baselines import Consultancy, NaiveJudge, Propaganda
from oversight.protocols.protocol import Measured
from oversight.protocols.scores import brier
from oversight.protocols.transcript import Verdict
from tests.fakes import ALICE, APPLES, CRATES, JUDGE, A, B, Scripted, prompt
from tests.world import shipments, simulated

ANN, BEN, CAT = (StatedJudge(name) for name in ("ann", "ben", "cat"))
THREE = (ANN, BEN, CAT)
TRANSCRIPT = Transcript(CRATES)


def stating(**percents: float) -> Scripted:
    """Each model states this percentage for A."""
    return Scripted(lambda call: f"A: {percents[call.model]}%\nB: {100 - percents[call.model]}%")


async def probs(jury: Jury, **percents: float) -> tuple[float, ...]:
    return (await jury.judge(TRANSCRIPT, stating(**percents))).probs


LOSSES: dict[Pooling, Callable[[float, float], float]] = {
    "mean": lambda pool, juror: (pool - juror) ** 2,
    "median": lambda pool, juror: abs(pool - juror),
    "logodds": lambda pool, juror: (
        pool * math.log(pool / juror) + (1 - pool) * math.log((1 - pool) / (1 - juror))
    ),
}


WEIGHTS = ((), (2.0, 1.0, 1.0), (20.0, 10.0, 10.0), (0.0, 1.0, 0.0))


@pytest.mark.parametrize(
    ("pool", "weights"), [("median", ()), *product(("mean", "logodds"), WEIGHTS)]
)
async def test_pools_minimise_their_distance_to_the_jurors(pool, weights):
    """The known truth: of all probabilities the weighted mean has the least squared distance from
    the jurors, the median the least distance, and the pool of log odds the least Kullback-Leibler
    divergence. The minimum is searched on a grid of 9999."""
    speech = {"ann": 90.0, "ben": 60.0, "cat": 20.0}
    shares, loss = weights or (1.0, 1.0, 1.0), LOSSES[pool]

    def total(candidate: float) -> float:
        jurors = zip(shares, speech.values(), strict=True)
        return sum(share * loss(candidate, p / 100) for share, p in jurors)

    nearest = min((n / 10_000 for n in range(1, 10_000)), key=total)
    # The weights of readable jurors do not change if another one is unread.
    mute = Jury((StatedJudge("mute"), *THREE), pool, (5.0, *weights) if weights else ())
    for jury in (Jury(THREE, pool, weights), mute):
        pooled = await probs(jury, **speech, mute=math.nan)
        assert pooled == pytest.approx((nearest, 1 - nearest), abs=1e-4)


async def test_certain_juror_has_no_veto_in_the_log_odds_pool():
    assert 0.3 < (await probs(Jury(THREE, "logodds"), ann=0.0, ben=99.0, cat=99.0))[0] < 0.6


async def test_medians_that_sum_to_zero_are_unreadable():
    three = structs.replace(CRATES, answers=(*CRATES.answers, Answer("C", "12")))

    def script(call: Call) -> str:
        favourite = "ABC"[["ann", "ben", "cat"].index(call.model)]
        return "\n".join(f"{label}: {100 * (label == favourite)}%" for label in "ABC")

    with pytest.raises(Unreadable, match="add up to nothing"):
        await Jury(THREE, "median").judge(Transcript(three), Scripted(script))


@pytest.mark.parametrize(("size", "q"), [(1, 0.7), (3, 0.7), (7, 0.7), (5, 0.4)])
async def test_independent_jurors_are_right_as_often_as_condorcet_says(size, q):
    """The known truth (Condorcet 1785): each of K jurors is independently sure of the right answer
    with probability q. The jury is right with the probability that most of them are: at 0.7 this is
    0.700, 0.784 and 0.874 with 1, 3 and 7 jurors. All 2^K outcomes are counted."""
    most = sum(
        math.comb(size, k) * q**k * (1 - q) ** (size - k) for k in range(size // 2 + 1, size + 1)
    )
    jury, right = Jury(tuple(StatedJudge(f"juror {k}") for k in range(size))), 0.0
    for pattern in product((True, False), repeat=size):
        sure = {f"juror {k}": 100.0 * ok for k, ok in enumerate(pattern)}
        verdict_probs = await probs(jury, **sure)
        right += math.prod(q if ok else 1 - q for ok in pattern) * (verdict_probs[0] > 0.5)
    assert right == pytest.approx(most)


async def test_the_first_juror_who_reads_most_speaks_for_the_jury():
    jury = Jury((replace(ANN, reads_passage=True), BEN))
    transcript = structs.replace(CRATES, passage="PASSAGE")
    ask = Scripted(lambda call: "A: 60%\nB: 40%")
    await Consultancy(jury, Agent("alice")).run(transcript, CRATES.answers[0], ask)
    calls_seen = [(call.model, "PASSAGE" in prompt(call).system) for call in ask.calls]
    assert calls_seen == [("ann", True), ("alice", True), ("ann", True), ("ben", False)]
    speech = prompt(ask.calls[1])
    again = Scripted(lambda call: "A: 60%\nB: 40%")
    other = Consultancy(Jury(jury.judges[::-1]), Agent("alice"))
    await other.run(transcript, CRATES.answers[0], again)
    # Speakers hear that the judge reads the passage, whichever juror does.
    assert prompt(again.calls[1]) == speech and "can read the passage too" in speech.user
    seen_again = [(call.model, "PASSAGE" in prompt(call).system) for call in again.calls]
    assert seen_again == [("ann", True), ("alice", True), ("ben", False), ("ann", True)]


YES_NO = (Answer("A", "yes"), Answer("B", "no"))
EXAMPLES = tuple(
    Shot(Transcript(Question(f"Is {n} even?", YES_NO)), (1 - n % 2, n % 2)) for n in range(12)
)


def percent(p: float) -> str:
    return f"A: {p}%\nB: {100 - p}%"


async def test_members_are_draws_at_the_temperature_of_the_ensemble():
    ask = Scripted(lambda call: percent(10 * call.draw[0]))
    verdict = await Ensemble(JUDGE).judge(TRANSCRIPT, ask)
    assert [call.draw for call in ask.calls] == [(0,), (1,), (2,), (3,), (4,)]
    assert {call.temperature for call in ask.calls} == {1.0}
    assert verdict.probs == pytest.approx((0.2, 0.8)) and len(verdict.judgements) == 5


async def test_each_member_has_its_own_bag_of_examples_the_same_for_every_question():
    ensemble = Ensemble(JUDGE, examples=EXAMPLES)
    bags = [ensemble.taught(n, EXAMPLES).shots for n in range(5)]
    assert all(len(bag) == 4 for bag in bags) and len(set(bags)) == 5
    assert bags == [ensemble.taught(n, EXAMPLES).shots for n in range(5)]
    assert bags[0] != replace(ensemble, seed=1).taught(0, EXAMPLES).shots
    ask = Scripted(lambda call: percent(50))
    await ensemble.judge(TRANSCRIPT, ask)
    for call, bag in zip(ask.calls, bags, strict=True):
        for shot in bag:
            assert shot.floor.question.text in prompt(call).system
    own_shot = Shot(Transcript(structs.replace(TRANSCRIPT.question, answers=YES_NO)), (1, 0))
    await replace(ensemble, examples=(own_shot,)).judge(TRANSCRIPT, ask)
    assert not any("<example>" in prompt(call).system for call in ask.calls[5:])


async def test_an_unread_member_of_an_ensemble_bounds_its_verdict():
    """The known truth: of five members only the first is read, at 50 %."""
    ensemble = Ensemble(JUDGE, examples=EXAMPLES)
    half = await ensemble.judge(TRANSCRIPT, Scripted(lambda c: "hm" if c.draw[0] else percent(50)))
    assert half.probs == (0.5, 0.5) and half.bounds[0] == pytest.approx((0.1, 0.9))
    with pytest.raises(Unreadable):
        await ensemble.judge(TRANSCRIPT, Scripted(lambda call: "hm"))


ROUTES = Question(
    "Which way to the harbour?",
    (Answer("A", "over the hill"), Answer("B", "by the shore"), Answer("C", "through the town")),
    graded=True,
)
WAYS = Problem("ways", ROUTES, (2, 0.5, -1))


async def test_graded_answers_are_scored_by_their_values():
    """The known truth: every speech for an answer weighs the answer's value, in nats, and a judge
    adds them up. In a debate it hears all three in every world, so its verdict is the softmax of
    the values, and the score difference is the sum of centred value times the Brier score of that
    verdict. A judge who finds all alike gives a third to each."""

    def weighs(call: Call) -> str:
        if prompt(call).task != "percentages":
            return prompt(call).side
        values = [WAYS.values["ABC".index(speech)] for speech in prompt(call).speeches]
        weights = [math.exp(value) for value in values] or [1.0, 1.0, 1.0]
        shares = [100 * weight / sum(weights) for weight in weights]
        return "\n".join(f"{label}: {p:.9f}%" for label, p in zip("ABC", shares, strict=True))

    centred = structs.replace(WAYS, values=tuple(value - 0.5 for value in WAYS.values))
    softmax = [math.exp(value) / sum(map(math.exp, WAYS.values)) for value in WAYS.values]
    expected = sum(v * brier(tuple(softmax), n) for n, v in enumerate(centred.values))
    asd = await Debate(JUDGE, ALICE, rounds=1).agent_score_difference(centred, Scripted(weighs))
    assert asd == pytest.approx(expected, abs=1e-6) and asd > 1
    naive = await NaiveJudge(JUDGE).agent_score_difference(centred, Scripted(weighs))
    assert naive == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("simultaneous", [True, False])
async def test_unbiased_judge_gives_the_same_verdict_in_both_orders(simultaneous):
    """The known truth: a judge who considers only contents, not labels or positions, gives the same
    probabilities in one order and in both."""
    problems = shipments(10)
    for problem in problems:
        plain = Debate(StatedJudge("sim/quiet"), Agent("sim/it"), simultaneous=simultaneous)
        both = replace(plain, judge=StatedJudge("sim/quiet", both_orders=True))
        runs = [await way.worlds(problem, simulated(problems)) for way in (plain, both)]
        for one, other in zip(*runs, strict=True):
            assert other.probs == pytest.approx(one.probs, abs=1e-6)


@pytest.mark.parametrize("lean", [0.6, 0.9])
@pytest.mark.parametrize("to", ["label", "first answer", "last speaker"])
async def test_biased_judge_is_undecided_in_both_orders(lean, to):
    """The known truth: a judge who gives `lean` to (A), to the answer shown first, or to the last
    of several concurrent speakers gives one half to each answer if it is asked in both orders. For
    a statement it gives one half to its being true."""

    def leaning(call: Call) -> str:
        parsed = prompt(call)
        if parsed.task == "statement":
            options = re.findall(r"^(Yes|No): <", parsed.user, re.MULTILINE)
            favourite = "Yes" if to == "label" else options[-1 if to == "last speaker" else 0]
            other = ({"Yes", "No"} - {favourite}).pop()
            return f"{favourite}: {100 * lean}%\n{other}: {100 - 100 * lean}%"
        favourite = {
            "label": "A",
            "first answer": parsed.system.partition('<answer label="')[2][0],
            "last speaker": parsed.speakers[-1][-1],
        }[to]
        other = "B" if favourite == "A" else "A"
        return f"{favourite}: {100 * lean}%\n{other}: {100 - 100 * lean}%"

    turns = [Turn(f"Debater {side.label}", "So.", side, at_once=True) for side in (A, B)]
    judge = StatedJudge("judge", both_orders=True)
    verdict = await judge.judge(Transcript(CRATES, tuple(turns)), Scripted(leaning))
    assert verdict.probs == pytest.approx((0.5, 0.5))
    belief = await judge.believes("It is so.", Transcript(CRATES), Scripted(leaning))
    # The two words of a statement exchange only their positions.
    assert belief.value == pytest.approx(lean if to == "label" else 0.5)


async def test_the_verdict_is_the_worst_of_those_that_unread_replies_leave_open():
    first, second, spare = (Turn(name, name) for name in ("One", "Two", "Spare"))

    class Open(Conversation):
        async def converse(self, transcript, side, ask):
            doubt = UnreadReply("Critic", "empty")
            others = (transcript.then(second),)
            return Measured(transcript.then(first), (("n", 1),), others, (doubt,), (spare, first))

    ask = Scripted(lambda call: "A: 80%\nB: 20%" if "One" in str(call) else "A: 30%\nB: 70%")
    for side, p, unheard in ((A, 0.3, (spare, first)), (B, 0.8, (spare, second))):
        verdict = await Open(JUDGE).run(CRATES, side, ask)
        assert verdict.probs[0] == pytest.approx(p) and verdict.measures == (("n", 1),)
        assert verdict.bounds[0] == pytest.approx((0.3, 0.8))
        assert verdict.unheard == unheard and [d.seat for d in verdict.doubts] == ["Critic"]


def test_a_silent_turn_leaves_the_verdict_open_even_if_nobody_heard_it():
    def settled(spoken_turn: Turn, *unheard: Turn) -> Verdict:
        return Verdict((0.7, 0.3), Transcript(CRATES, (spoken_turn,)), unheard=unheard).settled(A)

    spoken, doubt = Turn("Critic", "So."), UnreadReply("Judge", "partial")
    refused, empty = structs.replace(spoken, outcome="refused"), structs.replace(spoken, text="")
    doubted = structs.replace(spoken, doubts=(doubt,))
    assert settled(spoken, spoken).bounds == ()
    for turn in (refused, empty, doubted):
        for verdict in (settled(turn), settled(spoken, turn)):
            assert verdict.bounds == ((0, 1), (0, 1)) and verdict.doubts == turn.doubts
    drafts = structs.replace(spoken, drafts=(refused, structs.replace(spoken, outcome="truncated")))
    verdict = structs.replace(
        settled(drafts, structs.replace(spoken, conceded=True)), doubts=(doubt, doubt)
    )
    assert unread_by_seat(verdict) == {
        "Critic: conceded": 1, "Critic: refused": 1, "Critic: truncated": 1, "Judge: partial": 2,
    }  # fmt: skip


async def test_each_world_has_the_fault_of_its_reply():
    def reply(call: Call) -> Reply:
        if call.model == "alice":
            return Reply(f"For {prompt(call).side}.")
        return Reply("", outcome="refused" if "For A." in prompt(call).user else "empty")

    first, second = await Propaganda(JUDGE, ALICE).worlds(APPLES, Scripted(reply))
    assert [first.doubts[0].cause, second.doubts[0].cause] == ["refused", "empty"]
    assert (first.probs, second.probs) == ((0, 1), (1, 0)) and first.bounds == ((0, 1), (0, 1))


async def test_published_judges_state_the_latest_belief_and_at_the_end_their_verdict():
    def history(mode: str, *beliefs: tuple[int, float]) -> BeliefHistory:
        return BeliefHistory("Ann", mode, tuple((n, (p, 1 - p)) for n, p in beliefs))

    turns = tuple(RecordedTurn(n, "Debater A", "So.", "A") for n in (1, 2))
    judged = history("live", (0, 0.5), (1, 0.6), (3, 0.9)), history("live", (1, 0.2), (2, 0.3))
    record = RecordedConversation("debate", turns, judged=(*judged, history("timed", (0, 0.1))))
    question = DiscussedQuestion(CRATES.text, CRATES.answers, held=record)
    spoken = [Turn("Debater A", "So.", A)] * 2
    for heard, p in ((0, 0.5), (1, 0.4), (2, 0.6)):
        transcript = Transcript(question, tuple(spoken[:heard]))
        verdict = await PublishedJudge().judge(transcript, Scripted(lambda call: ""))
        assert verdict.probs[0] == pytest.approx(p), heard
