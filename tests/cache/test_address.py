"""Addresses: one for equal calls, another for every difference, none for what is no value."""

import dataclasses
import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given

from oversight.cache.address import endpoint_tag, plain, store_key, value_address
from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec, nth
from oversight.cache.errors import AddressError
from oversight.cache.reply import ToolCall
from tests.calls import FULL, calls, texts

SMALL = Call(Request("m", (Message("user", "hi"),)))

OTHERS = {
    "model": "sim/weak",
    "messages": FULL.messages[:1],
    "temperature": 0.7,
    "top_p": 0.8,
    "max_tokens": 513,
    "stop": (),
    "tools": (),
    "response_format": None,
    "top_logprobs": 6,
    "effort": "high",
}
PARTS = {
    Message: {
        "role": "user",
        "text": "other",
        "tool_calls": (ToolCall("x", "y", "z"),),
        "tool_call_id": "other",
        "opaque": "other",
    },
    ToolCall: {"id": "other", "name": "other", "arguments": "other"},
    ToolSpec: {"name": "other", "description": "other", "parameters": "other"},
    ResponseFormat: {"name": "other", "schema": "other"},
}
HOLDERS = {
    Message: lambda part: FULL.changed(messages=(part,)),
    ToolCall: lambda part: FULL.changed(messages=(Message("assistant", "", (part,)),)),
    ToolSpec: lambda part: FULL.changed(tools=(part,)),
    ResponseFormat: lambda part: FULL.changed(response_format=part),
}
EXAMPLES = {
    Message: Message("system", "text", (), "id", "[]"),
    ToolCall: ToolCall("id", "name", "{}"),
    ToolSpec: ToolSpec("name", "what", "{}"),
    ResponseFormat: ResponseFormat("name", "{}"),
}


def test_the_full_call_and_the_table_of_other_values_have_every_field():
    plain = Request(FULL.model, FULL.messages)
    set_ = {name for name in OTHERS if getattr(FULL.request, name) != getattr(plain, name)}
    assert set_ | {"model", "messages"} == set(OTHERS)
    assert set(OTHERS) == {field.name for field in dataclasses.fields(Request)}


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Request)])
def test_every_field_of_a_call_moves_the_address(field):
    assert FULL.changed(**{field: OTHERS[field]}).address != FULL.address


def test_the_draw_moves_the_address():
    assert replace(FULL, draw=(3, 0)).address != FULL.address == replace(FULL, draw=(0, 3)).address
    assert FULL.drawn(2) == replace(FULL, draw=(2, 0, 3))


@pytest.mark.parametrize(
    ("part", "field"), [(part, f.name) for part in PARTS for f in dataclasses.fields(part)]
)
def test_every_field_of_every_part_moves_the_address(part, field):
    changed = replace(EXAMPLES[part], **{field: PARTS[part][field]})
    assert HOLDERS[part](changed).address != HOLDERS[part](EXAMPLES[part]).address


# Who changes these empties everybody's store: raise SCHEMA, and say so in the changelog.
def test_addresses_are_those_that_stores_were_filled_with():
    assert SMALL.address == "3d885474658cd5ad7a5228955bbcb3de3abec5eb0fc467f0206ad8e8a5f011e2"
    assert FULL.address == "00995c3ebf8fa3b90b2f989e7920e63ab0ff6468c5db1ea3c0734f43d9b56ae2"
    value = value_address(Message("user", "hi"))
    assert value == "3cedd99478123b453ef04deedd03562d727039ffeb6aab578a3d704988158a47"
    assert store_key(SMALL.address, "openai/v1") == SMALL.address + ".3602ff45eae03103"


def test_the_schema_is_part_of_the_address(monkeypatch):
    before = FULL.address
    monkeypatch.setattr("oversight.cache.call.SCHEMA", 2)
    assert FULL.changed().address != before


def test_equal_numbers_have_one_address():
    zeros = [SMALL.changed(temperature=zero) for zero in (0, 0.0, -0.0)]
    assert len({call.address for call in zeros}) == 1
    assert SMALL.changed(top_p=1).address == SMALL.changed(top_p=1.0).address


def test_left_to_the_provider_is_not_zero():
    assert SMALL.changed(temperature=None).address != SMALL.changed(temperature=0).address


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["temperature", "top_p"])
def test_a_number_that_is_not_finite_is_refused_by_name(field, number):
    with pytest.raises(AddressError, match=f"^{field}: .*not a finite number") as refusal:
        SMALL.changed(**{field: number})
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("place", "call"),
    [
        ("model", SMALL.changed(model="m\ud800")),
        ("messages[0].text", SMALL.changed(messages=(Message("user", "ab\udfff"),))),
        ("stop[1]", SMALL.changed(stop=("", "\ud800"))),
        ("tools[0].description", SMALL.changed(tools=(ToolSpec("a", "\ud800", "{}"),))),
        ("response_format.schema", SMALL.changed(response_format=ResponseFormat("a", "\ud800"))),
        (
            "messages[0].tool_calls[0].arguments",
            SMALL.changed(messages=(Message("user", "", (ToolCall("", "", "\ud800"),)),)),
        ),
    ],
)
def test_a_lone_surrogate_is_refused_by_its_place(place, call):
    with pytest.raises(AddressError, match="lone surrogate") as refusal:
        assert not call.address
    assert refusal.value.field == place
    with pytest.raises(AddressError) as refusal:
        value_address(call.request)
    assert refusal.value.field == place


def test_a_surrogate_pair_of_utf_16_is_one_character_and_fine():
    assert SMALL.changed(messages=(Message("user", "\U0001f34e"),)).address


@given(calls, calls)
def test_addresses_are_equal_exactly_when_calls_are(one, other):
    for address in (lambda call: call.address, value_address):
        assert (address(one) == address(other)) == (one == other)
        assert address(one) == address(one.changed())
        assert len(address(one)) == 64 and set(address(one)) <= set("0123456789abcdef")


@given(texts, texts)
def test_words_do_not_flow_from_one_message_into_the_next(one, other):
    joined = SMALL.changed(messages=(Message("user", one + other), Message("user", "")))
    apart = SMALL.changed(messages=(Message("user", one), Message("user", other)))
    assert (joined.address == apart.address) == (other == "")


def test_draws_of_different_layers_do_not_collide():
    seen: list[Call] = []

    def ask(call):
        seen.append(call)

    nth(nth(ask, 1), 2)(SMALL)
    nth(nth(ask, 2), 1)(SMALL)
    nth(ask, 1)(SMALL)
    assert [call.draw for call in seen] == [(1, 2), (2, 1), (1,)]
    assert len({call.address for call in seen}) == 3


def test_two_endpoints_have_two_keys_for_one_call():
    keys = {store_key(SMALL.address, url) for url in ("http://a", "http://b")}
    assert len(keys) == 2 and {key.partition(".")[0] for key in keys} == {SMALL.address}
    assert len(endpoint_tag("http://a")) == 17


@dataclass(frozen=True)
class Plain:
    size: float


@dataclass(frozen=True)
class Fancy:
    size: float


def test_the_class_of_a_value_is_part_of_its_address():
    assert value_address(Plain(1)) != value_address(Fancy(1))
    assert value_address(Plain(1)) == value_address(Plain(1.0))


@pytest.mark.parametrize("stranger", [object(), len, [1], {"a": 1}, b"bytes", Plain])
def test_what_has_no_stable_form_has_no_address(stranger):
    with pytest.raises(AddressError, match=r"\[1\]: a \w+ has no address"):
        value_address((1, stranger))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_refused_by_its_place(number):
    with pytest.raises(AddressError) as refusal:
        plain((Plain(1.0), Plain(number)))
    assert refusal.value.field == "[1].size"
