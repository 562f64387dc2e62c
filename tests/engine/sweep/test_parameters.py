"""Parameters of requests: from the sweep file to the body, or refused with file and line."""

from dataclasses import replace

import orjson
import pytest
from msgspec import structs

from oversight.cache.call import Call, Message, Request
from oversight.engine.errors import InvalidRequest
from oversight.engine.models.accounting.prices import PriceList, listed
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.protocols import Agent, StatedJudge
from oversight.protocols.settings import PARAMETERS, Parameters

ALL = {
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "seed": 7,
    "stop": ("END",),
    "service_tier": "flex",
    "extra_body": '{"chat_template_kwargs":{"enable_thinking":false}}',
}
ASKED = Call(Request("m", (Message("user", "?"),)))


def sweep(tmp_path, judge: str, agent: str = "{model: sim/strong}"):
    file = tmp_path / "sweep.yaml"
    file.write_text(
        "problems: {bundled: {name: arithmetic, limit: 1}}\n"
        f"agents: [{agent}]\njudges:\n  - {judge}\nprotocols: debate\n"
    )
    return open_sweep(file)


def test_they_are_declared_once():
    fields = dict(zip(Request.__struct_fields__[-len(Request.__struct_defaults__) :],
                      Request.__struct_defaults__, strict=True))  # fmt: skip
    assert {*PARAMETERS} == {*ALL} and {*PARAMETERS} <= {*fields}
    assert all(getattr(Parameters(), name) == fields[name] for name in PARAMETERS)


def test_a_role_asks_with_what_it_is_set_to():
    agent, judge = Agent("m", **ALL), StatedJudge("m", **ALL)
    assert agent.parameters == judge.parameters == judge.base_agent.parameters == ALL
    assert Agent("m").parameters == {}
    assert "top k 40" in agent.name and "service tier" not in Agent("m").name
    assert (
        StatedJudge("m", persona="You are\na tailor.\n").name
        == "m stated persona You are a tailor."
    )
    assert Agent("m", stop=("\n", ". ", "END")).name == r"m + stop '\n', '. ', END"


def test_a_mapping_of_the_sweep_file_becomes_part_of_the_body(tmp_path):
    extra = "{chat_template_kwargs: {enable_thinking: false}}"
    opened = sweep(tmp_path, f"{{model: vllm/q, top_k: [20, 40], seed: 1, extra_body: {extra}}}")
    judges = [row.protocol.judge for row in opened.sweep.rows]
    assert [judge.top_k for judge in judges] == [20, 40]
    assert {judge.extra_body for judge in judges} == {ALL["extra_body"]}


def test_each_wire_writes_all_that_it_has_words_for_and_drops_nothing():
    everything = ASKED.changed(**ALL)
    body = orjson.loads(OpenAIWire("vllm").body(everything.changed(model="vllm/q")))
    assert {name: body[name] for name in ("top_p", "top_k", "min_p", "seed")} == {
        "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 7,
    }  # fmt: skip
    assert (body["stop"], body["service_tier"]) == (["END"], "flex")
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    mistral = OpenAIWire("mistral").body(ASKED.changed(model="mistral/m", seed=7))
    assert orjson.loads(mistral)["random_seed"] == 7
    kept = ASKED.changed(model="anthropic/claude-3-haiku", top_k=3, service_tier="auto")
    assert orjson.loads(AnthropicWire().body(kept)).items() >= {
        "top_k": 3, "service_tier": "auto",
    }.items()  # fmt: skip
    for wire in (AnthropicWire(), ResponsesWire()):
        for name in ("min_p", "seed"):
            with pytest.raises(InvalidRequest, match=name):
                wire.body(ASKED.changed(**{name: ALL[name]}))
    with pytest.raises(InvalidRequest, match="model"):
        OpenAIWire("vllm").body(ASKED.changed(model="vllm/q", extra_body='{"model":"x"}'))


def test_each_draw_has_a_seed_of_its_own_and_the_first_that_of_the_role():
    asked = ASKED.changed(seed=7)
    drawn = [structs.replace(asked, draw=draw).seed for draw in ((), (0,), (1,), (0, 1))]
    assert drawn[0] == 7 and len({*drawn}) == 4 and all(0 <= seed < 2**31 for seed in drawn)
    assert ASKED.drawn(1).seed is None


def test_a_model_costs_what_the_dearest_service_tier_of_its_roles_costs(tmp_path):
    model = "openai/gpt-5-mini"
    role = f"{{model: {model}, service_tier: flex}}"
    whole = listed().need(model)
    half = sweep(tmp_path, role, role).models.priced(listed()).need(model)
    assert (half.input, half.output) == (whole.input / 2, whole.output / 2)
    assert half.batched().input == whole.batched().input
    mixed = sweep(tmp_path, role, f"{{model: {model}}}").models.priced(listed()).need(model)
    assert mixed.input == whole.input
    dear = role.replace("flex", "priority")
    assert sweep(tmp_path, role, dear).models.priced(listed()).find(model) is None
    priced = PriceList({model: replace(whole, tiers={"priority": 2.0, "flex": 0.5})})
    assert sweep(tmp_path, role, dear).models.priced(priced).need(model).input == 2 * whole.input
