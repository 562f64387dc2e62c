"""A wire gives a valid Reply or one of our errors for any bytes of a server."""

import copy
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oversight.cache.reply import Reply, Token, ToolCall
from oversight.engine.errors import EngineError, Malformed
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.fault import stated_limits
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.engine.providers.wire import Wire
from tests.conftest import examples

SCORED = {"token": "A", "logprob": -1.0, "top_logprobs": [{"token": "B", "logprob": -2}]}
SAID = {
    **{"role": "assistant", "content": "text", "refusal": None, "reasoning_content": "hm"},
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
COMPLETION = {
    "model": "m",
    "choices": [{"message": SAID, "logprobs": {"content": [SCORED]}, "finish_reason": "stop"}],
    "usage": {
        **{"prompt_tokens": 1, "completion_tokens": 2},
        "prompt_tokens_details": {"cached_tokens": 1},
    },
    "error": None,
}
MESSAGE = {
    **{"type": "message", "model": "m", "stop_reason": "end_turn"},
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "text"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3},
}
TEXT = {"type": "output_text", "text": "text", "logprobs": [SCORED]}
RESPONSE = {
    **{"status": "completed", "error": None, "incomplete_details": None, "model": "m"},
    "output": [
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
        {"type": "message", "role": "assistant", "content": [TEXT]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    ],
    "usage": {
        **{"input_tokens": 1, "output_tokens": 2},
        "input_tokens_details": {"cached_tokens": 1},
    },
}
WIRES = [(OpenAIWire(), COMPLETION), (AnthropicWire(), MESSAGE), (ResponsesWire(), RESPONSE)]

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8).filter(lambda text: text.isprintable()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree))
    paths = [at] if at else []
    for key in keys if isinstance(tree, (dict, list)) else ():
        value = tree[key]
        inner = places(value, (*at, key)) if isinstance(value, (dict, list)) else [(*at, key)]
        paths += inner
    return paths


def sound(reply: Reply) -> None:
    """A reply that can be stored, addressed and read again."""
    msgspec.json.encode(reply)
    assert isinstance(reply.text, str) and reply.outcome in ("ok", "truncated", "refused", "empty")
    for wish in reply.tool_calls:
        assert isinstance(wish, ToolCall)
        assert all(isinstance(part, str) for part in (wish.id, wish.name, wish.arguments))
    for token in reply.logprobs:
        assert isinstance(token, Token) and isinstance(token.text, str)
        assert isinstance(token.logprob, float)
        assert all(isinstance(text, str) and isinstance(p, float) for text, p in token.top)
    usage = reply.usage
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
    assert all(isinstance(count, int) and count >= 0 for count in counts)
    assert all(isinstance(part, str) for part in (usage.raw, reply.opaque, reply.served_model))


def check(wire: Wire, status: int, body: bytes) -> None:
    try:
        reply = wire.reply(status, {}, body)
    except Malformed as exc:
        assert exc.body == body
    except EngineError as exc:
        assert str(exc)
    else:
        sound(reply)


@pytest.mark.parametrize(("wire", "good"), WIRES)
@given(data=st.data())
def test_a_reply_with_any_part_replaced_or_left_out(wire, good, data):
    tree = copy.deepcopy(good)
    for _ in range(data.draw(st.integers(1, 3))):
        paths = places(tree)
        if not paths:
            break
        *path, last = data.draw(st.sampled_from(paths))
        within: Any = tree
        for key in path:
            within = within[key]
        if data.draw(st.booleans()):
            within[last] = data.draw(anything)
        else:
            del within[last]
    check(wire, 200, orjson.dumps(tree))


@pytest.mark.parametrize(("wire", "good"), WIRES)
@examples(3)
@given(at=st.floats(0, 1), byte=st.integers(0, 255), cut=st.booleans())
def test_a_reply_with_any_byte_flipped_or_cut_off(wire, good, at, byte, cut):
    body = bytearray(orjson.dumps(good))
    place = int(at * (len(body) - 1))
    if cut:
        del body[place:]
    else:
        body[place] = byte
    check(wire, 200, bytes(body))


@pytest.mark.parametrize(("wire", "good"), WIRES)
@given(status=st.integers(100, 599), error=anything, code=anything)
def test_an_error_answer_of_any_shape(wire, good, status, error, code):
    for body in (error, {"error": error}, {"error": {"message": error, "code": code}}):
        check(wire, status, orjson.dumps(body))


TIMES = ("retry-after-ms", "x-ratelimit-reset-requests", "anthropic-ratelimit-tokens-reset")
HEADERS = st.sampled_from(("retry-after", "date", *TIMES))


@given(st.dictionaries(HEADERS, st.text(max_size=30)))
def test_headers_of_any_content_never_stop_a_reply(headers):
    for wire, good in WIRES:
        sound(wire.reply(200, headers, orjson.dumps(good)))
        assert (stated_limits(headers).requests.reset or 0.0) >= 0
        with pytest.raises(EngineError):
            wire.reply(429, headers, b"{}")
