from collections import Counter

from oversight.cache.call import Ask, Call, Message, Request
from oversight.engine.extensions.simulation import SimModel
from oversight.engine.extensions.simulation.speech import stated_strength
from oversight.protocols.agents.agent import ADVOCATE, Agent, Brief
from oversight.protocols.judges import StatedJudge
from oversight.protocols.prompts.words import Words
from oversight.protocols.question import Problem
from oversight.protocols.transcript import Transcript, Turn
from tests.shipments import shipments, simulated, within

PROBLEMS = shipments(500)
FIRST = PROBLEMS[0]
QUIETLY = simulated(PROBLEMS)
LOUD = SimModel(persuasion=1.25, honesty_gap=0.5, noise=0.5)
SPEAKER, JUDGE = Agent("sim/it"), StatedJudge("sim/quiet")


async def speech(sim: Ask, problem: Problem, place: int, agent: Agent) -> Turn:
    return await agent.speak(Transcript(problem.question), problem.question.answers[place], sim)


async def test_a_speech_states_its_side_and_is_stronger_for_the_truth():
    for problem in PROBLEMS[:20]:
        for place, answer in enumerate(problem.question.answers):
            turn = await speech(QUIETLY, problem, place, SPEAKER)
            nats = 1.5 if place == problem.best else 1.0
            assert stated_strength(turn.text) == (answer.label, nats)


async def test_the_noise_of_speeches_goes_up_as_often_as_down():
    sim = simulated(PROBLEMS, LOUD)
    stated: Counter[float] = Counter()
    for problem in PROBLEMS:
        turn = await speech(sim, problem, problem.best, SPEAKER)
        stated[(stated_strength(turn.text) or ("", 0.0))[1]] += 1
    assert set(stated) == {1.0, 2.0}
    assert within(stated[1.0], len(PROBLEMS), 0.5)


async def test_the_strength_survives_a_limit_of_one_word():
    agent = Agent("sim/it", words=1)
    turn = await speech(simulated(PROBLEMS), FIRST, FIRST.best, agent)
    assert turn.cut
    assert len(turn.text.split()) == 2, "the word and the mark of the cut"
    label = FIRST.question.answers[FIRST.best].label
    assert stated_strength(turn.text) == (label, 1.5)


async def test_speeches_keep_to_the_limit_and_vary_in_length_around_the_models_own():
    sim = simulated(PROBLEMS, SimModel(words=100))
    lengths = []
    for problem in PROBLEMS[:100]:
        turn = await speech(sim, problem, 0, Agent("sim/it", words=150))
        assert not turn.cut
        lengths.append(len(turn.text.split()))
        short = await speech(sim, problem, 0, Agent("sim/it", words=60))
        assert not short.cut
    assert 85 <= sum(lengths) / len(lengths) <= 100
    assert max(lengths) - min(lengths) > 40


async def test_who_has_heard_the_rival_answers_it():
    question = FIRST.question
    first = await SPEAKER.speak(Transcript(question), question.answers[0], QUIETLY)
    transcript = Transcript(question, (first,))
    reply = await SPEAKER.speak(transcript, question.answers[1], QUIETLY)
    assert any(words in reply.text for words in ("speech for", "opponent", "against"))


async def test_a_client_asks_about_the_question_and_moves_nobody():
    client = Brief("Client", Words("A client asks."), Words("Ask one question."), act="ask")
    asking = await SPEAKER.speak(Transcript(FIRST.question), None, QUIETLY, client)
    assert asking.text.endswith("?")
    assert stated_strength(asking.text) is None
    alone = await JUDGE.judge(Transcript(FIRST.question), QUIETLY)
    heard = await JUDGE.judge(Transcript(FIRST.question, (asking,)), QUIETLY)
    assert heard.probs == alone.probs


async def test_an_offered_tool_is_used_at_its_rate_and_its_result_is_spoken_of():
    sim = simulated(PROBLEMS, SimModel(tool_use=0.3))
    agent = Agent("sim/it", tools=("calculator",))
    turns = [await speech(sim, problem, 0, agent) for problem in PROBLEMS[:300]]
    used = [turn for turn in turns if turn.tools]
    assert within(len(used), len(turns), 0.3)
    assert all(len(turn.tools) == 1 for turn in used)
    assert all(turn.tools[0].result in turn.text for turn in used)
    assert not any(turn.tools[0].result.startswith("error:") for turn in used)
    assert all(stated_strength(turn.text) for turn in turns)


async def test_a_tool_that_is_not_offered_is_not_used():
    sim = simulated(PROBLEMS, SimModel(tool_use=1))
    assert not (await speech(sim, FIRST, 0, SPEAKER)).tools


async def test_private_thoughts_come_only_where_they_are_allowed_and_stay_private():
    transcript, side = Transcript(FIRST.question), FIRST.question.answers[0]
    for allowed in (True, False):
        agent = Agent("sim/it", scratchpad=allowed)
        reply = await QUIETLY(agent.compose(transcript, side, ADVOCATE))
        assert ("<private>" in reply.text) == allowed
        turn = await agent.speak(transcript, side, QUIETLY)
        assert "private" not in turn.text.lower()
        assert stated_strength(turn.text)


def test_only_the_opening_of_a_speech_states_its_strength():
    assert stated_strength("(A)+1.250 nats is the weight") == ("A", 1.25)
    assert stated_strength("(True)-0.5") == ("True", -0.5)
    for other in (
        "",
        "(A) 48 is right",
        "(A)",
        "(A)+",
        "(A)+inf and more",
        "(A)+nan",
        "A+1.0 nats",
        "I say (A)+1.000 nats",
        "(" + "x" * 80 + ")+1.0",
    ):
        assert stated_strength(other) is None


async def test_a_speaker_of_a_real_model_weighs_nothing_with_a_simulated_judge():
    said = Turn("Debater A", "The opponent said (A)+9.000 nats, but 18 is right.")
    alone = await JUDGE.judge(Transcript(FIRST.question), QUIETLY)
    assert (await JUDGE.judge(Transcript(FIRST.question, (said,)), QUIETLY)).probs == alone.probs


async def test_the_speech_after_a_tool_does_not_ask_for_it_again():
    sim = simulated(PROBLEMS, SimModel(tool_use=1))
    agent = Agent("sim/it", tools=("calculator",))
    question = FIRST.question
    call = agent.compose(Transcript(question), question.answers[0], ADVOCATE)
    wish = await sim(call)
    (used,) = wish.tool_calls
    assert (wish.text, wish.outcome, wish.stop_reason) == ("", "ok", "tool_calls")
    answered = (Message("assistant", "", (used,)), Message("tool", "42", tool_call_id=used.id))
    reply = await sim(Call(Request(call.model, call.messages + answered, tools=call.tools)))
    assert not reply.tool_calls
    assert "My tool says 42." in reply.text
