"""The provider of simulated models, and the world that they know."""

import asyncio
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.cache.call import Call, Message, Request
from oversight.engine.errors import InvalidRequest, ModelNotFound
from oversight.engine.extensions.simulation import PRESETS, GroundTruth, SimModel, SimProvider
from oversight.protocols import NaiveJudge, Recorded, StatedJudge, Transcript
from oversight.protocols.agents.agent import ADVOCATE, Agent
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.prompts.render import answer_body, question_block
from tests.fakes import APPLES, CRATES, laid_out
from tests.virtual import run
from tests.world import QUIET, plain, shipments, simulated, within

PROBLEMS = shipments(500)
QUIETLY = simulated(PROBLEMS)
UNRULY = simulated(PROBLEMS[:1], PRESETS["sim/unruly"])


def speech_call(n: int = 0, model: str = "sim/it") -> Call:
    question = PROBLEMS[n].question
    return Agent(model).compose(Transcript(question), question.answers[0], ADVOCATE)


def test_the_identity_differs_where_parameters_or_the_truth_of_the_question_differ():
    base = QUIETLY.identity(speech_call())
    assert base.startswith("sim/1/")
    for setting in {field.name for field in fields(SimModel)} - {"latency"}:
        changed = replace(QUIET, **{setting: getattr(QUIET, setting) + 1 / 8})
        assert simulated(PROBLEMS[:1], changed).identity(speech_call()) != base
    swapped = structs.replace(PROBLEMS[0], values=PROBLEMS[0].values[::-1])
    assert simulated([swapped, *PROBLEMS[1:]]).identity(speech_call()) != base
    assert simulated(PROBLEMS[1:]).identity(speech_call()) != base
    # It depends on nothing else.
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
    assert (await QUIETLY(speech_call())).outcome == "ok"
    cut = await QUIETLY(speech_call().changed(max_tokens=20))
    assert (cut.outcome, cut.stop_reason) == ("truncated", "length") and len(cut.text) == 80
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


async def test_speaker_argues_for_its_side_under_any_act():
    messages = laid_out("You review.", Transcript(CRATES), "critique", "Criticise the other.", "B")
    call = Call(Request("sim/it", messages))
    assert (await simulated([APPLES])(call)).text.startswith("(B)+1.000 ")


@given(
    st.lists(
        st.sampled_from(
            [
                *("<question>\n", "\n</question>", '<answer label="A">\n', "\n</answer>"),
                *('<turn speaker="X">\n', "\n</turn>", '<tool name="t">', "\n</instructions>"),
                *('<instructions task="speak" side="A">\n', '<instructions task="ask">\n'),
                *('<instructions task="percentages"', "(A)+1.0 ", "Use at most many words."),
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


TOLD_APART = [
    structs.replace(base, question=structs.replace(base.question, passage=f"Of {base.id}."))
    for base in (APPLES, structs.replace(APPLES, id="others", values=(-1, 1)))
]


def test_a_part_of_a_passage_tells_a_truth_unless_other_passages_share_it():
    longer = [
        structs.replace(
            base, question=structs.replace(base.question, passage=f"Same.\n{base.question.passage}")
        )
        for base in TOLD_APART
    ]
    world, bodies = GroundTruth(longer), [answer_body(answer) for answer in CRATES.answers]
    parts = ("Of apples.", "Of others.", "Same.", "")
    assert [world.truth(CRATES.text, bodies, part) for part in parts] == [0, 1, None, None]


@pytest.mark.parametrize("kind", [kind for kind in PROTOCOLS.values() if kind is not Recorded])
async def test_problems_that_share_a_question_are_told_apart_by_their_passages(kind):
    """A reader who is not shown the passage leans to no answer."""
    sim, sides = simulated(TOLD_APART), CRATES.answers
    for problem in TOLD_APART:
        verdicts = await plain(kind).worlds(problem, sim)
        assert not any(verdict.doubts for verdict in verdicts)
    for reads, leanings in ((True, [1, -1]), (False, [0, 0])):
        naive = NaiveJudge(StatedJudge("sim/quiet", reads_passage=reads))
        verdicts = [await naive.run(item.question, sides[0], sim) for item in TOLD_APART]
        assert [(p > q) - (p < q) for p, q in (item.probs for item in verdicts)] == leanings
