"""Every kind of judge: its calls, its view of a case, and its verdict."""

import pytest
from msgspec.structs import replace

from oversight import Answer, Question, Reply, Transcript, Turn
from oversight.cache.call import Call, value_address
from oversight.protocols import Case, Ensemble, Jury, LogprobJudge, NaiveJudge, Shot, VotesJudge
from oversight.protocols.catalogue import JUDGES as KINDS
from oversight.protocols.errors import Declined, Unreadable
from oversight.protocols.judges.judge import Judge, ModelJudge
from oversight.protocols.judges.stated import DistributionJudge, StatedJudge
from oversight.protocols.prompts.prompt_set import default_prompts
from oversight.protocols.prompts.render import find_statement
from tests.fakes import CRATES, Scripted, prompt, token

MODEL, TRANSCRIPT = "sim/quiet", Transcript(CRATES, (Turn("Critic", "Step 2 is wrong."),))
ANSWERS: dict[str, str | Reply] = {
    "stated": "A: 80%\nB: 20%",
    "distribution": '{"A": 0.8, "B": 0.2}',
    "logprob": Reply("A", logprobs=(token("A", 0.8, B=0.2),)),
    "votes": "Twelve times four.\nAnswer: A",
}
"""Replies about the crates, by kind."""
BELIEFS: dict[str, str | Reply] = {
    "percentages": "Yes: 80%\nNo: 20%",
    "probabilities": '{"Yes": 0.8, "No": 0.2}',
    "label": Reply("Yes", logprobs=(token("Yes", 0.8, No=0.2),)),
    "vote": "Answer: Yes",
}
"""Replies about a statement, by task."""
EACH = pytest.mark.parametrize("kind", ANSWERS)


def judge(kind: str, **settings: object) -> ModelJudge:
    built = KINDS[kind](model=MODEL, **settings)
    assert isinstance(built, ModelJudge)
    return built


def whole(call: Call) -> str:
    return "\n".join(message.text for message in call.messages)


def saying(kind: str) -> Scripted:
    return Scripted(lambda call: ANSWERS[kind])


@EACH
async def test_judge_sees_the_passage_only_if_it_may_and_its_verdict_keeps_it(kind):
    read = Transcript(replace(CRATES, passage="The fourth crate was half full."))
    blind, sighted = saying(kind), saying(kind)
    assert (await judge(kind).judge(read, blind)).transcript == read
    await judge(kind, reads_passage=True).judge(read, sighted)
    assert not any("half full" in whole(call) for call in blind.calls)
    assert all("half full" in whole(call) for call in sighted.calls)


@EACH
async def test_refusal_is_distinguished_from_an_unreadable_reply(kind):
    speech = ANSWERS[kind]
    complied = speech if isinstance(speech, Reply) else Reply(speech)
    for reply, fault, head in (
        (Reply("No.", outcome="refused"), Declined, "refused"),
        (replace(complied, outcome="refused"), Declined, "refused"),
        (Reply("", outcome="empty"), Unreadable, "the reply was empty"),
        (Reply("Hard to say."), Unreadable, None),
    ):
        with pytest.raises(Unreadable, match=head) as caught:
            await judge(kind).judge(TRANSCRIPT, Scripted(lambda call, reply=reply: reply))
        assert type(caught.value) is fault and caught.value.raw == reply.text


@EACH
async def test_both_orders_are_asked_for_and_averaged(kind):
    """A judge that always prefers (A), which is shown first, is undecided on average."""
    ask = saying(kind)
    verdict = await judge(kind, both_orders=True).judge(TRANSCRIPT, ask)
    assert all(whole(c).index('label="A"') < whole(c).index('label="B"') for c in ask.calls)
    assert verdict.probs == pytest.approx((0.5, 0.5))
    assert ask.distinct == len(ask.calls) == (10 if kind == "votes" else 2)


@EACH
async def test_side_of_a_turn_does_not_change_the_judges_prompt(kind):
    one, other = saying(kind), saying(kind)
    for side, ask in zip(CRATES.answers, (one, other), strict=True):
        await judge(kind).judge(TRANSCRIPT.then(Turn("Voice", "48.", side)), ask)
    assert one.calls == other.calls


JUDGES: dict[str, Judge] = {
    "stated": StatedJudge(MODEL), "distribution": DistributionJudge(MODEL),
    "logprob": LogprobJudge(MODEL), "votes": VotesJudge(MODEL),
    "jury": Jury((StatedJudge(MODEL), LogprobJudge(MODEL))),
    "ensemble": Ensemble(StatedJudge(MODEL)), "both orders": StatedJudge(MODEL, both_orders=True),
    "persona": StatedJudge(MODEL, persona="You are a patient teacher."),
    "reasons": StatedJudge(MODEL, reason="private"),
    "reasons openly": DistributionJudge(MODEL, reason="public"),
}  # fmt: skip


@pytest.mark.parametrize("kind", JUDGES)
async def test_every_kind_of_judge_rates_a_statement(kind):
    def says(call: Call) -> str | Reply:
        return BELIEFS[call.messages[-1].text.rpartition('task="')[2].partition('"')[0]]

    ask = Scripted(says)
    belief = await JUDGES[kind].believes("Step 2 is wrong.", TRANSCRIPT, ask)
    assert belief.value == pytest.approx(1.0 if kind == "votes" else 0.8)
    for call in ask.calls:
        put = prompt(call)
        assert (put.task, put.side) == ("statement", "")
        assert find_statement(put.user) == "Step 2 is wrong." and CRATES.text in put.system
    of_b = belief.verdict(CRATES.answers[1], TRANSCRIPT, ()).judgements[0]
    assert of_b.probs[1] == pytest.approx(belief.judgements[0].probs[0])


async def test_private_reasoning_of_a_judge_is_not_read_as_its_verdict():
    speech = "<private>A: 10%\nB: 90% was my first thought.</private>\nA: 70%\nB: 30%"
    ask = Scripted(lambda call: speech)
    verdict = await StatedJudge(MODEL, reason="private").judge(TRANSCRIPT, ask)
    assert verdict.probs == pytest.approx((0.7, 0.3)) and verdict.judgements[0].text == speech
    plain = Scripted(lambda call: "A: 70%\nB: 30%")
    await StatedJudge(MODEL).judge(TRANSCRIPT, plain)
    assert ask.calls[0].max_tokens > plain.calls[0].max_tokens


async def test_truncated_reasoning_is_not_a_verdict():
    ask = Scripted(lambda call: Reply("<private>A: 10%\nB: 90% or so", outcome="truncated"))
    with pytest.raises(Unreadable, match="truncated"):
        await StatedJudge(MODEL, reason="private").judge(TRANSCRIPT, ask)


def test_cue_for_a_label_comes_last_outside_every_tag():
    judge = LogprobJudge(MODEL)
    cues = ((Case(TRANSCRIPT), "Answer:"), (Case(TRANSCRIPT, statement="So it is."), "Yes or No:"))
    for case, cue in cues:
        text = judge.compose(judge.shown(case, (0, 1))).messages[-1].text
        assert text.rpartition("</instructions>")[2].startswith("\n\n")
        assert text.endswith(f"\n\n{cue}") and text.count("nothing else") == 1


RAIN = Question("Is it raining?", (Answer("A", "Yes."), Answer("B", "No.")), passage="PASSAGE")
RULES = default_prompts().text("judge.rules")
HEARD_RAIN = Transcript(RAIN).then(
    Turn("Debater A", "It pours."), Turn("Debater B", "It does not.")
)
SHOT = Shot(HEARD_RAIN, (0.25, 0.75), "The second speaker knows.")


async def system(built: ModelJudge) -> str:
    ask = saying(built.kind)
    await built.judge(Transcript(CRATES), ask)
    return prompt(ask.calls[0]).system


@EACH
async def test_examples_precede_the_question_and_rules_follow_it(kind):
    head = await system(judge(kind, shots=(SHOT, SHOT)))
    assert head.startswith(default_prompts().text("judge.examples"))
    assert head.endswith(f"<rules>\n{RULES}\n</rules>")
    assert head.count("<example>") == head.count("</example>") == 2
    assert head.index("It pours.") < head.rindex("</example>") < head.index("Four crates")


@EACH
async def test_examples_hide_their_passages_from_judges_without_passage(kind):
    assert "PASSAGE" not in await system(judge(kind, shots=(SHOT,)))
    assert "PASSAGE" in await system(judge(kind, shots=(SHOT,), reads_passage=True))


async def test_examples_and_persona_are_part_of_prompt_and_identity():
    plain, with_shots, posed = (
        StatedJudge("judge", **settings)
        for settings in ({}, {"shots": (SHOT,)}, {"persona": "You are a patient teacher."})
    )
    assert len({value_address(NaiveJudge(built)) for built in (plain, with_shots, posed)}) == 3
    assert "You are a patient teacher." in await system(posed)


@EACH
async def test_examples_about_the_same_question_are_left_out(kind):
    """The known truth: an example about the same question reveals its answer, and a judge that
    copies it would always be right. It is left out, whatever the labels of its answers are. The
    others stay; without any the prompt has no examples."""
    for question in (CRATES, replace(CRATES, answers=(Answer("A", "36"), Answer("B", "48")))):
        own_shot = Shot(Transcript(question), (0.0, 1.0))
        head = await system(judge(kind, shots=(own_shot, SHOT)))
        assert head.count("<example>") == 1 and "It pours." in head
        assert "<example>" not in await system(judge(kind, shots=(own_shot,)))
