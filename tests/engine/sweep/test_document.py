"""Documents: errors name their place, and settings without meaning name the fix.
Parameters of requests: from the sweep file to the body, or refused with file and line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.cache.call import Call, Message, Request
from oversight.engine.errors import InvalidRequest, UsageError
from oversight.engine.models.accounting.prices import PriceList, listed
from oversight.engine.models.directory import base_url_of
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.engine.run.loaded_sweep import LoadedSweep, load_sweep
from oversight.engine.sweep.document import Document
from oversight.protocols import Agent, StatedJudge
from oversight.protocols.settings import PARAMETERS
from tests.engine.sweep_files import sweep_file

TEXT = """\
name: mine
agents:
  model: [sim/strong, sim/weak]
judges:
  - {kind: stated, model: sim/judge}
  - kind: logprob
    model: sim/judge
protocols:
  - naive_judge
  - debate: {rounds: 2}
"""


def parsed(text: str) -> Document:
    return Document.parse(text, "s.yaml")


def refused(text: str) -> str:
    with pytest.raises(UsageError) as fault:
        parsed(text)
    return str(fault.value)


def test_values_that_no_text_has_are_refused_without_a_crash():
    assert refused("a: \x00\n").startswith("s.yaml: ")


@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_endless_levels_are_reported_with_their_line(opening):
    with pytest.raises(UsageError, match=r"^s\.yaml:2: more than 64 levels"):
        Document.parse(f"a: 1\nb: {opening * 40_000}", "s.yaml")


@pytest.mark.parametrize("number", ["7" * 5000, "-" + "7" * 400, "0x" + "f" * 5000])
def test_a_number_of_thousands_of_digits_is_reported_with_its_place(number):
    text = f"s.yaml:2: b.c: a number of {len(number):,} digits: no setting takes that"
    assert refused("a: 1\nb: {c: " + number + "}\n") == text
    assert refused(f"a: 1\n{number[:400]}: 2\n").startswith("s.yaml:2: a number of ")


def test_binary_file_cannot_be_read(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_bytes(b"a: caf\xe9\n")
    with pytest.raises(UsageError, match=r"s\.yaml: cannot be read: "):
        Document.read(file)
    with pytest.raises(UsageError, match="is a folder; name the sweep file"):
        Document.read(tmp_path)
    (tmp_path / "run.db").touch()
    with pytest.raises(UsageError, match="to repeat the run in it: oversight replay"):
        Document.read(tmp_path)
    with pytest.raises(UsageError, match="is not a regular file"):
        Document.read(Path("/dev/zero"))
    (circle := tmp_path / "circle.yaml").symlink_to("circle.yaml")
    with pytest.raises(UsageError, match=r"circle\.yaml: cannot be read: "):
        Document.read(circle)


def test_a_run_folder_names_nothing_that_a_sweep_file_of_the_user_lacks():
    text = "providers: {openai: {base_url: 'http://mine'}}\nprotocols: [a.py:A]"
    address, code = ("providers", "openai", "base_url"), ("protocols", 0)
    theirs, ours = (Document.parse(text, "s.yaml") for _ in range(2))
    theirs.make_inert("look at it", is_users=False, noted=["openai http://mine"])
    ours.make_inert("look at it", is_users=True)
    assert theirs.is_foreign(address) and not ours.is_foreign(address)
    assert not theirs.is_foreign(*base_url_of("openai", "http://mine"))
    assert theirs.is_foreign(*base_url_of("xai", "http://mine")), "another key would go there"
    for flag in ("providers.openai.base_url=http://theirs", "protocols=[b.py:B]"):
        ours.set(flag)
    assert ours.is_foreign(address) and not ours.is_foreign(code, "a.py:A")
    with pytest.raises(UsageError, match="code is not loaded\n  look at it"):
        ours.refuse_if_foreign(code, "code", "b.py:B")


def test_missing_key_has_the_place_of_its_parent():
    document = parsed(TEXT)
    lines = {("protocols", 1, "debate", "opponent"): 10, ("agents", "model", 7, "x"): 3, ("no",): 1}
    assert {key: document.place(key) for key in lines} == {
        key: f"s.yaml:{line}" for key, line in lines.items()
    }


words = st.text(max_size=8).filter(lambda text: not set("eE") & set(text))
"""Without the texts that PyYAML writes bare, and that are numbers here: `0E0`."""

trees = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), trees, max_size=4))
def test_every_value_stands_at_the_line_where_its_text_is(tree):
    text = yaml.safe_dump(tree, sort_keys=False)
    document = parsed(text)
    assert document.value == tree
    lines = text.splitlines()

    def check(value: Any, key: tuple[str | int, ...]) -> None:
        line = int(document.place(key).rpartition(":")[2])
        if key and isinstance(key[-1], str):
            assert f"{yaml.safe_dump(key[-1]).splitlines()[0]}:" in lines[line - 1]
        elif key:
            assert "-" in lines[line - 1]
        if isinstance(value, (dict, list)):
            for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
                check(inner, (*key, name))

    check(tree, ())


def test_overridden_settings_are_located_at_the_flag_and_others_in_the_file():
    document = parsed(TEXT)
    document.set("protocols.debate.rounds=5")
    document.set("agents={model: sim/x}")
    flag = "--set protocols.debate.rounds=5"
    assert document.place(("protocols", 1, "debate", "rounds")) == flag
    assert document.place(("protocols", 1, "debate")) == "s.yaml:10"
    assert document.place(("agents", "model")) == "--set agents={model: sim/x}"
    assert document.from_flag(("agents", "model"))
    assert not document.from_flag(("protocols", 1, "debate"))


NAMED = """\
agents: openai/gpt-4o-mini
judges: compatible/lab/smollm2-135m
protocols: propaganda
"""
AT = "{compatible/lab: {base_url: http://127.0.0.1:9/v1}}"


def test_a_flag_may_replace_a_model_whose_limits_the_file_sets():
    text = f"{NAMED}providers: {AT}\nmodels: {{openai/gpt-4o-mini: {{requests: 5}}}}"
    other = "agents=openai/gpt-4o"
    assert "openai/gpt-4o" in load_sweep(sweep_file(text, other), {}).sweep.models
    with pytest.raises(UsageError, match="unknown model in this sweep"):
        load_sweep(sweep_file(text, other, "models.openai/gpt4={}"), {})


def test_a_run_that_was_made_with_such_settings_can_still_be_looked_into(command, finished):
    folder = finished.folder
    with (folder / "sweep.yaml").open("a") as file:
        file.write("models: {smollm2-135m: {concurrency: 4}}\nproviders: {opnai: {}}\n")
    assert command("report", folder).code == 0
    assert command("run", folder / "sweep.yaml").code == 2


ALL = {
    "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 7, "stop": ("END",), "service_tier": "flex",
    "extra_body": '{"chat_template_kwargs":{"enable_thinking":false}}', "thinking_tokens": 2048,
}  # fmt: skip
ASKED = Call(Request("m", (Message("user", "?"),)))


def opened(judge: str, agent: str = "{model: sim/strong}") -> LoadedSweep:
    text = f"agents: [{agent}]\njudges:\n  - {judge}\nprotocols: debate\n"
    return load_sweep(sweep_file(text), {})


def test_role_asks_with_its_settings():
    agent, judge = Agent("m", **ALL), StatedJudge("m", **ALL)
    assert agent.parameters == judge.parameters == judge.base_agent.parameters == ALL
    assert {*PARAMETERS} == {*ALL} and Agent("m").parameters == {}
    assert "top k 40" in agent.name and "service tier" not in Agent("m").name
    tailor = StatedJudge("m", persona="You are\na tailor.\n")
    assert tailor.name == "m stated persona You are a tailor."
    assert Agent("m", stop=("\n", ". ", "END")).name == r"m + stop '\n', '. ', END"


def test_a_mapping_of_the_sweep_file_becomes_part_of_the_body():
    extra = "{chat_template_kwargs: {enable_thinking: false}}"
    judge = f"{{model: vllm/q, top_k: [20, 40], seed: 1, extra_body: {extra}}}"
    judges = [row.protocol.judge for row in opened(judge).sweep.rows]
    assert [judge.top_k for judge in judges] == [20, 40]
    assert {judge.extra_body for judge in judges} == {ALL["extra_body"]}


def test_each_wire_writes_all_that_it_has_words_for_and_drops_nothing():
    uncapped = ALL | {"thinking_tokens": None}
    body = OpenAIWire("vllm").body(ASKED.changed(**uncapped, model="vllm/q"))
    thinking = {"chat_template_kwargs": {"enable_thinking": False}}
    plain = {name: ALL[name] for name in ALL if name not in ("extra_body", "thinking_tokens")}
    assert orjson.loads(body).items() >= (plain | thinking | {"stop": ["END"]}).items()
    mistral = OpenAIWire("mistral").body(ASKED.changed(model="mistral/m", seed=7))
    assert orjson.loads(mistral)["random_seed"] == 7
    settings = {"top_k": 3, "service_tier": "auto"}
    claude = AnthropicWire().body(ASKED.changed(model="anthropic/claude-3-haiku", **settings))
    assert orjson.loads(claude).items() >= settings.items()
    for wire in (AnthropicWire(), ResponsesWire()):
        for name in ("min_p", "seed"):
            with pytest.raises(InvalidRequest, match=name):
                wire.body(ASKED.changed(**{name: ALL[name]}))
    with pytest.raises(InvalidRequest, match="model"):
        OpenAIWire("vllm").body(ASKED.changed(model="vllm/q", extra_body='{"model":"x"}'))


def test_each_draw_has_a_different_seed_and_the_first_has_the_seed_of_the_role():
    call = ASKED.changed(seed=7)
    drawn = [structs.replace(call, draw=draw).seed for draw in ((), (0,), (1,), (0, 1))]
    assert drawn[0] == 7 and len({*drawn}) == 4 and all(0 <= seed < 2**31 for seed in drawn)
    assert ASKED.drawn(1).seed is None


def test_a_model_costs_what_the_dearest_service_tier_of_its_roles_costs():
    model = "openai/gpt-5-mini"
    flex, dear = (f"{{model: {model}, service_tier: {tier}}}" for tier in ("flex", "priority"))
    usual = listed().need(model)
    half = opened(flex, flex).models.priced(listed()).need(model)
    assert (half.input, half.output) == (usual.input / 2, usual.output / 2)
    assert half.deferred().input == usual.deferred().input
    mixed = opened(flex, f"{{model: {model}}}").models.priced(listed()).need(model)
    assert mixed.input == usual.input
    assert opened(flex, dear).models.priced(listed()).need(model).input == 1.8 * usual.input
    unknown = PriceList({model: replace(usual, tiers={"flex": 0.5})})
    assert opened(flex, dear).models.priced(unknown).find(model) is None
    priced = PriceList({model: replace(usual, tiers={"priority": 2.0, "flex": 0.5})})
    assert opened(flex, dear).models.priced(priced).need(model).input == 2 * usual.input
