from typing import Any

import orjson
import pytest

from oversight.cache.call import Call, Effort, Message, Request, ResponseFormat
from oversight.cache.reply import Reply, ToolCall
from oversight.engine.errors import InvalidRequest, Malformed, ModelNotFound
from oversight.engine.providers.anthropic_wire import AnthropicWire

WIRE = AnthropicWire()
SONNET = "anthropic/claude-sonnet-4-5"
ASKED = (Message("system", "Be brief."), Message("user", "2 + 2?"))


def written(call: Call, wire: AnthropicWire = WIRE) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(wire.body(call))
    return body


def message(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": list(blocks) or [{"type": "text", "text": "4"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 1},
    } | fields


def read(data: Any) -> Reply:
    return WIRE.reply(200, {}, orjson.dumps(data))


def test_the_edition_of_the_api_is_ours_to_say() -> None:
    assert WIRE.headers()["anthropic-version"] == "2023-06-01"
    cloud = AnthropicWire("bedrock", "bedrock-2023-05-31", version_in_body=True)
    assert "anthropic-version" not in cloud.headers()
    body = written(Call(Request("bedrock/claude", ASKED)), cloud)
    assert body["anthropic_version"] == "bedrock-2023-05-31"


@pytest.mark.parametrize(("words", "marked"), [(100, False), (2000, True)])
def test_a_long_system_prompt_is_marked_for_the_prompt_cache(words: int, marked: bool) -> None:
    long = Call(Request(SONNET, (Message("system", "passage " * words), Message("user", "?"))))
    assert ("cache_control" in written(long)["system"][-1]) is marked


def test_what_a_model_cannot_do_is_said_and_not_dropped() -> None:
    with pytest.raises(ModelNotFound, match="no logprobs"):
        WIRE.body(Call(Request(SONNET, ASKED, top_logprobs=5)))
    old = "anthropic/claude-3-5-sonnet-20241022"
    with pytest.raises(ModelNotFound, match="JSON schema"):
        WIRE.body(Call(Request(old, ASKED, response_format=ResponseFormat("v", "{}"))))
    with pytest.raises(ModelNotFound, match="takes no effort 'high'"):
        WIRE.body(Call(Request(old, ASKED, effort="high")))


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "config"),
    [
        (SONNET, "high", {"type": "enabled", "budget_tokens": 3200}, None),
        (SONNET, "low", {"type": "enabled", "budget_tokens": 1024}, None),
        (SONNET, "none", {"type": "disabled"}, None),
        ("anthropic/claude-opus-4-8", "medium", {"type": "adaptive"}, {"effort": "medium"}),
        ("anthropic/claude-opus-4-8", "none", {"type": "disabled"}, None),
    ],
)
def test_effort_in_the_words_of_each_model(
    model: str, effort: Effort, thinking: dict[str, Any], config: dict[str, str] | None
) -> None:
    body = written(Call(Request(model, ASKED, max_tokens=4000, effort=effort)))
    assert body["thinking"] == thinking
    assert body.get("output_config") == config


def test_thinking_needs_room_within_max_tokens() -> None:
    with pytest.raises(ModelNotFound, match="needs max_tokens above 1024, not 1000"):
        WIRE.body(Call(Request(SONNET, ASKED, max_tokens=1000, effort="high")))


def test_the_results_of_one_turn_make_one_user_message() -> None:
    asked = (ToolCall("t1", "calc", '{"x":1}'), ToolCall("t2", "calc", '{"x":2}'))
    messages = (
        *ASKED,
        Message("assistant", "Let me see.", asked),
        Message("tool", "1", tool_call_id="t1"),
        Message("tool", "2", tool_call_id="t2"),
        Message("user", "Go on."),
    )
    assert written(Call(Request(SONNET, messages)))["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "t1", "name": "calc", "input": {"x": 1}},
                {"type": "tool_use", "id": "t2", "name": "calc", "input": {"x": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "1"},
                {"type": "tool_result", "tool_use_id": "t2", "content": "2"},
                {"type": "text", "text": "Go on."},
            ],
        },
    ]


THOUGHT = (
    {"type": "thinking", "thinking": "hm", "signature": "sig1"},
    {"type": "text", "text": "Let me "},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "text", "text": "see."},
    {"type": "tool_use", "id": "t1", "name": "calc", "input": {"x": 1}},
)


def test_thinking_goes_back_between_the_blocks_it_stood_between() -> None:
    reply = read(message(*THOUGHT, stop_reason="tool_use"))
    assert (reply.text, reply.outcome) == ("Let me see.", "ok")
    again = Message("assistant", reply.text, reply.tool_calls, opaque=reply.opaque)
    sent = written(Call(Request(SONNET, (*ASKED, again))))["messages"][1]["content"]
    assert sent == list(THOUGHT)


def test_thinking_stays_untouched_when_the_text_was_edited() -> None:
    reply = read(message(*THOUGHT, stop_reason="tool_use"))
    edited = Message("assistant", "[cut]", reply.tool_calls, opaque=reply.opaque)
    assert written(Call(Request(SONNET, (*ASKED, edited))))["messages"][1]["content"] == [
        THOUGHT[0],
        THOUGHT[2],
        {"type": "text", "text": "[cut]"},
        THOUGHT[4],
    ]


def test_reasoning_of_another_wire_is_refused_before_anything_is_sent() -> None:
    messages = (*ASKED, Message("assistant", "4", opaque='{"reasoning_content": "x"}'))
    with pytest.raises(InvalidRequest, match="opaque is not from this wire"):
        WIRE.body(Call(Request(SONNET, messages)))


@pytest.mark.parametrize(
    ("stop_reason", "text", "outcome"),
    [
        ("end_turn", "4", "ok"),
        ("stop_sequence", "4", "ok"),
        ("max_tokens", "4", "truncated"),
        ("max_tokens", "", "truncated"),
        ("model_context_window_exceeded", "4", "truncated"),
        ("pause_turn", "4", "truncated"),
        ("refusal", "", "refused"),
        ("end_turn", "", "empty"),
    ],
)
def test_outcomes(stop_reason: str, text: str, outcome: str) -> None:
    reply = read(message({"type": "text", "text": text}, stop_reason=stop_reason))
    assert (reply.outcome, reply.text, reply.stop_reason) == (outcome, text, stop_reason)


def test_an_unknown_stop_reason_or_kind_of_block_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'vibes'"):
        read(message(stop_reason="vibes"))
    with pytest.raises(InvalidRequest, match="'hologram'"):
        read(message({"type": "hologram"}))


def test_input_tokens_are_the_sum_of_fresh_read_and_written_ones() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
        "output_tokens": 5,
    }
    got = read(message(usage=usage)).usage
    assert (got.input_tokens, got.output_tokens) == (240, 5)
    assert (got.cache_read_tokens, got.cache_write_tokens) == (200, 30)
    assert orjson.loads(got.raw) == usage


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b'{"content": [{"type": "text", "text": "hal',
        b'{"type": "message"}',
        b'{"content": null, "stop_reason": "end_turn"}',
        b'{"content": [{"type": "text", "text": 4}], "stop_reason": "end_turn"}',
        b'{"content": ["text"], "stop_reason": "end_turn"}',
        b'{"content": [], "stop_reason": null}',
        b'{"type": "error", "error": {"type": "api_error", "message": "boom"}}',
    ],
)
def test_a_200_that_holds_no_reply_is_malformed_with_its_bytes(body: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        WIRE.reply(200, {}, body)
    assert caught.value.body == body


@pytest.mark.parametrize(
    ("details", "told"),
    [
        ({"type": "refusal", "category": "reasoning_extraction"}, "refusal: reasoning_extraction"),
        ({"type": "refusal", "category": None}, "refusal"),
        (None, "refusal"),
        ("odd", "refusal"),
    ],
)
def test_the_policy_that_refused_is_kept(details: Any, told: str) -> None:
    reply = read(message(stop_reason="refusal", stop_details=details))
    assert (reply.outcome, reply.stop_reason) == ("refused", told)
