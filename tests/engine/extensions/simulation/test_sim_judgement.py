"""Beliefs, speeches and filled forms of simulated models: `forms.md`."""

from math import exp
from pathlib import Path

import orjson
import pytest

from oversight import Answer, LogprobJudge, Problem, Question, Transcript, Turn, Unreadable
from oversight.cache.call import Ask, Call, Message, Request, ResponseFormat
from oversight.engine.extensions.simulation import SimModel
from oversight.engine.extensions.simulation.simulated_call import label_token
from oversight.engine.extensions.simulation.speech import (
    Contents,
    fill_form,
    form_kind,
    stated_strength,
)
from oversight.protocols import ADVOCATE, Agent, DistributionJudge, StatedJudge, VotesJudge
from oversight.protocols.drafting import SideCheck, side_form
from oversight.protocols.mechanisms.open_protocols import OpenTrust, choice_form
from oversight.protocols.prompts.forms import NUMBER, Form, probabilities_form
from tests.fakes import CRATES
from tests.sessions import sessions
from tests.tables import expressions
from tests.world import shipments, simulated, within

PROBLEMS = shipments(1000)
FIRST, SOME = PROBLEMS[0], PROBLEMS[:500]
SPEAKER, JUDGE = Agent("sim/it"), StatedJudge("sim/quiet")
QUIET = simulated(PROBLEMS)
JUDGES = (StatedJudge("sim/it"), DistributionJudge("sim/it"), LogprobJudge("sim/it"))
each_judge = pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.kind)


def logistic(nats: float) -> float:
    return 1 / (1 + exp(-nats))


def heard(problem: Problem, *spoken: tuple[int, float]) -> Transcript:
    """A transcript with one speech for each place, with these nats."""
    answers = problem.question.answers
    turns = (
        Turn(f"Debater {answers[place].label}", f"({answers[place].label}){nats:+.3f} nats.")
        for place, nats in spoken
    )
    return Transcript(problem.question, tuple(turns))


@each_judge
@pytest.mark.parametrize(
    "spoken, belief",
    [
        (((True, 1.5), (False, 1.0), (False, 0.25)), pytest.approx(logistic(1), abs=1e-8)),
        (((False, 0.1), (False, 0.2), (True, -0.45)), 0.5),  # an exact tie
        (((True, 2000.0),), 1),
    ],
)
async def test_judge_adds_arguments_to_its_prior_belief(judge, spoken, belief):
    """spoken: speeches for the truth or not, and their nats; .75 are the judge's own."""
    for problem in PROBLEMS[:10]:
        best = problem.best
        placed = ((best if right else 1 - best, nats) for right, nats in spoken)
        assert (await judge.judge(heard(problem, *placed), QUIET)).probs[best] == belief


@each_judge
async def test_among_four_answers_belief_is_shared_out_by_softmax(judge):
    answers = tuple(Answer(label, f"It is {label}.") for label in "ABCD")
    problem = Problem("four", Question("Which of four?", answers), (-1, -1, 1, -1))
    transcript, sim = heard(problem, (0, 1.5), (3, 0.5)), simulated([problem])
    weights = [exp(1.5), 1, exp(0.75), exp(0.5)]
    shares = [w / sum(weights) for w in weights]
    assert (await judge.judge(transcript, sim)).probs == pytest.approx(shares, abs=1e-8)
    statement = await judge.believes("It is (C).", transcript, sim)
    assert statement.value == pytest.approx(shares[2], abs=1e-8)


@pytest.mark.parametrize("candidates", [2, 5, 6, 20])
async def test_logprobs_give_the_same_belief_however_many_candidates_are_asked_for(candidates):
    judge = LogprobJudge("sim/it", top_logprobs=candidates)
    verdict = await judge.judge(heard(FIRST, (FIRST.best, 5.0)), QUIET)
    assert verdict.probs[FIRST.best] == pytest.approx(logistic(5.75), abs=1e-12)
    assert verdict.judgements[0].captured == pytest.approx(0.96)


def test_candidates_are_variants_and_strays_best_first_and_no_more_than_the_whole():
    token = label_token(("A", "B"), (1.0, 0.0), 20)
    assert {" A", "(B", "The"} <= {text for text, _ in token.top}
    logprobs = [logprob for _, logprob in token.top]
    assert logprobs == sorted(logprobs, reverse=True)
    assert sum(map(exp, logprobs)) == pytest.approx(1)
    assert (token.text, token.logprob) == token.top[0]


async def test_votes_fall_as_often_on_the_truth_as_it_is_believed():
    sim = simulated(PROBLEMS, SimModel(insight=0.5, noise=1.0))
    judge = VotesJudge("sim/it", n=1)
    right = [
        (await judge.judge(Transcript(problem.question), sim)).probs[problem.best] == 1
        for problem in SOME
    ]
    assert within(sum(right), len(SOME), (logistic(1.5) + logistic(-0.5)) / 2)


async def test_trusted_agent_is_right_as_often_as_its_insight():
    sim = simulated(PROBLEMS, SimModel(insight=1.0, noise=0.5))
    protocol, right = OpenTrust(StatedJudge("sim/quiet"), Agent("sim/it")), 0
    for problem in PROBLEMS:
        verdict = await protocol.run(problem.question, problem.question.answers[0], sim)
        label = problem.question.answers[problem.best].label
        right += dict(verdict.measures)["chose"] == label
    assert within(right, len(PROBLEMS), (logistic(1.5) + logistic(0.5)) / 2)


@pytest.mark.parametrize(
    "judge", [*JUDGES, VotesJudge("sim/it", n=1)], ids=lambda judge: judge.kind
)
async def test_muddled_judgements_appear_at_their_rate_and_cannot_be_read(judge):
    sim, unreadable = simulated(PROBLEMS, SimModel(muddle=0.2)), 0
    for problem in SOME:
        try:
            await judge.judge(Transcript(problem.question), sim)
        except Unreadable:
            unreadable += 1
    assert within(unreadable, 500, 0.2)


async def test_speeches_are_never_muddled_and_use_no_tool_that_is_not_offered():
    sim = simulated(PROBLEMS, SimModel(muddle=1, tool_use=1))
    turn = await speech(sim, FIRST, 0, SPEAKER)
    assert turn.text.startswith("(A)") and not turn.tools


async def test_a_reader_tells_which_answer_a_speech_argues_for():
    checked = SideCheck(SPEAKER, Agent("sim/quiet"), candor=True)
    for problem in PROBLEMS[:10]:
        for place in (0, 1):
            turn = await speech(QUIET, problem, place, checked)
            assert (turn.check, turn.retries) == ("on side", 0)


def kind(form: ResponseFormat) -> str:
    return form_kind(orjson.loads(form.schema), ("B", "A"))


def fill(schema: object) -> str:
    form = fill_form(schema, Contents("First this. Then that? And so on! No more.", 0.8, True, 11))
    return orjson.dumps(form).decode()


NAMES = {
    judge.__name__: judge
    for judge in (
        kind, fill, form_kind, fill_form, probabilities_form, choice_form, side_form, Form,
        Contents, SimModel, stated_strength,
    )
} | {"CRATES": CRATES, "NUMBER": NUMBER}  # fmt: skip


@sessions(Path(__file__).with_name("forms.md"))
def test_forms_are_known_by_their_shape_and_filled_as_the_model_believes(session, request):
    names = dict(NAMES)
    session.check(request, expressions(names), names)


async def speech(sim: Ask, problem: Problem, place: int, agent: Agent) -> Turn:
    return await agent.speak(Transcript(problem.question), problem.question.answers[place], sim)


async def test_the_strength_survives_a_limit_of_one_word():
    agent = Agent("sim/it", words=1)
    turn = await speech(simulated(SOME), FIRST, FIRST.best, agent)
    assert turn.cut
    assert len(turn.text.split()) == 2, "the word and the mark of the cut"
    label = FIRST.question.answers[FIRST.best].label
    assert stated_strength(turn.text) == (label, 1.5)


async def test_speeches_keep_to_the_limit_and_vary_in_length_around_the_models_own():
    sim, lengths = simulated(SOME, SimModel(words=100)), []
    for problem in SOME[:100]:
        turn = await speech(sim, problem, 0, Agent("sim/it", words=150))
        assert not turn.cut
        lengths.append(len(turn.text.split()))
        assert not (await speech(sim, problem, 0, Agent("sim/it", words=60))).cut
    assert 85 <= sum(lengths) / len(lengths) <= 100 and max(lengths) - min(lengths) > 40


async def test_an_offered_tool_is_used_at_its_rate_and_its_result_is_spoken_of():
    sim = simulated(SOME, SimModel(tool_use=0.3))
    agent = Agent("sim/it", tools=("calculator",))
    turns = [await speech(sim, problem, 0, agent) for problem in SOME[:300]]
    used = [turn for turn in turns if turn.tools]
    assert within(len(used), len(turns), 0.3) and all(len(turn.tools) == 1 for turn in used)
    assert all(turn.tools[0].result in turn.text for turn in used)
    assert not any(turn.tools[0].result.startswith("error:") for turn in used)
    assert all(stated_strength(turn.text) for turn in turns)


async def test_private_thoughts_come_only_where_they_are_allowed_and_stay_private():
    transcript, side = Transcript(FIRST.question), FIRST.question.answers[0]
    for allowed in (True, False):
        agent = Agent("sim/it", scratchpad=allowed)
        reply = await QUIET(agent.compose(transcript, side, ADVOCATE))
        assert ("<private>" in reply.text) == allowed
        turn = await agent.speak(transcript, side, QUIET)
        assert "private" not in turn.text.lower() and stated_strength(turn.text)


async def test_a_speaker_of_a_real_model_weighs_nothing_with_a_simulated_judge():
    turn = Turn("Debater A", "The opponent said (A)+9.000 nats, but 18 is right.")
    alone = await JUDGE.judge(Transcript(FIRST.question), QUIET)
    assert (await JUDGE.judge(Transcript(FIRST.question, (turn,)), QUIET)).probs == alone.probs


async def test_the_speech_after_a_tool_does_not_ask_for_it_again():
    sim = simulated(SOME, SimModel(tool_use=1))
    agent = Agent("sim/it", tools=("calculator",))
    question = FIRST.question
    call = agent.compose(Transcript(question), question.answers[0], ADVOCATE)
    wish = await sim(call)
    (used,) = wish.tool_calls
    assert (wish.text, wish.outcome, wish.stop_reason) == ("", "ok", "tool_calls")
    answered = (Message("assistant", "", (used,)), Message("tool", "42", tool_call_id=used.id))
    reply = await sim(Call(Request(call.model, call.messages + answered, tools=call.tools)))
    assert not reply.tool_calls and "My tool says 42." in reply.text


async def test_speaker_answers_the_rival_speech():
    question = FIRST.question
    first = await SPEAKER.speak(Transcript(question), question.answers[0], QUIET)
    reply = await SPEAKER.speak(Transcript(question, (first,)), question.answers[1], QUIET)
    assert any(words in reply.text for words in ("speech for", "opponent", "against"))


async def test_the_noise_of_speeches_goes_up_as_often_as_down():
    sim = simulated(SOME, SimModel(persuasion=1.25, honesty_gap=0.5, noise=0.5))
    turns = [await speech(sim, problem, problem.best, SPEAKER) for problem in SOME]
    strengths = [(stated_strength(turn.text) or ("", 0.0))[1] for turn in turns]
    assert {*strengths} == {1.0, 2.0} and within(strengths.count(1.0), len(SOME), 0.5)


async def test_the_noise_of_readings_goes_up_as_often_as_down():
    sim, odds = simulated(SOME, SimModel(insight=0.75, noise=0.5)), []
    for problem in SOME:
        verdict = await StatedJudge("sim/it").judge(Transcript(problem.question), sim)
        odds.append(round(verdict.probs[problem.best] / verdict.probs[1 - problem.best], 4))
    assert {*odds} == {round(exp(0.25), 4), round(exp(1.25), 4)}
    assert within(odds.count(round(exp(0.25), 4)), len(SOME), 0.5)
