"""Three wires: what their bodies say, what is read in their replies, and what is refused."""

from typing import Any

import orjson
import pytest

from oversight.cache.call import Call, Message, Request, ResponseFormat
from oversight.cache.reply import Reply, Token, ToolCall
from oversight.engine.errors import (
    InvalidRequest,
    Malformed,
    ModelNotFound,
    OutcomeUnknown,
    RateLimited,
    UnrecognizedReply,
)
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.engine.providers.wire import Wire

CHAT, MESSAGES, RESPONSES = OpenAIWire(), AnthropicWire(), ResponsesWire()
SONNET, OPUS, SOL = "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-8", "openai/gpt-6-sol"
OLD = "anthropic/claude-3-5-sonnet-20241022"
ASKED = (Message("system", "Be brief."), Message("user", "2 + 2?"))


def written(wire: Wire, model: str, *more: Message, **settings: Any) -> dict[str, Any]:
    """The body of a call."""
    body: dict[str, Any] = orjson.loads(
        wire.body(Call(Request(model, (*ASKED, *more), **settings)))
    )
    return body


def read(wire: Wire, body: Any) -> Reply:
    return wire.reply(200, {}, orjson.dumps(body))


def chat(message: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "4", "refusal": None} | (message or {})
    return {
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": said, "finish_reason": "stop"} | choice],
        "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21},
    }


def message(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "model": "claude-sonnet-4-5-20250929",
        "content": list(blocks) or [{"type": "text", "text": "4"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 20, "output_tokens": 1},
    } | fields


def response(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "gpt-6-sol-2026-08-20",
        "output": list(items),
        "usage": {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 32},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 40},
        },
    } | fields


def item(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    told = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return told | {"content": list(parts)} | fields


def words(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []} | fields


def cut(reason: str, *items: dict[str, Any]) -> dict[str, Any]:
    return response(*items, status="incomplete", incomplete_details={"reason": reason})


def failed(code: str, told: str) -> dict[str, Any]:
    return response(status="failed", error={"code": code, "message": told})


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
WISH = {
    **{"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"},
    **{"name": "calculator", "arguments": '{"expression":"2+2"}'},
}


# What goes out; the bodies of whole calls are compared with the vendors' own: test_sdk_bytes.py.


def test_what_servers_are_told_in_words_of_their_own():
    body = written(OpenAIWire("compatible/lab"), "compatible/lab/org/llama-3")
    assert (body["model"], body["max_tokens"]) == ("org/llama-3", 1024)
    assert "max_completion_tokens" not in body
    router = OpenAIWire("openrouter", extra='{"provider":{"order":["a"],"allow_fallbacks":false}}')
    chosen = written(router, "openrouter/x/y")["provider"]
    assert chosen == {"order": ["a"], "allow_fallbacks": False}
    assert MESSAGES.headers()["anthropic-version"] == "2023-06-01"
    cloud = AnthropicWire("bedrock", "bedrock-2023-05-31", version_in_body=True)
    assert "anthropic-version" not in cloud.headers()
    assert written(cloud, "bedrock/claude")["anthropic_version"] == "bedrock-2023-05-31"
    # A name that says nothing is asked as the model that it is.
    assert "include" not in written(ResponsesWire("azure"), "azure/mine")
    told = written(ResponsesWire("azure", (("azure/mine", SOL),)), "azure/mine")
    assert (told["include"], told["model"]) == (["reasoning.encrypted_content"], "mine")


@pytest.mark.parametrize(("count", "marked"), [(100, False), (2000, True)])
def test_a_long_system_prompt_is_marked_for_the_prompt_cache(count, marked):
    long = Call(Request(SONNET, (Message("system", "passage " * count), Message("user", "?"))))
    assert ("cache_control" in orjson.loads(MESSAGES.body(long))["system"][-1]) is marked


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "config"),
    [
        (SONNET, "high", {"type": "enabled", "budget_tokens": 3200}, None),
        (SONNET, "low", {"type": "enabled", "budget_tokens": 1024}, None),
        (SONNET, "none", {"type": "disabled"}, None),
        (OPUS, "medium", {"type": "adaptive"}, {"effort": "medium"}),
        (OPUS, "none", {"type": "disabled"}, None),
    ],
)
def test_effort_in_the_words_of_each_model(model, effort, thinking, config):
    body = written(MESSAGES, model, max_tokens=4000, effort=effort)
    assert (body["thinking"], body.get("output_config")) == (thinking, config)


@pytest.mark.parametrize(
    ("wire", "model", "more", "settings", "kind", "told"),
    [
        (MESSAGES, SONNET, (), {"top_logprobs": 5}, ModelNotFound, "no logprobs"),
        (MESSAGES, OLD, (), {"response_format": ResponseFormat("v", "{}")}, ModelNotFound, "JSON"),
        (MESSAGES, OLD, (), {"effort": "high"}, ModelNotFound, "takes no effort 'high'"),
        (
            *(MESSAGES, SONNET, (), {"max_tokens": 1000, "effort": "high"}, ModelNotFound),
            "needs max_tokens above 1024, not 1000",
        ),
        (RESPONSES, SOL, (), {"stop": ("END",)}, ModelNotFound, "takes no stop sequences"),
        (
            *(CHAT, "openai/gpt-4o", (), {"response_format": ResponseFormat("v", "{'A': 1}")}),
            *(InvalidRequest, r"response_format\.schema is no JSON"),
        ),
        *(
            (wire, model, (Message("assistant", "4", opaque=opaque),), {}, InvalidRequest, told)
            for wire, model, opaque, told in (
                (CHAT, "openai/gpt-4o", '[{"type": "thinking"}]', "opaque is not from this wire"),
                (MESSAGES, SONNET, '{"reasoning_content": "x"}', "opaque is not from this wire"),
                (RESPONSES, SOL, '{"reasoning_content":"hm"}', r"messages\.opaque"),
                (RESPONSES, SOL, "[1]", r"messages\.opaque"),
                (RESPONSES, SOL, "{", r"messages\.opaque"),
            )
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(
    wire, model, more, settings, kind, told
):
    with pytest.raises(kind, match=told):
        written(wire, model, *more, **settings)


def test_the_results_of_one_turn_make_one_user_message():
    wishes = (ToolCall("t1", "calc", '{"x":1}'), ToolCall("t2", "calc", '{"x":2}'))
    said = Message("assistant", "Let me see.", wishes)
    results = [Message("tool", str(n), tool_call_id=f"t{n}") for n in (1, 2)]
    assert written(MESSAGES, SONNET, said, *results, Message("user", "Go on."))["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                *(
                    {"type": "tool_use", "id": f"t{n}", "name": "calc", "input": {"x": n}}
                    for n in (1, 2)
                ),
            ],
        },
        {
            "role": "user",
            "content": [
                *(
                    {"type": "tool_result", "tool_use_id": f"t{n}", "content": str(n)}
                    for n in (1, 2)
                ),
                {"type": "text", "text": "Go on."},
            ],
        },
    ]


# What comes back, and goes out again with the next call.


def turn(reply: Reply, text: str | None = None) -> Message:
    said = reply.text if text is None else text
    return Message("assistant", said, reply.tool_calls, opaque=reply.opaque)


BLOCKS = (
    {"type": "thinking", "thinking": "hm", "signature": "sig1"},
    {"type": "text", "text": "Let me "},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "text", "text": "see."},
    {"type": "tool_use", "id": "t1", "name": "calc", "input": {"x": 1}},
)


def test_thinking_goes_back_between_its_blocks_and_untouched_when_the_text_was_edited():
    reply = read(MESSAGES, message(*BLOCKS, stop_reason="tool_use"))
    assert (reply.text, reply.outcome) == ("Let me see.", "ok")
    edited = [BLOCKS[0], BLOCKS[2], {"type": "text", "text": "[cut]"}, BLOCKS[4]]
    for again, sent in ((turn(reply), list(BLOCKS)), (turn(reply, "[cut]"), edited)):
        assert written(MESSAGES, SONNET, again)["messages"][1]["content"] == sent


def test_reasoning_goes_back_with_the_wish_that_it_led_to():
    said = item(words("Let me see."), phase="commentary")
    first = read(RESPONSES, response(THOUGHT, said, WISH))
    assert first.tool_calls == (ToolCall("call_1", "calculator", '{"expression":"2+2"}'),)
    result = Message("tool", "4", tool_call_id="call_1")
    plain = {"type": "output_text", "text": "Let me see.", "annotations": []}
    gave = {"type": "function_call_output", "call_id": "call_1", "output": "4"}
    sent = written(RESPONSES, SOL, turn(first), result)["input"]
    assert sent[2:] == [THOUGHT, said | {"content": [plain]}, WISH, gave]
    # Without reasoning a wish is written in our words, as is a message that was changed.
    own = Message("assistant", "", (ToolCall("call_1", "calculator", "{}"),))
    ours = {"type": "function_call", "call_id": "call_1", "name": "calculator", "arguments": "{}"}
    assert written(RESPONSES, "openai/gpt-4.1", own, result)["input"][2:] == [ours, gave]
    four = read(RESPONSES, response(THOUGHT, item(words("It is four."))))
    changed = turn(four, "It is 4.")
    assert written(RESPONSES, SOL, changed, Message("user", "Sure?"))["input"][2:] == [
        THOUGHT,
        {"role": "assistant", "content": "It is 4."},
        {"role": "user", "content": "Sure?"},
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "first, …"},
        {"reasoning": "first, …", "reasoning_details": [{"type": "reasoning.text", "text": "f"}]},
    ],
)
def test_reasoning_comes_back_as_it_went_out(fields):
    said = written(CHAT, "deepseek/deepseek-chat", turn(read(CHAT, chat(fields))))["messages"][2]
    assert said == {"role": "assistant", "content": "4", **fields}


def test_tool_calls_are_kept_as_written_and_marks_on_them_go_back_with_them():
    """Also if they are no JSON. Gemini refuses a call whose thought signature it misses."""
    odd = [
        {"id": "a", "type": "function", "function": {"name": "calc", "arguments": "{broken"}},
        {"type": "function", "function": {"name": "calc", "arguments": {"x": 1}}},
    ]
    reply = read(CHAT, chat({"content": None, "tool_calls": odd}, finish_reason="tool_calls"))
    calls = (ToolCall("a", "calc", "{broken"), ToolCall("call_1", "calc", '{"x":1}'))
    assert (reply.outcome, reply.tool_calls) == ("ok", calls)
    marked = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in "fg"
    ]
    marked[0]["extra_content"] = {"google": {"thought_signature": "Eo4C"}}
    reply = read(CHAT, chat({"content": None, "tool_calls": marked}, finish_reason="tool_calls"))
    results = [Message("tool", "4", tool_call_id=id) for id in "fg"]
    sent = written(CHAT, "openai/m", turn(reply), *results)["messages"]
    assert sent[2] == {"role": "assistant", "content": None, "tool_calls": marked}


def test_a_remark_on_the_way_is_no_part_of_the_answer():
    remark = item(words("Thinking about it."), phase="commentary")
    final = item(words("4"), phase="final_answer")
    assert read(RESPONSES, response(remark, final)).text == "4"
    assert read(RESPONSES, response(remark)).text == "Thinking about it."


def stopped(reason: str, text: str = "4") -> dict[str, Any]:
    return message({"type": "text", "text": text}, stop_reason=reason)


def ended(reason: str, **message: Any) -> dict[str, Any]:
    return chat(message, finish_reason=reason)


REFUSED = item({"type": "refusal", "refusal": "No."})
WINDOW, STOLEN = "model_context_window_exceeded", "reasoning_theft"
ENDINGS: dict[Wire, list[tuple[dict[str, Any], str, str, str]]] = {
    CHAT: [
        (chat(), "ok", "stop", "4"),
        (ended("length", content="half a"), "truncated", "length", "half a"),
        (ended("length", content=None), "truncated", "length", ""),
        (ended("stop", content=None, refusal="I can't."), "refused", "stop", "I can't."),
        (ended("content_filter", content="So"), "refused", "content_filter", "So"),
        (ended("stop", content=None), "empty", "stop", ""),
        (ended("stop", content=" \n"), "empty", "stop", " \n"),
    ],
    MESSAGES: [
        (message(), "ok", "end_turn", "4"),
        (stopped("stop_sequence"), "ok", "stop_sequence", "4"),
        (stopped("max_tokens"), "truncated", "max_tokens", "4"),
        (stopped("max_tokens", ""), "truncated", "max_tokens", ""),
        (stopped(WINDOW), "truncated", WINDOW, "4"),
        (stopped("pause_turn"), "truncated", "pause_turn", "4"),
        (stopped("refusal", ""), "refused", "refusal", ""),
        (stopped("end_turn", ""), "empty", "end_turn", ""),
        *(
            (stopped("refusal") | {"stop_details": details}, "refused", told, "4")
            for details, told in (
                ({"type": "refusal", "category": STOLEN}, f"refusal: {STOLEN}"),
                *(({"type": "refusal", "category": None}, "refusal"), (None, "refusal")),
                ("odd", "refusal"),
            )
        ),
    ],
    RESPONSES: [
        (response(THOUGHT, item(words("It is "), words("4."))), "ok", "completed", "It is 4."),
        (response(item(words(" "))), "empty", "completed", " "),
        (response(THOUGHT), "empty", "completed", ""),
        (response(REFUSED), "refused", "completed", "No."),
        (cut("max_output_tokens", item(words("so"))), "truncated", "max_output_tokens", "so"),
        (cut("max_output_tokens"), "truncated", "max_output_tokens", ""),
        (cut("content_filter", item(words("I w"))), "refused", "content_filter", "I w"),
        *(
            (failed(code, "blocked"), "refused", code, "")
            for code in ("bio_policy", "misalignment_policy_violation")
        ),
    ],
}


@pytest.mark.parametrize(
    ("wire", "body", "outcome", "stop_reason", "text"),
    [(wire, *row) for wire in ENDINGS for row in ENDINGS[wire]],
)
def test_how_a_reply_ended(wire, body, outcome, stop_reason, text):
    reply = read(wire, body)
    assert (reply.outcome, reply.stop_reason, reply.text) == (outcome, stop_reason, text)


@pytest.mark.parametrize(
    ("wire", "body", "kind", "named"),
    [
        (CHAT, chat(finish_reason="vibes"), InvalidRequest, "'vibes'"),
        (
            *(CHAT, chat(finish_reason="insufficient_system_resource"), OutcomeUnknown),
            "insufficient_system_resource",
        ),
        *((CHAT, chat(logprobs={"content": [{"token": "A", "logprob": logprob}]}), Malformed, "")
          for logprob in ("nan", "-1.0", None)),
        (MESSAGES, message(stop_reason="vibes"), InvalidRequest, "'vibes'"),
        (MESSAGES, message({"type": "hologram"}), InvalidRequest, "'hologram'"),
        (RESPONSES, cut("steered"), UnrecognizedReply, "steered"),
        *((RESPONSES, response(status=status), UnrecognizedReply, status)
          for status in ("incomplete", "cancelled", "queued")),
        (RESPONSES, response({"type": "web_search_call"}), UnrecognizedReply, "web_search_call"),
        (RESPONSES, response(item({"type": "output_audio"})), UnrecognizedReply, "output_audio"),
        (RESPONSES, failed("server_error", "had an error"), Malformed, "had an error"),
        (RESPONSES, failed("rate_limit_exceeded", "Rate limit"), RateLimited, "Rate limit"),
        (RESPONSES, failed("vector_store_timeout", "too slow"), Malformed, "too slow"),
        *((RESPONSES, response(item(words("4"))) | fields, (Malformed, UnrecognizedReply), "")
          for fields in (
              {"output": None},
              {"output": [None]},
              {"output": [{}]},
              {"output": [item(words("4"), content=None)]},
              {"output": [{"type": "function_call", "name": "f"}]},
              {"status": None},
          )),
    ],
)  # fmt: skip
def test_what_nobody_here_has_heard_of_is_named(wire, body, kind, named):
    with pytest.raises(kind, match=named or None):
        read(wire, body)


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        *((wire, body) for wire in (CHAT, MESSAGES, RESPONSES)
          for body in (b"", b"<html><body>502 Bad Gateway</body></html>", b"[]", b"null")),
        *((CHAT, body) for body in (
            b'{"choices": [{"message": {"content": "hal',
            b'{"choices": []}',
            b'{"choices": null}',
            b'{"choices": [{"message": {"content": 4}, "finish_reason": "stop"}]}',
            b'{"choices": [{"message": {"content": ""}, "finish_reason": null}]}',
            b'{"choices": [], "x": NaN}',
            b'{"choices": [], "x": Infinity}',
            b'{"choices": [], "x": 1e999}',
            b'{"choices": ' + b"[" * 5000 + b"]" * 5000 + b"}",
            b'\xff\xfe{"choices": []}',
            b'{"error": {"message": "boom"}}',
            b'{"error": {"message": "boom", "code": 502}}',
            b'{"error": "boom"}',
        )),
        *((MESSAGES, body) for body in (
            b'{"content": [{"type": "text", "text": "hal',
            b'{"type": "message"}',
            b'{"content": null, "stop_reason": "end_turn"}',
            b'{"content": [{"type": "text", "text": 4}], "stop_reason": "end_turn"}',
            b'{"content": ["text"], "stop_reason": "end_turn"}',
            b'{"content": [], "stop_reason": null}',
            b'{"type": "error", "error": {"type": "api_error", "message": "boom"}}',
        )),
    ],
)  # fmt: skip
def test_a_200_that_holds_no_reply_is_malformed_with_its_bytes(wire, body):
    with pytest.raises(Malformed) as caught:
        wire.reply(200, {}, body)
    assert caught.value.body == body


FRESH = {"input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30}
HIT = {"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 32}}


@pytest.mark.parametrize(
    ("wire", "body", "expected"),
    [
        *(
            (CHAT, chat() | {"usage": usage}, expected)
            for usage, expected in (
                ({"prompt_tokens": 100, "completion_tokens": 5, **DETAILS}, (100, 5, 64, 32)),
                ({"prompt_tokens": 100, "completion_tokens": 5, **HIT}, (100, 5, 60, 0)),
                ({"prompt_tokens": None, "completion_tokens": "5"}, (0, 0, 0, 0)),
                ({"prompt_tokens": -3, "completion_tokens": 1e300}, (0, 0, 0, 0)),
                (None, (0, 0, 0, 0)),
            )
        ),
        # Input is the sum of fresh, read and written tokens.
        (MESSAGES, message(usage={**FRESH, "output_tokens": 5}), (240, 5, 200, 30)),
        (RESPONSES, response(item(words("4"))), (120, 50, 64, 32)),
    ],
)
def test_cached_tokens_are_a_part_of_the_input(wire, body, expected):
    got = read(wire, body).usage
    counts = (got.input_tokens, got.output_tokens, got.cache_read_tokens, got.cache_write_tokens)
    assert counts == expected
    assert not body["usage"] or orjson.loads(got.raw) == body["usage"]


def test_the_model_that_served_a_call_is_told_and_the_host_of_a_routed_one():
    assert read(CHAT, chat()).served_model == "gpt-4o-mini-2024-07-18"
    assert read(CHAT, chat() | {"provider": "DeepInfra"}).served_model.endswith(" at DeepInfra")
    assert read(RESPONSES, response(item(words("4")))).served_model == "gpt-6-sol-2026-08-20"


def test_logprobs_are_best_first_as_they_came_and_may_be_fewer_than_asked():
    best = [{"token": "B", "logprob": -20.5}, {"token": "A", "bytes": [65], "logprob": 1e-9}]
    scored = [
        {"token": "A", "bytes": [65], "logprob": 1e-9, "top_logprobs": best},
        {"token": ".", "logprob": -0.5, "top_logprobs": []},
    ]
    expected = (Token("A", 1e-9, (("A", 1e-9), ("B", -20.5))), Token(".", -0.5))
    assert read(CHAT, chat(logprobs={"content": scored, "refusal": None})).logprobs == expected
    said = response(item(words("A.", logprobs=scored)))
    assert read(RESPONSES, said).logprobs == expected
    for none in (None, {}, {"content": None}, {"content": []}):
        assert read(CHAT, chat(logprobs=none)).logprobs == ()
