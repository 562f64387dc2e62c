"""The provider of simulated models, and the world that they know."""

import asyncio
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.cache.call import Call, Message, Request
from oversight.cache.reply import Reply
from oversight.engine.errors import InvalidRequest, ModelNotFound
from oversight.engine.extensions.simulation import PRESETS, GroundTruth, SimModel, SimProvider
from oversight.protocols.agents.agent import ADVOCATE, Agent
from oversight.protocols.judges import StatedJudge
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.prompts.render import question_block
from oversight.protocols.question import Answer, Problem, Question
from oversight.protocols.transcript import Transcript
from tests.fakes import APPLES, CRATES, laid_out
from tests.virtual import run
from tests.world import QUIET, shipments, simulated, within

PROBLEMS = shipments(500)
QUIETLY = simulated(PROBLEMS)
QUIET_JUDGE = StatedJudge("sim/quiet")
UNRULY = simulated(PROBLEMS[:1], PRESETS["sim/unruly"])


def speech_call(n: int = 0, model: str = "sim/it") -> Call:
    question = PROBLEMS[n].question
    return Agent(model).compose(Transcript(question), question.answers[0], ADVOCATE)


SPOKEN = """
import asyncio
from tests.engine.extensions.simulation.test_sim_provider import everything_said
print(asyncio.run(everything_said()))
"""


async def everything_said() -> str:
    """All that is said in some debates, with every kind of chance in play."""
    sim = simulated(PROBLEMS, SimModel(refusal=0.1, tool_use=0.5, noise=1.0))
    asked: list[str] = []

    async def said(call: Call) -> Reply:
        asked.append(call.address)
        return await sim(call)

    debate = Debate(QUIET_JUDGE, Agent("sim/it", tools=("calculator",)))
    verdicts = [
        verdict for problem in PROBLEMS[:10] for verdict in await debate.worlds(problem, said)
    ]
    texts = [[turn.text for turn in verdict.transcript.turns] for verdict in verdicts]
    return orjson.dumps([texts, sorted(asked)]).decode()


@pytest.mark.wire
def test_another_process_says_exactly_the_same():
    here = run(everything_said())
    for hash_seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", SPOKEN],
            cwd=Path(__file__).parents[4],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here


def test_the_identity_differs_where_parameters_or_the_truth_of_the_question_differ():
    base = QUIETLY.identity(speech_call())
    assert base.startswith("sim/1/")
    for setting in {field.name for field in fields(SimModel)} - {"latency"}:
        changed = replace(QUIET, **{setting: getattr(QUIET, setting) + 1 / 8})
        assert simulated(PROBLEMS[:1], changed).identity(speech_call()) != base
    swapped = structs.replace(PROBLEMS[0], values=PROBLEMS[0].values[::-1])
    assert simulated([swapped, *PROBLEMS[1:]]).identity(speech_call()) != base
    assert simulated(PROBLEMS[1:]).identity(speech_call()) != base


def test_the_identity_depends_on_nothing_else():
    base = QUIETLY.identity(speech_call())
    assert simulated(PROBLEMS[:1], replace(QUIET, latency=3)).identity(speech_call()) == base
    assert simulated(PROBLEMS[::-1]).identity(speech_call()) == base
    assert simulated(PROBLEMS[:1]).identity(speech_call()) == base
    swapped = structs.replace(PROBLEMS[1], values=PROBLEMS[1].values[::-1])
    assert simulated([PROBLEMS[0], swapped]).identity(speech_call()) == base


def test_latency_is_waited_for_on_the_clock_of_the_loop():
    sim = simulated(PROBLEMS, replace(QUIET, latency=2.5))

    async def timed() -> float:
        started = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for n in range(50):
                group.create_task(sim(speech_call(n)))
        return asyncio.get_running_loop().time() - started

    assert run(timed()) == pytest.approx(2.5, abs=1e-3)


async def test_refusals_appear_at_their_rate_and_state_no_strength():
    sim = simulated(PROBLEMS, SimModel(refusal=0.1))
    replies = [await sim(speech_call(n)) for n in range(len(PROBLEMS))]
    refused = [reply for reply in replies if reply.outcome == "refused"]
    assert within(len(refused), len(replies), 0.1)
    assert {reply.stop_reason for reply in refused} == {"refusal"}
    assert not any(reply.text.startswith("(") for reply in refused)


async def test_a_reply_longer_than_max_tokens_is_truncated():
    whole = await QUIETLY(speech_call())
    assert whole.outcome == "ok"
    cut = await QUIETLY(speech_call().changed(max_tokens=20))
    assert (cut.outcome, cut.stop_reason) == ("truncated", "length")
    assert len(cut.text) == 80
    assert cut.usage.output_tokens == 20


async def test_a_reply_ends_before_a_stop_text():
    stopped = await QUIETLY(speech_call().changed(stop=(" nats",)))
    assert stopped.text in ("(A)+1.500", "(A)+1.000")
    nothing = await QUIETLY(speech_call().changed(stop=("(A)",)))
    assert (nothing.text, nothing.outcome) == ("", "empty")


async def test_a_question_that_the_world_does_not_know_is_named_and_never_guessed_at():
    with pytest.raises(InvalidRequest, match="Four crates hold twelve apples"):
        await StatedJudge("sim/it").judge(Transcript(CRATES), QUIETLY)
    with pytest.raises(InvalidRequest, match="build it from the problems"):
        await Agent("sim/it").speak(Transcript(CRATES), CRATES.answers[0], QUIETLY)


async def test_a_model_that_nobody_described_is_gone():
    with pytest.raises(ModelNotFound, match=r"'sim/nobody'.*sim/quiet"):
        await QUIETLY(speech_call(model="sim/nobody"))
    with pytest.raises(ModelNotFound):
        QUIETLY.identity(speech_call(model="sim/nobody"))


async def test_whoever_has_a_side_argues_for_it_whatever_the_act_is_called():
    told = laid_out("You review.", Transcript(CRATES), "critique", "Criticise the other.", "B")
    call = Call(Request("sim/it", told))
    assert (await simulated([APPLES])(call)).text.startswith("(B)+1.000 ")


@given(
    st.lists(
        st.sampled_from(
            [
                "<question>\n",
                "\n</question>",
                '<answer label="A">\n',
                "\n</answer>",
                '<turn speaker="X">\n',
                "\n</turn>",
                '<tool name="t">',
                '<instructions task="speak" side="A">\n',
                '<instructions task="ask">\n',
                '<instructions task="percentages"',
                "\n</instructions>",
                "(A)+1.0 ",
                "Use at most many words.",
                question_block(PROBLEMS[0].question),
            ]
        )
        | st.text(max_size=10),
        max_size=12,
    ),
    st.integers(0, 12),
)
async def test_no_prompt_makes_it_fall(pieces, split):
    system, user = "".join(pieces[:split]), "".join(pieces[split:])
    call = Call(Request("sim/it", (Message("system", system), Message("user", user))))
    try:
        reply = await UNRULY(call)
    except InvalidRequest:
        assert "task=" in user, "only what depends on the truth may fail for want of it"
    else:
        assert reply.text


async def test_a_call_without_messages_is_answered():
    assert (await QUIETLY(Call(Request("sim/it", ())))).text


def test_models_go_by_any_name_that_they_are_given():
    sim = SimProvider(GroundTruth(PROBLEMS[:1]), {"openai/gpt-4o": QUIET})
    assert sim.reply(speech_call(model="openai/gpt-4o")).served_model == "openai/gpt-4o"


def test_every_preset_is_a_simulated_model_and_no_two_are_the_same():
    assert all(name.startswith("sim/") for name in PRESETS)
    assert len({model.digest for model in PRESETS.values()}) == len(PRESETS)


def problem(id: str, values: tuple[float, ...], *answers: str, text: str = "Which?") -> Problem:
    named = tuple(Answer(label, said) for label, said in zip("ABCD", answers, strict=False))
    return Problem(id, Question(text, named), values)


RGB = ("red", "green", "blue")


@pytest.mark.parametrize(
    "values, shown, truth",
    [
        ((-1, 1, -1), RGB, "green"),
        ((-1, 1, -1), RGB[::-1], "green"),
        ((0.5, 1, -1), ("blue", "red"), "red"),  # the best of those shown
        ((1, 1, -1), ("green", "blue", "red"), "red"),  # of equals the first of the problem
    ],
)
def test_the_truth_is_found_in_any_order_of_presentation(values, shown, truth):
    assert GroundTruth([problem("p", values, *RGB)]).truth("Which?", shown) == shown.index(truth)


def test_one_question_may_be_put_with_other_answers():
    world = GroundTruth(
        [problem("p", (1, -1), "red", "all of them"), problem("q", (1, -1), "all of them", "none")]
    )
    assert world.truth("Which?", ["red", "all of them"]) == 0
    assert world.truth("Which?", ["none", "all of them"]) == 1


def test_two_truths_about_one_question_are_an_error():
    world = GroundTruth([problem("p", (1, -1), "yes", "no"), problem("q", (-1, 1), "yes", "no")])
    with pytest.raises(InvalidRequest, match="2 truths about the question 'Which\\?'"):
        world.truth("Which?", ["yes", "no"])


def test_unknown_questions_and_answers_are_an_error():
    world = GroundTruth([problem("p", (1, -1), "yes", "no")])
    for text, shown in (("Who?", ["yes", "no"]), ("Which?", ["yes", "maybe"]), ("Which?", [])):
        with pytest.raises(InvalidRequest, match="knows nothing of the question"):
            world.truth(text, shown)
