"""Three wires: bodies, replies and refusals in `wires.md`; error answers in `faults.md`."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight.cache.call import Call, Message, Request, ResponseFormat
from oversight.cache.entry import read_reply, write_reply
from oversight.cache.reply import Reply, Token, ToolCall
from oversight.engine.errors import EngineError, Malformed
from oversight.engine.providers import wire as wires
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.fault import (
    LONGEST,
    Allowance,
    HeaderLimits,
    read_fault,
    stated_limits,
)
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.responses_wire import ResponsesWire
from oversight.engine.providers.wire import Wire
from tests.sessions import sessions
from tests.tables import printed

CHAT, MESSAGES, RESPONSES = OpenAIWire(), AnthropicWire(), ResponsesWire()
SONNET, OPUS, SOL = "anthropic/claude-sonnet-4-5", "anthropic/claude-opus-4-8", "openai/gpt-6-sol"
OLD = "anthropic/claude-3-5-sonnet-20241022"
ASKED = (Message("system", "Be brief."), Message("user", "2 + 2?"))
SEEDED = Call(Request("openai/gpt-4o", ASKED, seed=7))


def written(wire: Wire, model: str, *more: Message, **settings: Any) -> dict[str, Any]:
    """The body of a call."""
    return orjson.loads(wire.body(Call(Request(model, (*ASKED, *more), **settings))))


def read(wire: Wire, body: Any) -> Reply:
    return wire.reply(200, {}, orjson.dumps(body))


def chat(message: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    message_fields = {"role": "assistant", "content": "4", "refusal": None} | (message or {})
    return {
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": message_fields, "finish_reason": "stop"} | choice],
        "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21},
    }


def message(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "type": "message", "model": "claude-sonnet-4-5-20250929",
        "content": list(blocks) or [{"type": "text", "text": "4"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 20, "output_tokens": 1},
    } | fields  # fmt: skip


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
    base = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return base | {"content": list(parts)} | fields


def words(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []} | fields


def cut(reason: str, *items: dict[str, Any]) -> dict[str, Any]:
    return response(*items, status="incomplete", incomplete_details={"reason": reason})


def failed(code: str, message: str) -> dict[str, Any]:
    return response(status="failed", error={"code": code, "message": message})


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
WISH = {
    **{"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"},
    **{"name": "calculator", "arguments": '{"expression":"2+2"}'},
}


CLOUD = AnthropicWire("bedrock", version="bedrock-2023-05-31", version_in_body=True)
AZURE = ResponsesWire("azure", (("azure/mine", SOL),))

# Requests. Whole bodies are compared with the vendors' in test_sdk_bytes.py.


WISHES = (ToolCall("t1", "calc", '{"x":1}'), ToolCall("t2", "calc", '{"x":2}'))
TURN = (
    Message("assistant", "Let me see.", WISHES),
    *(Message("tool", str(n), tool_call_id=f"t{n}") for n in (1, 2)),
    Message("user", "Go on."),
)


# Answers, and the next request that continues them.


def turn(reply: Reply, text: str | None = None) -> Message:
    speech = reply.text if text is None else text
    return Message("assistant", speech, reply.tool_calls, opaque=reply.opaque)


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
    commentary = item(words("Let me see."), phase="commentary")
    first = read(RESPONSES, response(THOUGHT, commentary, WISH))
    assert first.tool_calls == (ToolCall("call_1", "calculator", '{"expression":"2+2"}'),)
    result = Message("tool", "4", tool_call_id="call_1")
    plain = {"type": "output_text", "text": "Let me see.", "annotations": []}
    gave = {"type": "function_call_output", "call_id": "call_1", "output": "4"}
    sent = written(RESPONSES, SOL, turn(first), result)["input"]
    assert sent[2:] == [THOUGHT, commentary | {"content": [plain]}, WISH, gave]
    # Without reasoning a wish is written in our words, as is a message that was changed.
    user_message = Message("assistant", "", (ToolCall("call_1", "calculator", "{}"),))
    ours = {"type": "function_call", "call_id": "call_1", "name": "calculator", "arguments": "{}"}
    assert written(RESPONSES, "openai/gpt-4.1", user_message, result)["input"][2:] == [ours, gave]
    four = read(RESPONSES, response(THOUGHT, item(words("It is four."))))
    asking = Message("assistant", four.text, user_message.tool_calls, opaque=four.opaque)
    for changed, *more in ((turn(four, "It is 4."),), (asking, ours)):
        sent = written(RESPONSES, SOL, changed, result)["input"][2:]
        assert sent == [THOUGHT, {"role": "assistant", "content": changed.text}, *more, gave]


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


def stopped(reason: str, text: str = "4") -> dict[str, Any]:
    return message({"type": "text", "text": text}, stop_reason=reason)


def ended(reason: str, **message: Any) -> dict[str, Any]:
    return chat(message, finish_reason=reason)


REFUSED = item({"type": "refusal", "refusal": "No."})
WINDOW = "model_context_window_exceeded"


def answer(wire: Wire, *bodies: Any) -> list[str]:
    """A wire's results by body: the reply's outcome, or the error without a parser's words."""
    results = (answered(200, body, wire) for body in bodies)
    return [re.sub(r" \(\w+Error.*|(?<=no JSON): .*", "", result) for result in results]


def malformed(wire: Wire, *bodies: bytes) -> list[str]:
    """The errors for bodies without a reply; each keeps its body."""
    for body in bodies:
        with pytest.raises(Malformed) as caught:
            wire.reply(200, {}, body)
        assert caught.value.body == body
    return answer(wire, *bodies)


def effort(model: str, word: str, cap: int | None = None) -> str:
    body = written(MESSAGES, model, max_tokens=4000, effort=word, thinking_tokens=cap)
    return f"{body['thinking']} {body.get('output_config', '')}".rstrip()


def refused(wire: Wire, model: str, *more: Message, **settings: Any) -> str:
    """Why a call cannot be asked: before anything is sent."""
    with pytest.raises(EngineError) as caught:
        written(wire, model, *more, **settings)
    return f"{type(caught.value).__name__}: {caught.value}"


def fields(wire: Wire, model: str, **settings: Any) -> dict[str, Any]:
    """The fields of a body that these settings add or change."""
    plain, body = written(wire, model), written(wire, model, **settings)
    assert plain.keys() <= body.keys()
    return {name: value for name, value in body.items() if value != plain.get(name)}


def prefixed(model: str, size: int) -> Call:
    """A call with a system text of this size and a question of one character."""
    return Call(Request(model, (Message("system", "x" * size), Message("user", "?"))))


def said_before(opaque: str) -> Message:
    return Message("assistant", "4", opaque=opaque)


SOUND = {CHAT: chat(), MESSAGES: message(), RESPONSES: response(item(words("4")))}


def replaced(old: bytes, new: bytes) -> list[str]:
    """Each wire's results for a valid body with replaced parts; its reply can be stored."""
    lines = []
    for wire, body in SOUND.items():
        raw, count = re.subn(old, lambda _: new, orjson.dumps(body))
        assert count
        reply = wire.reply(200, {}, raw)
        assert read_reply("key", write_reply(reply), "") == reply
        used = f"{reply.usage.input_tokens} in, {reply.usage.output_tokens} out"
        lines.append(f"{reply.outcome} {reply.text!r}, {used}")
    return lines


@sessions(Path(__file__).with_name("wires.md"))
def test_wires_write_requests_and_read_answers(session, request):
    session.check(request, printed({**vars(wires), **globals(), "ResponseFormat": ResponseFormat}))


FRESH = {"input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30}
HIT = {"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 32}}


def counts(wire: Wire, body: dict[str, Any]) -> str:
    """Tokens of input and output, of them read from the prompt cache and written to it."""
    got = read(wire, body).usage
    assert not body["usage"] or orjson.loads(got.raw) == body["usage"]
    cached = f"{got.cache_read_tokens} read, {got.cache_write_tokens} written"
    return f"{got.input_tokens} in, {got.output_tokens} out; {cached}"


def test_logprobs_are_best_first_as_they_came_and_may_be_fewer_than_asked():
    best = [{"token": "B", "logprob": -20.5}, {"token": "A", "bytes": [65], "logprob": 1e-9}]
    scored = [
        {"token": "A", "bytes": [65], "logprob": 1e-9, "top_logprobs": best},
        {"token": ".", "logprob": -0.5, "top_logprobs": []},
    ]
    expected = (Token("A", 1e-9, (("A", 1e-9), ("B", -20.5))), Token(".", -0.5))
    assert read(CHAT, chat(logprobs={"content": scored, "refusal": None})).logprobs == expected
    assert read(RESPONSES, response(item(words("A.", logprobs=scored)))).logprobs == expected
    for none in (None, {}, {"content": None}, {"content": []}):
        assert read(CHAT, chat(logprobs=none)).logprobs == ()


OPENAI, ANTHROPIC = OpenAIWire(), AnthropicWire()
INVALID = "invalid_request_error"
DATE = "Fri, 20 Nov 2026 12:00:00 GMT"


def answered(status: int, body: Any, wire: Wire = OPENAI) -> str:
    """The error of a wire for an answer, or its refused reply."""
    try:
        reply = wire.reply(status, {}, body if isinstance(body, bytes) else orjson.dumps(body))
    except EngineError as fault:
        return f"{type(fault).__name__}: {fault}"
    return f"{reply.outcome} {reply.text!r}, {reply.stop_reason or 'no reason'}"


def openai(status: int, message: str, code: Any = None, type: str | None = None, **more: Any):
    error = {"message": message, "type": type, "param": None, "code": code} | more
    return answered(status, {"error": error})


def anthropic(status: int, message: str, type: str = INVALID, error_code: str = "") -> str:
    more = {"details": {"error_code": error_code}} if error_code else {}
    error = {"type": type, "message": message} | more
    return answered(status, {"type": "error", "error": error, "request_id": "r"}, ANTHROPIC)


def boom(code: Any) -> dict[str, Any]:
    return {"error": {"message": "boom", "type": None, "param": None, "code": code}}


def routed(code: int) -> dict[str, Any]:
    """An error instead of the message of a choice."""
    error = {"message": "the server behind failed", "code": code}
    return {"choices": [{"error": error, "finish_reason": "error"}]}


def named(fields: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in fields.items()}


def wait(status: int = 429, **fields: str) -> float:
    return read_fault("openai", status, named(fields), b"").delay


def limits(**fields: str) -> list[str]:
    """The remaining amount of each stated limit."""
    limits_stated = stated_limits(named(fields))
    amounts = {name: getattr(limits_stated, name) for name in HeaderLimits.__dataclass_fields__}
    return [
        f"{name}: {it.remaining} of {it.limit}, in {it.reset} s"
        for name, it in amounts.items()
        if it != Allowance()
    ]


CODES = (402, "insufficient_quota", 401, 404, 429, "429", 500, 503, None, "server_error")


@sessions(Path(__file__).with_name("faults.md"))
def test_each_fault_is_reported_by_its_kind_with_the_fix(session, request):
    session.check(request, printed(globals()))


FAR = (
    "1000000000000", "1e300", "1e999", "99999999999999999999999", "-1e300", "nan",
    "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 99999999999999999999 23:59:59 GMT",
    "Fri, 31 Dec 2026 23:59:59 +99999999999999", "Fri, 31 Dec 2026 99:99:99 GMT",
    "9999-12-31T23:59:59+00:00", ",", ", , , ,",
)  # fmt: skip


@pytest.mark.parametrize("where", ["retry-after", "date", "retry-after-ms"])
def test_no_delay_and_no_date_is_too_absurd_to_be_borne(where):
    resets = {
        "anthropic-ratelimit-tokens-reset": "0001-01-01T00:00:00+23:59",
        "x-ratelimit-reset-tokens": f"{'9' * 400}s",
    }
    for value in FAR:
        for more in (resets, {}):
            headers = {"date": DATE, **more, where: value}
            assert 0 <= read_fault("openai", 429, headers, b"").delay <= LONGEST, value
