"""Verdicts, bounds and counts by hand, for every kind of judge and several unread replies."""

import math
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from oversight import Answer, Call, LogprobJudge, Question, Reply, StatedJudge, Transcript
from oversight.cache.reply import Token
from oversight.protocols import (
    Conversation,
    Jury,
    Propaganda,
    Redrawn,
    Turn,
    Unreadable,
    VotesJudge,
)
from oversight.protocols.counts import unread_by_seat
from oversight.protocols.doubts import UnreadReply
from oversight.protocols.held import (
    BeliefHistory,
    DiscussedQuestion,
    RecordedConversation,
    RecordedTurn,
)
from oversight.protocols.judges.case import Case
from oversight.protocols.judges.published import PublishedJudge
from oversight.protocols.protocol import Measured
from oversight.protocols.transcript import Verdict
from tests.fakes import ALICE, APPLES, CRATES, JUDGE, A, B, Scripted, prompt, token

THREE = Question("?", tuple(Answer(label, label.lower()) for label in "ABC"))
ANN, BEN, CAT = (StatedJudge(name) for name in ("ann", "ben", "cat"))
VOTES, BOTH = VotesJudge("votes", n=2), {"both_orders": True}
FIRST = 'label="A">\n48'
REPLIES: dict[str, Callable[[Call], str]] = {
    "ann": lambda call: "A: 80%\nB: 20%" + "\nC: 0%" * ('label="C"' in prompt(call).system),
    "ben": lambda call: "A: 60%\nB: 40%",
    "cat": lambda call: "Hm.",
    "votes": lambda call: "Hm." if call.draw == (1,) else "Answer: A",
    # In the other order, in which 36 is (A), the only vote is for 36, or nothing is stated.
    "order": lambda call: (
        "Answer: A" if call.draw == (0,) or FIRST in prompt(call).system else "Hm."
    ),
    "once": lambda call: "A: 80%\nB: 20%" if FIRST in prompt(call).system else "Hm.",
}


LOGODDS = [
    1 / (1 + math.exp(-(math.log(4) + odds) / 2)) for odds in (-math.log(9999), math.log(9999))
]
"""Pools of 0.8 with a juror who may have any log odds within the clips."""


@pytest.mark.parametrize(
    ("judge", "p", "span", "unread", "question"),
    [
        (Jury((ANN, BEN, CAT), weights=(3, 1, 4)), 3 / 4, (3 / 8, 7 / 8), 1, CRATES),
        (Jury((CAT, ANN, BEN), weights=(4, 3, 1)), 3 / 4, (3 / 8, 7 / 8), 1, CRATES),
        (Jury((ANN, BEN, CAT), weights=(0, 0, 1)), 0.7, (0, 1), 1, CRATES),
        (Jury((ANN, BEN, CAT), "median"), 0.7, (0.6, 0.8), 1, CRATES),
        (Jury((ANN, CAT), "logodds"), 0.8, LOGODDS, 1, CRATES),
        (Jury((ANN, CAT), "logodds"), 0.8 / 1.0001, (0, 1), 1, THREE),
        (Jury((ANN, CAT)), 0.8, (0.4, 0.9), 1, THREE),
        (VOTES, 1, (0.5, 1), 1, CRATES),
        (Jury((VOTES, BEN)), 0.8, (0.55, 0.8), 1, CRATES),
        (VotesJudge("order", n=3, **BOTH), 1 / 2, (1 / 2, 5 / 6), 2, CRATES),
        (StatedJudge("once", **BOTH), 0.8, (0.4, 0.9), 1, CRATES),
    ],
)  # fmt: skip
async def test_a_verdict_and_its_bounds_are_those_of_its_replies(judge, p, span, unread, question):
    verdict = await judge.judge(Transcript(question), Scripted(lambda c: REPLIES[c.model](c)))
    assert verdict.probs[0] == pytest.approx(p) and sum(verdict.probs) == pytest.approx(1)
    assert verdict.bounds[0] == pytest.approx(span) and len(verdict.doubts) == unread
    settled = verdict.settled(question.answers[0])
    assert settled.probs[0] == pytest.approx(span[0]) and sum(settled.probs) == pytest.approx(1)


async def test_redraws_begin_with_the_plain_call_and_all_are_kept():
    percents = {(): "90", (1,): "60", (2,): "30"}
    ask = Scripted(lambda call: f"A: {(p := percents[call.draw])}%\nB: {100 - int(p)}%")
    verdict = await Redrawn(JUDGE).judge(Transcript(CRATES), ask)
    assert [call.draw for call in ask.calls] == [(), (1,), (2,)] and not verdict.bounds
    assert [p for p, _ in verdict.redraws] == pytest.approx([0.9, 0.6, 0.3])
    assert verdict.probs == pytest.approx((0.6, 0.4))


async def test_mass_beyond_the_labels_and_rounded_logprobs():
    def read(*top: tuple[str, float]) -> Scripted:
        reply = Reply(top[0][0], logprobs=(Token(*top[0], top),))
        return Scripted(lambda call: reply)

    judge, heard = LogprobJudge("m"), Transcript(CRATES)
    rounded = await judge.judge(heard, read(("A", 0.009), ("B", -50.0)))
    assert rounded.judgements[0].captured == 1 and not rounded.bounds
    for beyond in ((("A", 0.02),), (("A", math.log(0.8)), ("B", math.log(0.22)))):
        with pytest.raises(Unreadable, match="not probabilities"):
            await judge.judge(heard, read(*beyond))
    half = await judge.judge(
        heard, read(("A", math.log(0.2)), (" a", -9), ("**A", math.log(0.1)), ("B", math.log(0.1)))
    )
    assert half.probs == pytest.approx((0.75, 0.25)) and half.bounds[1] == pytest.approx((0.1, 0.7))
    cases = replace(CRATES, answers=(Answer("Yes", "1"), Answer("yes", "2"), Answer("No", "3")))
    with pytest.raises(Unreadable):
        await judge.judge(
            Transcript(cases), Scripted(lambda c: Reply("Yes", logprobs=(token("Yes", 1.0),)))
        )


async def test_a_belief_has_the_bounds_of_its_unread_replies():
    ask = Scripted(lambda call: "Hm." if call.draw == (1,) else "Answer: Yes")
    belief = await VOTES.believes("So.", Transcript(CRATES), ask)
    assert (belief.value, belief.ends, len(belief.doubts)) == (1, (0.5, 1), 1)


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
    def settled(heard: Turn, *unheard: Turn) -> Verdict:
        return Verdict((0.7, 0.3), Transcript(CRATES, (heard,)), unheard=unheard).settled(A)

    spoken, doubt = Turn("Critic", "So."), UnreadReply("Judge", "partial")
    refused, empty = replace(spoken, outcome="refused"), replace(spoken, text="")
    doubted = replace(spoken, doubts=(doubt,))
    assert settled(spoken, spoken).bounds == ()
    for turn in (refused, empty, doubted):
        for verdict in (settled(turn), settled(spoken, turn)):
            assert verdict.bounds == ((0, 1), (0, 1)) and verdict.doubts == turn.doubts
    drafts = replace(spoken, drafts=(refused, replace(spoken, outcome="truncated")))
    verdict = replace(settled(drafts, replace(spoken, conceded=True)), doubts=(doubt, doubt))
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
    held = RecordedConversation("debate", turns, judged=(*judged, history("timed", (0, 0.1))))
    question = DiscussedQuestion(CRATES.text, CRATES.answers, held=held)
    spoken = [Turn("Debater A", "So.", A)] * 2
    for heard, p in ((0, 0.5), (1, 0.4), (2, 0.6)):
        transcript = Transcript(question, tuple(spoken[:heard]))
        verdict = await PublishedJudge().judge(transcript, Scripted(lambda call: ""))
        assert verdict.probs[0] == pytest.approx(p), heard


async def test_every_setting_of_a_judge_reaches_its_call():
    settings = {"effort": "low", "reasoning_tokens": 100, "temperature": 0.3, "seed": 4}
    judge = StatedJudge(
        "m", max_tokens=10, turn_tokens=20, reason="public", persona="You are P.", **settings
    )
    passage = replace(CRATES, passage="Text.", graded=True)
    ask = Scripted(lambda call: "A: 60%\nB: 40%")
    for question in (CRATES, passage):
        await judge.judge(Transcript(question), ask)
    (plain, blind), agent = ask.calls, judge.base_agent
    assert (plain.request.max_tokens, agent.max_tokens, agent.reason) == (1134, 20, "public")
    assert (agent.effort, agent.reasoning_tokens, agent.temperature) == ("low", 100, 0.3)
    assert (plain.request.effort, plain.request.temperature, plain.request.seed) == ("low", 0.3, 4)
    words = Case(Transcript(CRATES)).judge_prompt.words
    for call, differs in ((plain, False), (blind, True)):
        assert "You are P." in prompt(call).system
        assert (words.text("judge.blind") in prompt(call).user) == differs
        assert (words.text("agent.graded") in prompt(call).system) == differs
        assert ("best" in prompt(call).user) == differs
