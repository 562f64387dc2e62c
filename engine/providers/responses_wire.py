"""The wire of OpenAI's responses endpoint, on which reasoning models can call functions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ...cache.call import Call, Message
from ...cache.reply import Reply, Token, ToolCall
from ..errors import ModelNotFound
from .openai_wire import tokens, usage_of
from .payload import brief, compact, functions, given_back, strict_format, text, written
from .wire import Wire, cache_key

_FIELDS = {name: name for name in ("temperature", "top_p", "service_tier")}


@dataclass(frozen=True, slots=True)
class ResponsesWire(Wire):
    path: ClassVar[str] = "/responses"

    provider: str = "openai"

    def body(self, call: Call) -> bytes:
        if call.stop:
            raise ModelNotFound(
                f"{call.model}: the responses endpoint takes no stop sequences; leave them out, or "
                "set the provider's api: chat"
            )
        body: dict[str, Any] = {
            "model": call.model.removeprefix(f"{self.provider}/"),
            "input": [item for message in call.messages for item in _items(message)],
            "max_output_tokens": call.max_tokens,
            "stream": False,
            # Replies are kept in our store: the vendor's is not needed.
            "store": False,
        }
        if self.provider == "openai" and (key := cache_key(call)):
            body["prompt_cache_key"] = key
        include = []
        able = self.abilities(call.model)
        if able.efforts and not able.assumed:
            # Models that do not reason refuse this; those that do send it by default.
            include.append("reasoning.encrypted_content")
        if call.top_logprobs:
            include.append("message.output_text.logprobs")
            body["top_logprobs"] = call.top_logprobs
        if include:
            body["include"] = include
        if call.effort:
            body["reasoning"] = {"effort": call.effort}
        if call.tools:
            # Unlike on chat completions, the default of `strict` changes the schema.
            tools = functions(call.request)
            body["tools"] = [{"type": "function", **tool, "strict": False} for tool in tools]
        if (response_format := call.response_format) is not None:
            body["text"] = {"format": {"type": "json_schema", **strict_format(response_format)}}
        return written(body, call, _FIELDS)

    def read(self, data: dict[str, Any]) -> Reply:
        items = data["output"]
        if not isinstance(items, list):
            raise TypeError(f"output {brief(items)}")
        stop_reason = text(data["status"])
        if stop_reason == "incomplete":
            details = data.get("incomplete_details")
            stop_reason = text(details["reason"]) if isinstance(details, dict) else stop_reason
        speech, refusal, logprobs = self._said(items)
        calls = tuple(
            ToolCall(text(item["call_id"]), text(item["name"]), text(item["arguments"]))
            for item in items
            if item["type"] == "function_call"
        )
        outcome, stop_reason = self.ended(stop_reason, speech, calls, refusal)
        return Reply(
            text=speech or refusal,
            tool_calls=calls,
            outcome=outcome,
            stop_reason=stop_reason,
            logprobs=logprobs,
            usage=usage_of(data.get("usage"), "input_tokens", "output_tokens"),
            served_model=text(data.get("model")),
            opaque=compact([*_kept(items)]) if any(map(_binding, items)) else "",
        )

    def _said(self, items: list[dict[str, Any]]) -> tuple[str, str, tuple[Token, ...]]:
        """The text, the refusal, and the logprobs of the text."""
        messages = []
        for item in items:
            match item["type"]:
                case "message":
                    messages.append(item)
                case "reasoning" | "function_call":
                    pass
                case kind:
                    raise self.unknown("sent a kind of item", kind)
        texts: list[str] = []
        refusal: list[str] = []
        scored: list[Any] = []
        for part in _spoken(messages):
            match part["type"]:
                case "output_text":
                    texts.append(text(part["text"]))
                    scored += part.get("logprobs") or []
                case "refusal":
                    refusal.append(text(part["refusal"]))
                case kind:
                    raise self.unknown("sent a kind of content", kind)
        return "".join(texts), "".join(refusal), tokens(scored)


def _spoken(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The parts of the final messages, or of the commentary if nothing else was sent."""
    final = [message for message in messages if message.get("phase") != "commentary"]
    for message in final or messages:
        yield from message["content"]


def _binding(item: dict[str, Any]) -> bool:
    """Whether an item must be sent back unchanged: reasoning, and messages with a phase."""
    return item["type"] == "reasoning" or bool(item.get("phase"))


def _kept(items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The items unchanged, but without logprobs, which are not to be sent back."""
    for item in items:
        if item["type"] == "message":
            parts = [{k: v for k, v in part.items() if k != "logprobs"} for part in item["content"]]
            yield {**item, "content": parts}
        else:
            yield item


def _items(message: Message) -> Iterator[dict[str, Any]]:
    """A message as the provider's items; tool calls and reasoning are separate items."""
    if message.role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.tool_call_id,
            "output": message.text,
        }
        return
    if message.opaque:
        items = given_back(message.opaque)
        if _unchanged(items, message):
            yield from items
            return
        yield from (item for item in items if item.get("type") == "reasoning")
    if message.text or not message.tool_calls:
        yield {"role": message.role, "content": message.text}
    for tool_call in message.tool_calls:
        yield {
            "type": "function_call",
            "call_id": tool_call.id,
            "name": tool_call.name,
            "arguments": tool_call.arguments,
        }


def _unchanged(items: list[dict[str, Any]], message: Message) -> bool:
    """Whether a message still has the text and tool calls of its original items."""
    messages = [item for item in items if item.get("type") == "message"]
    speech = "".join(part.get("text") or part.get("refusal", "") for part in _spoken(messages))
    ids = [item.get("call_id") for item in items if item.get("type") == "function_call"]
    return speech == message.text and ids == [call.id for call in message.tool_calls]
