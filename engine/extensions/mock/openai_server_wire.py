"""OpenAI chat completions and responses from the server's side."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import orjson

from ....cache.call import Call, Message, MessageRole, Request
from ....cache.reply import Reply, ToolCall
from .meter import MeterReading
from .server_wire import (
    COMPLAINTS,
    REFUSAL,
    ServerWire,
    input_tokens,
    output_tokens,
    response_format,
    tool_spec,
)
from .vendor_rules import Endpoint, thought_signature


class OpenAIServerWire(ServerWire):
    endpoint: Endpoint = "chat"
    complaints = COMPLAINTS["openai"]

    def call(self, body: dict[str, Any], model: str) -> Call:
        tools = body.get("tools") or ()
        wanted = (body.get("response_format") or {}).get("json_schema")
        stop = body.get("stop") or ()
        return Call(
            Request(
                model or body["model"],
                tuple(_message(message) for message in body["messages"]),
                temperature=body.get("temperature"),
                top_p=body.get("top_p"),
                max_tokens=body.get("max_completion_tokens") or body.get("max_tokens") or 1024,
                stop=(stop,) if isinstance(stop, str) else tuple(stop),
                tools=tuple(tool_spec(tool["function"]) for tool in tools),
                response_format=response_format(wanted),
                top_logprobs=body.get("top_logprobs") or 0,
                effort=body.get("reasoning_effort") or "",
            )
        )

    def reply(self, call: Call, reply: Reply, number: int) -> dict[str, Any]:
        refused = reply.outcome == "refused"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused else reply.text or None,
            "refusal": reply.text or REFUSAL if refused else None,
        }
        if reply.opaque:
            message |= orjson.loads(reply.opaque)
        if reply.tool_calls:
            message["tool_calls"] = [_wish(call, asked) for asked in reply.tool_calls]
        scored = {"content": scored_tokens(reply), "refusal": None}
        stop = "length" if reply.outcome == "truncated" else "stop"
        choice = {
            "index": 0,
            "message": message,
            "logprobs": scored if call.top_logprobs else None,
            "finish_reason": "tool_calls" if reply.tool_calls else stop,
        }
        read, wrote = input_tokens(call), output_tokens(reply)
        return {
            "id": f"chatcmpl-{number:024}",
            "object": "chat.completion",
            "created": 0,
            "model": call.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": wrote,
                "total_tokens": read + wrote,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        }

    def error(self, kind: str, message: str, code: str | int) -> dict[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}

    def limit(self, kind: str, reading: MeterReading) -> str:
        return (
            f"x-ratelimit-limit-{kind}: {reading.limit}\r\n"
            f"x-ratelimit-remaining-{kind}: {reading.remaining}\r\n"
            f"x-ratelimit-reset-{kind}: {reading.reset * 1000:.0f}ms\r\n"
        )

    def wait(self, seconds: float) -> str:
        return f"retry-after-ms: {seconds * 1000:.0f}\r\nretry-after: {seconds:.0f}\r\n"

    def stop_oddly(self, data: dict[str, Any]) -> None:
        data["choices"][0]["finish_reason"] = "because"


def _wish(call: Call, asked: ToolCall) -> dict[str, Any]:
    function = {"name": asked.name, "arguments": asked.arguments}
    signed = call.model.startswith("gemini-")
    extra = {"extra_content": thought_signature(asked.id)} if signed else {}
    return {"id": asked.id, "type": "function", "function": function} | extra


def _message(message: dict[str, Any]) -> Message:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part["type"] == "text")
    return Message(
        "system" if message["role"] == "developer" else message["role"],
        content,
        tuple(
            ToolCall(asked["id"], asked["function"]["name"], asked["function"]["arguments"])
            for asked in message.get("tool_calls") or ()
        ),
        message.get("tool_call_id") or "",
    )


def scored_tokens(reply: Reply) -> list[dict[str, Any]]:
    """Each output token with its candidates, in the format of both OpenAI endpoints."""

    def scored(text: str, logprob: float) -> dict[str, Any]:
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}

    return [
        scored(token.text, token.logprob) | {"top_logprobs": [scored(*top) for top in token.top]}
        for token in reply.logprobs
    ]


class ResponsesServerWire(OpenAIServerWire):
    """The responses endpoint; its errors, limits and waits are those of chat completions.

    A tool call follows an item of reasoning. As with the vendor, a request that sends the call back
    without that item is refused.
    """

    endpoint: Endpoint = "responses"

    def call(self, body: dict[str, Any], model: str) -> Call:
        if body.get("store") is not False:
            raise ValueError("store is to be false: nothing is kept here")
        if unknown := body.keys() & {"stop", "seed", "n", "messages", "max_tokens"}:
            raise ValueError(f"Unknown parameter: '{min(unknown)}'.")
        if (limit := body.get("max_output_tokens", 1024)) < 16:
            raise ValueError(
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, "
                f"but got {limit} instead."
            )
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        logprobs = "message.output_text.logprobs" in (body.get("include") or ())
        return Call(
            Request(
                model or body["model"],
                tuple(_from_items(items)),
                temperature=body.get("temperature"),
                top_p=body.get("top_p"),
                max_tokens=limit,
                tools=tuple(map(tool_spec, body.get("tools") or ())),
                response_format=response_format((body.get("text") or {}).get("format")),
                top_logprobs=body.get("top_logprobs") or 0 if logprobs else 0,
                effort=(body.get("reasoning") or {}).get("effort") or "",
            )
        )

    def reply(self, call: Call, reply: Reply, number: int) -> dict[str, Any]:
        read, wrote = input_tokens(call), output_tokens(reply)
        cut = reply.outcome == "truncated"
        status = "incomplete" if cut else "completed"
        said = [*_output(call, reply, number, status)]
        return {
            "id": f"resp_{number:024}",
            "object": "response",
            "created_at": 0,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": call.model,
            "output": orjson.loads(reply.opaque) if reply.opaque else said,
            "usage": {
                "input_tokens": read,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": wrote,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": read + wrote,
            },
        }

    def stop_oddly(self, data: dict[str, Any]) -> None:
        data |= {"status": "incomplete", "incomplete_details": {"reason": "because"}}


def _output(call: Call, reply: Reply, number: int, status: str) -> Iterator[dict[str, Any]]:
    if reply.tool_calls:
        id = f"rs_{number}"
        sealed = _sealed(id)
        yield {"type": "reasoning", "id": id, "summary": [], "encrypted_content": sealed}
    if reply.text or not reply.tool_calls:
        content = [_part(call, reply)] if reply.text or reply.outcome == "refused" else []
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        yield message | {"status": status, "content": content}
    for place, asked in enumerate(reply.tool_calls):
        yield {
            "type": "function_call",
            "id": f"fc_{number}_{place}",
            "call_id": asked.id,
            "name": asked.name,
            "arguments": asked.arguments,
            "status": "completed",
        }


def _part(call: Call, reply: Reply) -> dict[str, Any]:
    if reply.outcome == "refused":
        return {"type": "refusal", "refusal": reply.text or REFUSAL}
    scored = scored_tokens(reply) if call.top_logprobs else []
    return {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": scored}


def _from_items(items: list[dict[str, Any]]) -> Iterator[Message]:
    """Items as messages: text and tool calls of one turn of the model make one message."""
    text, tool_calls, thoughts = "", list[ToolCall](), set[str]()
    spoke = False
    for item in items:
        kind = item.get("type", "message")
        if kind == "reasoning":
            if item.get("encrypted_content") != _sealed(item["id"]):
                raise ValueError(f"The encrypted content of '{item['id']}' could not be verified.")
            thoughts.add(item["id"])
            continue
        if kind == "function_call":
            tool_calls.append(_called(item, thoughts))
            continue
        if kind == "message" and item["role"] == "assistant":
            text, spoke = text + _item_text(item["content"]), True
            continue
        if spoke or tool_calls:
            yield Message("assistant", text, tuple(tool_calls))
            text, tool_calls, spoke = "", [], False
        if kind == "function_call_output":
            yield Message("tool", item["output"], tool_call_id=item["call_id"])
        elif kind == "message":
            role: MessageRole = "system" if item["role"] == "developer" else item["role"]
            yield Message(role, _item_text(item["content"]))
        else:
            raise ValueError(f"Invalid value: '{kind}'.")
    if spoke or tool_calls:
        yield Message("assistant", text, tuple(tool_calls))


def _called(item: dict[str, Any], thoughts: set[str]) -> ToolCall:
    number = item.get("id", "").removeprefix("fc_").partition("_")[0]
    if number and f"rs_{number}" not in thoughts:
        raise ValueError(
            f"Item '{item['id']}' of type 'function_call' was provided without its required "
            f"'reasoning' item: 'rs_{number}'."
        )
    return ToolCall(item["call_id"], item["name"], item["arguments"])


def _item_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or part.get("refusal") or "" for part in content)


def _sealed(id: str) -> str:
    """Stand-in for encrypted reasoning, which the server can verify."""
    return sha256(id.encode()).hexdigest()
