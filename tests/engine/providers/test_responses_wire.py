"""The wire of OpenAI responses: what its bodies say, and what is read in its replies."""

from typing import Any

import orjson
import pytest

from oversight.cache.call import Call, Message, Request
from oversight.cache.reply import Reply, Token, ToolCall
from oversight.engine.errors import (
    InvalidRequest,
    Malformed,
    ModelNotFound,
    RateLimited,
    UnrecognizedReply,
)
from oversight.engine.providers.responses_wire import ResponsesWire

WIRE = ResponsesWire()
ASKED = (Message("system", "Be brief."), Message("user", "2 + 2?"))
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
WISH = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "calculator",
    "arguments": '{"expression":"2+2"}',
    "status": "completed",
}


def written(call: Call, wire: ResponsesWire = WIRE) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(wire.body(call))
    return body


def message(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    told = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return told | {"content": list(parts)} | fields


def words(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []} | fields


def response(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
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
            "total_tokens": 170,
        },
    } | fields


def cut(reason: str, *items: dict[str, Any]) -> dict[str, Any]:
    return response(*items, status="incomplete", incomplete_details={"reason": reason})


def read(data: Any) -> Reply:
    return WIRE.reply(200, {}, orjson.dumps(data))


def test_stop_sequences_are_refused_since_the_endpoint_has_no_word_for_them() -> None:
    with pytest.raises(ModelNotFound, match="takes no stop sequences"):
        WIRE.body(Call(Request("openai/gpt-6-sol", ASKED, stop=("END",))))


def test_a_name_that_says_nothing_is_asked_as_the_model_that_it_is() -> None:
    mine = Call(Request("azure/mine", ASKED))
    assert "include" not in written(mine, ResponsesWire("azure"))
    told = written(mine, ResponsesWire("azure", (("azure/mine", "openai/gpt-6-sol"),)))
    assert told["include"] == ["reasoning.encrypted_content"]
    assert told["model"] == "mine"


def test_a_reply_is_read_with_its_tokens_cached_and_reasoned() -> None:
    reply = read(response(THOUGHT, message(words("It is "), words("4."))))
    assert (reply.text, reply.outcome, reply.stop_reason) == ("It is 4.", "ok", "completed")
    assert reply.served_model == "gpt-6-sol-2026-08-20"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (120, 50)
    assert (reply.usage.cache_read_tokens, reply.usage.cache_write_tokens) == (64, 32)
    assert '"reasoning_tokens":40' in reply.usage.raw


def test_logprobs_are_read_best_first() -> None:
    scored = {
        "token": "A",
        "bytes": [65],
        "logprob": -0.25,
        "top_logprobs": [
            {"token": "B", "bytes": [66], "logprob": -1.5},
            {"token": "A", "bytes": [65], "logprob": -0.25},
        ],
    }
    reply = read(response(message(words("A", logprobs=[scored]))))
    assert reply.logprobs == (Token("A", -0.25, (("A", -0.25), ("B", -1.5))),)


@pytest.mark.parametrize(
    ("data", "outcome", "stop_reason", "text"),
    [
        (response(message(words(" "))), "empty", "completed", " "),
        (response(THOUGHT), "empty", "completed", ""),
        (response(message({"type": "refusal", "refusal": "No."})), "refused", "completed", "No."),
        (cut("max_output_tokens", message(words("so"))), "truncated", "max_output_tokens", "so"),
        (cut("max_output_tokens"), "truncated", "max_output_tokens", ""),
        (cut("content_filter", message(words("I w"))), "refused", "content_filter", "I w"),
    ],
)
def test_how_a_reply_ended(data: Any, outcome: str, stop_reason: str, text: str) -> None:
    reply = read(data)
    assert (reply.outcome, reply.stop_reason, reply.text) == (outcome, stop_reason, text)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (cut("steered"), "steered"),
        ({"status": "incomplete"}, "incomplete"),
        ({"status": "cancelled"}, "cancelled"),
        ({"status": "queued"}, "queued"),
        ({"output": [{"type": "web_search_call"}]}, "web_search_call"),
        ({"output": [message({"type": "output_audio"})]}, "output_audio"),
    ],
)
def test_what_nobody_here_has_heard_of_is_named(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(UnrecognizedReply, match=named):
        read(response(**fields))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "The server had an error"}, Malformed),
        ({"code": "rate_limit_exceeded", "message": "Rate limit reached"}, RateLimited),
        ({"code": "vector_store_timeout", "message": "too slow"}, Malformed),
    ],
)
def test_a_response_that_failed_is_an_error_though_it_came_as_a_200(
    error: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind, match=str(error["message"])):
        read(response(status="failed", error=error))


@pytest.mark.parametrize("code", ["bio_policy", "misalignment_policy_violation"])
def test_a_response_that_a_policy_blocked_is_a_refusal(code: str) -> None:
    reply = read(response(status="failed", error={"code": code, "message": "blocked"}))
    assert (reply.outcome, reply.stop_reason) == ("refused", code)


def test_reasoning_goes_back_with_the_wish_that_it_led_to() -> None:
    said = message(words("Let me see.", logprobs=[]), phase="commentary")
    first = read(response(THOUGHT, said, WISH))
    assert first.tool_calls == (ToolCall("call_1", "calculator", '{"expression":"2+2"}'),)
    turn = Message("assistant", first.text, first.tool_calls, opaque=first.opaque)
    result = Message("tool", "4", tool_call_id="call_1")
    sent = written(Call(Request("openai/gpt-6-sol", (*ASKED, turn, result))))["input"]
    plain = {"type": "output_text", "text": "Let me see.", "annotations": []}
    assert sent[2:] == [
        THOUGHT,
        said | {"content": [plain]},
        WISH,
        {"type": "function_call_output", "call_id": "call_1", "output": "4"},
    ]


def test_a_message_that_was_changed_goes_back_in_our_words_after_its_reasoning() -> None:
    first = read(response(THOUGHT, message(words("It is four."))))
    turn = Message("assistant", "It is 4.", opaque=first.opaque)
    sent = written(Call(Request("openai/gpt-6-sol", (*ASKED, turn, Message("user", "Sure?")))))[
        "input"
    ]
    assert sent[2:] == [
        THOUGHT,
        {"role": "assistant", "content": "It is 4."},
        {"role": "user", "content": "Sure?"},
    ]


def test_a_wish_without_reasoning_is_written_in_our_words() -> None:
    turn = Message("assistant", "", (ToolCall("call_1", "calculator", "{}"),))
    result = Message("tool", "4", tool_call_id="call_1")
    assert written(Call(Request("openai/gpt-4.1", (*ASKED, turn, result))))["input"][2:] == [
        {"type": "function_call", "call_id": "call_1", "name": "calculator", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "4"},
    ]


def test_a_remark_on_the_way_is_no_part_of_the_answer() -> None:
    remark = message(words("Thinking about it."), phase="commentary")
    final = message(words("4"), phase="final_answer")
    assert read(response(remark, final)).text == "4"
    assert read(response(remark)).text == "Thinking about it."


@pytest.mark.parametrize("opaque", ['{"reasoning_content":"hm"}', "[1]", "{"])
def test_reasoning_of_another_wire_is_refused(opaque: str) -> None:
    with pytest.raises(InvalidRequest, match=r"messages\.opaque"):
        WIRE.body(
            Call(Request("openai/gpt-6-sol", (*ASKED, Message("assistant", "4", opaque=opaque))))
        )


@pytest.mark.parametrize(
    "fields",
    [
        {"output": None},
        {"output": [None]},
        {"output": [{}]},
        {"output": [message(words("4"), content=None)]},
        {"output": [{"type": "function_call", "name": "f"}]},
        {"status": None},
    ],
)
def test_a_200_that_holds_no_reply_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises((Malformed, UnrecognizedReply)):
        read(response(message(words("4"))) | fields)
