"""Wires from the server's side: they parse calls, and write replies and errors.

OpenAI chat completions, OpenAI responses, and Anthropic messages."""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import orjson

from ....cache.call import Call, Effort, Message, MessageRole, Request, ResponseFormat, ToolSpec
from ....cache.reply import Outcome, Reply, ToolCall
from .connection import MeterReading
from .profile import Endpoint, FaultKind, thought_signature

REFUSAL = "I cannot help with that."
"""Text of a refusal if the model gave none."""

_FRAME = 3
"""Tokens added by each message and each tool."""


COMPLAINTS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    files(__package__).joinpath("complaints.toml").read_text("utf-8")
)


@cache
def recorded_faults() -> Mapping[str, Mapping[str, Any]]:
    """Recorded error answers of servers, by id."""
    lines = files(__package__).joinpath("recorded_faults.jsonl").read_bytes().splitlines()
    return {fault["id"]: fault for fault in map(orjson.loads, lines)}


class ServerWire(ABC):
    """One wire, spoken by the rehearsal server. Field names live here and in
    `oversight.engine.providers`."""

    endpoint: Endpoint
    complaints: Mapping[str, str]
    """By `FaultKind`, the id of the recorded answer that is given."""

    @abstractmethod
    def call(self, body: dict[str, Any], model: str) -> Call:
        """The call in a request. model: from the path; empty if the body names it. Raises:
        KeyError, TypeError or ValueError for an invalid body."""

    @abstractmethod
    def reply(self, call: Call, reply: Reply, number: int) -> dict[str, Any]:
        """A reply in the vendor's format. number: of the request, for the reply's id."""

    @abstractmethod
    def error(self, kind: str, message: str, code: str | int) -> dict[str, Any]:
        """An error in the vendor's format."""

    @abstractmethod
    def limit(self, kind: str, reading: MeterReading) -> str:
        """Header lines, each ended by CRLF, with one limit. kind: `requests` or `tokens`."""

    @abstractmethod
    def wait(self, seconds: float) -> str:
        """Header lines that ask to wait."""

    @abstractmethod
    def stop_oddly(self, data: dict[str, Any]) -> None:
        """Give a reply a stop reason that does not exist."""

    def complaint(self, fault: FaultKind, message: str = "") -> tuple[int, bytes]:
        """Status and body of a recorded error; with a message, that instead of the recorded one."""
        answer = recorded_faults()[self.complaints[fault]]
        body: bytes = answer["body"].encode()
        if message:
            document = orjson.loads(body)
            document["error"]["message"] = message
            body = orjson.dumps(document)
        return answer["status"], body

    def bad_request(self, message: str, code: str = "") -> bytes:
        """Body of a 400 for a request that is invalid, or that the vendor refuses."""
        return orjson.dumps(self.error("invalid_request_error", message, code))


def json_text(value: Any) -> str:
    return orjson.dumps(value).decode()


def tool_spec(tool: dict[str, Any], schema: str = "parameters") -> ToolSpec:
    """A tool from the vendor's format. schema: key of the schema of its arguments."""
    return ToolSpec(tool["name"], tool.get("description") or "", json_text(tool.get(schema) or {}))


def response_format(stated_format: dict[str, Any] | None) -> ResponseFormat | None:
    """A response format from the vendor's format, which may lack a name."""
    if not stated_format:
        return None
    return ResponseFormat(stated_format.get("name", ""), json_text(stated_format["schema"]))


def input_tokens(call: Call) -> int:
    """A rough count of the prompt's tokens, at least 1; tools and schemas count."""
    count = sum(_FRAME + _tokens(message.text) for message in call.messages)
    for tool in call.tools:
        count += _FRAME + _tokens(tool.description) + _tokens(tool.parameters)
    if call.response_format is not None:
        count += _tokens(call.response_format.schema)
    return max(count, 1)


def output_tokens(reply: Reply) -> int:
    """The reply's own usage, else a rough count of its tokens, at least 1."""
    if reply.usage.output_tokens:
        return reply.usage.output_tokens
    return 1 + _tokens(reply.text) + sum(_tokens(wish.arguments) for wish in reply.tool_calls)


def _tokens(text: str) -> int:
    """Estimated tokens: four per three words, or one per six characters of text without spaces. The
    client estimates from length alone; a server that did the same would test nothing."""
    return max(4 * (text.count(" ") + text.count("\n")) // 3, len(text) // 6)


class OpenAIServerWire(ServerWire):
    endpoint: Endpoint = "chat"
    complaints = COMPLAINTS["openai"]

    def call(self, body: dict[str, Any], model: str) -> Call:
        tools = body.get("tools") or ()
        schema_format = (body.get("response_format") or {}).get("json_schema")
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
                response_format=response_format(schema_format),
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
            message["tool_calls"] = [_wish(call, tool_call) for tool_call in reply.tool_calls]
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


def _wish(call: Call, tool_call: ToolCall) -> dict[str, Any]:
    function = {"name": tool_call.name, "arguments": tool_call.arguments}
    signed = call.model.startswith("gemini-")
    extra = {"extra_content": thought_signature(tool_call.id)} if signed else {}
    return {"id": tool_call.id, "type": "function", "function": function} | extra


def _message(message: dict[str, Any]) -> Message:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part["type"] == "text")
    return Message(
        "system" if message["role"] == "developer" else message["role"],
        content,
        tuple(
            ToolCall(wish["id"], wish["function"]["name"], wish["function"]["arguments"])
            for wish in message.get("tool_calls") or ()
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
    """The responses endpoint; its errors, limits and waits are the same as for chat completions.

    A tool call follows an item of reasoning. As with the vendor, a request that sends the call back
    without that item is refused."""

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
        input_items = body["input"]
        as_text = isinstance(input_items, str)
        items = [{"role": "user", "content": input_items}] if as_text else input_items
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
        output_items = [*_output(call, reply, number, status)]
        return {
            "id": f"resp_{number:024}",
            "object": "response",
            "created_at": 0,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": call.model,
            "output": orjson.loads(reply.opaque) if reply.opaque else output_items,
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
    for place, tool_call in enumerate(reply.tool_calls):
        yield {
            "type": "function_call",
            "id": f"fc_{number}_{place}",
            "call_id": tool_call.id,
            "name": tool_call.name,
            "arguments": tool_call.arguments,
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
        system_text = "".join(block["text"] for block in blocks)
        instructions = (Message("system", system_text),) if system_text else ()
        turns = tuple(part for message in body["messages"] for part in _messages(message))
        effort: Effort = output.get("effort") or ""
        return Call(
            Request(
                model or body["model"],
                (*instructions, *turns),
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
        blocks = [{"type": "text", "text": reply.text}] if reply.text else []
        wishes = [
            {
                "type": "tool_use",
                "id": tool_call.id,
                "name": tool_call.name,
                "input": orjson.loads(tool_call.arguments),
            }
            for tool_call in reply.tool_calls
        ]
        stop = _STOPS.get(reply.outcome, "end_turn")
        usage = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {
            "id": f"msg_{number:024}",
            "type": "message",
            "role": "assistant",
            "model": call.model,
            "content": orjson.loads(reply.opaque) if reply.opaque else blocks + wishes,
            "stop_reason": "tool_use" if reply.tool_calls else stop,
            "stop_sequence": None,
            "usage": usage
            | {"input_tokens": input_tokens(call), "output_tokens": output_tokens(reply)},
        }

    def error(self, kind: str, message: str, code: str | int) -> dict[str, Any]:
        kind = "not_found_error" if code == "model_not_found" else kind
        error = {"type": kind, "message": message}
        return {"type": "error", "error": error, "request_id": "req_0"}

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
