"""Anthropic messages from the server's side."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from ....cache.call import Call, Effort, Message, Request
from ....cache.reply import Outcome, Reply, ToolCall
from .meter import MeterReading
from .server_wire import (
    COMPLAINTS,
    ServerWire,
    input_tokens,
    json_text,
    output_tokens,
    response_format,
    tool_spec,
)

_STOPS: dict[Outcome, str] = {"refused": "refusal", "truncated": "max_tokens"}
"""Any other outcome is the end of a turn."""


class AnthropicServerWire(ServerWire):
    endpoint = "messages"
    complaints = COMPLAINTS["anthropic"]

    def call(self, body: dict[str, Any], model: str) -> Call:
        output = body.get("output_config") or {}
        system = body.get("system") or ()
        blocks = [{"text": system}] if isinstance(system, str) else system
        # Clients cut one text in several, to mark how much of it is to be cached.
        told = "".join(block["text"] for block in blocks)
        instructions = (Message("system", told),) if told else ()
        said = tuple(part for message in body["messages"] for part in _messages(message))
        effort: Effort = output.get("effort") or ""
        return Call(
            Request(
                model or body["model"],
                (*instructions, *said),
                temperature=body.get("temperature"),
                top_p=body.get("top_p"),
                max_tokens=body["max_tokens"],
                stop=tuple(body.get("stop_sequences") or ()),
                tools=tuple(tool_spec(tool, "input_schema") for tool in body.get("tools") or ()),
                response_format=response_format(output.get("format")),
                effort=effort,
            )
        )

    def reply(self, call: Call, reply: Reply, number: int) -> dict[str, Any]:
        said = [{"type": "text", "text": reply.text}] if reply.text else []
        wishes = [
            {
                "type": "tool_use",
                "id": each.id,
                "name": each.name,
                "input": orjson.loads(each.arguments),
            }
            for each in reply.tool_calls
        ]
        stop = _STOPS.get(reply.outcome, "end_turn")
        usage = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {
            "id": f"msg_{number:024}",
            "type": "message",
            "role": "assistant",
            "model": call.model,
            "content": orjson.loads(reply.opaque) if reply.opaque else said + wishes,
            "stop_reason": "tool_use" if reply.tool_calls else stop,
            "stop_sequence": None,
            "usage": usage
            | {"input_tokens": input_tokens(call), "output_tokens": output_tokens(reply)},
        }

    def error(self, kind: str, message: str, code: str | int) -> dict[str, Any]:
        told = {
            "type": "not_found_error" if code == "model_not_found" else kind,
            "message": message,
        }
        return {"type": "error", "error": told, "request_id": "req_0"}

    def limit(self, kind: str, reading: MeterReading) -> str:
        reset = datetime.now(UTC) + timedelta(seconds=reading.reset)
        return (
            f"anthropic-ratelimit-{kind}-limit: {reading.limit}\r\n"
            f"anthropic-ratelimit-{kind}-remaining: {reading.remaining}\r\n"
            f"anthropic-ratelimit-{kind}-reset: {reset.isoformat()}\r\n"
        )

    def wait(self, seconds: float) -> str:
        return f"retry-after: {seconds:.3f}\r\n"

    def stop_oddly(self, data: dict[str, Any]) -> None:
        data["stop_reason"] = "because"


def _messages(message: dict[str, Any]) -> Iterator[Message]:
    """Our messages for one of theirs, which may hold several tool results."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    text, calls = "", []
    for block in content:
        match block["type"]:
            case "tool_result":
                yield Message("tool", block["content"], tool_call_id=block["tool_use_id"])
            case "tool_use":
                calls.append(ToolCall(block["id"], block["name"], json_text(block["input"])))
            case "text":
                text += block["text"]
    if text or calls:
        yield Message(message["role"], text, tuple(calls))
