"""Every mechanism: who reads the passage, whose side helpers are on, and forms filled in badly."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from msgspec import structs

from oversight.cache import Ask, Call, Reply
from oversight.protocols import Agent, Declined, StatedJudge, Unreadable
from oversight.protocols.catalogue import PROTOCOLS
from tests.fakes import form, prompt
from tests.shipments import shipment, simulated
from tests.world import asked, plain

JUDGE, OTHER = StatedJudge("sim/quiet"), Agent("sim/it")


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {}) for name in PROTOCOLS),
        ("adversarial_propaganda", {"market": OTHER}),
        ("amplification", {"depth": 2}),
        ("amplification", {"depth": 2, "overseer": OTHER}),
        ("critique", {"ranker": StatedJudge("sim/it", reads_passage=True)}),
        ("debate", {"opponent": OTHER, "simultaneous": False}),
        ("debate_feedback", {"participant": OTHER}),
    ],
)
async def test_agents_read_the_passage_and_the_judges_model_only_if_the_judge_may(
    name: str, settings: dict[str, object], reads: bool
) -> None:
    problem = shipment(0)
    problem = structs.replace(
        problem, question=structs.replace(problem.question, passage="THE PASSAGE")
    )
    protocol = plain(PROTOCOLS[name], judge=replace(JUDGE, reads_passage=reads), **settings)
    if hasattr(protocol, "agent"):
        protocol = replace(protocol, agent=OTHER)
    for place in (0, 1):
        for call in (await asked(protocol, problem, place)).values():
            shown = "THE PASSAGE" in "".join(message.text for message in call.messages)
            assert shown == (reads or call.model == "sim/it")


MATTERS_NOT = {"part", "at_least"}
"""Fields that may be anything: some are passed over, some read only beside another's value."""


def misfilled(schema: Any, good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A form with one field left out, or filled in with what it does not take."""
    for name in schema["properties"].keys() - MATTERS_NOT:
        match schema["properties"][name]:
            case {"enum": [*_]}:
                wrong: tuple[object, ...] = (-1, 99, 1.5, True, "1", "elsewhere", None)
            case {"type": "array"}:
                wrong = ("one", [7], None)
            case {"type": "number"}:
                wrong = (-0.1, "high", None)
            case _:
                wrong = (7, None)
        yield {key: value for key, value in good.items() if key != name}
        yield from (good | {name: each} for each in wrong)


@pytest.mark.parametrize(
    ("name", "settings", "forms"),
    [
        ("amplification", {}, {"subquestions"}),
        ("cross_examination", {}, {"challenge"}),
        ("doubly_efficient_debate", {}, {"steps", "step"}),
        ("doubly_efficient_debate", {"probabilities": True}, {"steps", "step"}),
        ("market_making", {}, {"probabilities"}),
        ("open_consultancy", {}, {"choice"}),
        ("open_debate", {}, {"choice"}),
        ("open_trust", {}, {"choice"}),
        ("proposer_critic", {}, {"choice"}),
        ("prover_estimator_debate", {}, {"subclaims", "estimate", "pick"}),
        ("recursive_reward_modelling", {}, {"criteria"}),
    ],
)
async def test_a_form_that_is_not_filled_in_as_asked_leaves_the_world_without_a_verdict(
    name: str, settings: dict[str, object], forms: set[str]
) -> None:
    problem = shipment(0)
    question, provider = problem.question, simulated([problem])
    protocol = plain(PROTOCOLS[name], **settings)
    filled: dict[str, tuple[Any, dict[str, Any]]] = {}

    async def listens(call: Call) -> Reply:
        reply = await provider(call)
        if call.response_format:
            schema = orjson.loads(call.response_format.schema)
            filled.setdefault(prompt(call).task, (schema, orjson.loads(reply.text)))
        return reply

    def answering(task: str, reply: Reply) -> Ask:
        async def ask(call: Call) -> Reply:
            return reply if prompt(call).task == task else await provider(call)

        return ask

    await protocol.run(question, question.answers[0], listens)
    assert filled.keys() == forms
    for task, (schema, good) in filled.items():
        wrong = [Reply("Hm."), *(Reply(form(**each)) for each in misfilled(schema, good))]
        for reply in wrong:
            with pytest.raises(Unreadable):
                await protocol.run(question, question.answers[0], answering(task, reply))
        with pytest.raises(Declined):
            refusal = Reply("I will not.", outcome="refused")
            await protocol.run(question, question.answers[0], answering(task, refusal))


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("critique", "critique"),
        ("debate_feedback", "discuss"),
        ("proposer_critic", "critique"),
        ("recursive_reward_modelling", "assess"),
    ],
)
async def test_helpers_are_on_nobodys_side_on_another_or_secretly_on_the_agents(
    name: str, task: str
) -> None:
    for aux, side in (("honest", ""), ("sided", "B"), ("adversarial", "A")):
        protocol = plain(PROTOCOLS[name], aux=aux)
        helped = [prompt(each) for each in (await asked(protocol, shipment(0), 0)).values()]
        sides = {each.side for each in helped if each.task == task}
        # An honest critic of a proposer speaks for what it chose.
        assert sides == {side} or (
            name == "proposer_critic" and aux == "honest" and len(sides) == 1
        )
        assert any(each.task == "choice" for each in helped) == (
            name == "proposer_critic" and aux == "honest"
        )
        assert protocol.name.endswith(f"aux {aux}") == (aux != "honest")
        conduct = protocol.words.text(f"{protocol.sections[0]}.{aux}_conduct")
        assert conduct in helped[-1].user
