"""The wire of Anthropic messages, at Anthropic itself and in the clouds that resell it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ...cache.call import Call, Effort, Message
from ...cache.reply import Reply, ToolCall, Usage
from ...protocols.prompts.render import leading, marked_parts
from ..errors import ModelNotFound
from .capabilities import MIN_THINKING, Abilities
from .payload import brief, compact, counts, functions, given_back, given_json, text, written
from .wire import Wire, kept_prefix

_FIELDS = {name: name for name in ("temperature", "top_p", "top_k", "service_tier")}
_FIELDS["stop"] = "stop_sequences"
_THINKING = ("thinking", "redacted_thinking")
_BUDGET_SHARE: dict[Effort, float] = {"low": 0.25, "medium": 0.5, "high": 0.8}
"""Share of max_tokens for thinking, on models that take a token budget instead of a level."""


@dataclass(frozen=True, slots=True)
class AnthropicWire(Wire):
    path: ClassVar[str] = "/v1/messages"

    provider: str = "anthropic"
    version: str = "2023-06-01"
    """Version of the API."""
    version_in_body: bool = False
    """Whether `version` goes into the body, as clouds require, or into a header."""

    def headers(self) -> dict[str, str]:
        edition = {} if self.version_in_body else {"anthropic-version": self.version}
        return Wire.headers(self) | edition

    def auth(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def body(self, call: Call) -> bytes:
        able = self.abilities(call.model)
        if call.top_logprobs:
            raise ModelNotFound(
                f"{call.model} reports no logprobs; ask a judge for stated probabilities"
            )
        system = leading(call)
        body: dict[str, Any] = {
            "model": call.model.removeprefix(f"{self.provider}/"),
            "max_tokens": call.max_tokens,
            "messages": _messages(call.messages[len(system) :]),
        }
        if self.version_in_body:
            body["anthropic_version"] = self.version
        if system:
            blocks: list[dict[str, Any]] = [
                {"type": "text", "text": part} for part in marked_parts(call)
            ]
            if kept_prefix(call) is not None:
                # The calls about a problem share the first block, and the calls of a protocol the
                # last.
                for block in (blocks[0], blocks[-1]):
                    block["cache_control"] = {"type": "ephemeral"}
            body["system"] = blocks
        if call.tools:
            body["tools"] = functions(call.request, "input_schema")
        output: dict[str, Any] = {}
        if (response_format := call.response_format) is not None:
            if not able.structured:
                raise ModelNotFound(
                    f"{call.model} does not keep to a JSON schema; leave the response format out"
                )
            schema = given_json(response_format.schema, "response_format.schema")
            output["format"] = {"type": "json_schema", "schema": schema}
        if cap := call.request.thinking_tokens:
            body["thinking"] = {"type": "enabled", "budget_tokens": cap}
        elif call.effort:
            body["thinking"] = _thinking(call, able)
            if able.thinking == "adaptive" and call.effort != "none":
                output["effort"] = call.effort
        if output:
            body["output_config"] = output
        return written(body, call, _FIELDS)

    def read(self, data: dict[str, Any]) -> Reply:
        blocks = data["content"]
        if not isinstance(blocks, list):
            raise TypeError(f"content {brief(blocks)}")
        texts, calls, thought = [], [], False
        for block in blocks:
            kind = block["type"]
            if kind == "text":
                texts.append(text(block["text"]))
            elif kind == "tool_use":
                tool_call = ToolCall(
                    text(block["id"]), text(block["name"]), compact(block["input"])
                )
                calls.append(tool_call)
            elif kind in _THINKING:
                thought = True
            else:
                raise self.unknown("sent a kind of content", kind)
        written = "".join(texts)
        outcome, stop_reason = self.ended(data.get("stop_reason"), written, calls)
        return Reply(
            text=written,
            tool_calls=tuple(calls),
            outcome=outcome,
            stop_reason=_with_category(stop_reason, data.get("stop_details")),
            usage=_usage(data.get("usage")),
            served_model=text(data.get("model")),
            # Thinking must be sent back unchanged between the other blocks, so all are kept.
            opaque=compact(blocks) if thought else "",
        )


def _with_category(stop_reason: str, details: Any) -> str:
    """The stop reason, with the policy category of a refusal."""
    category = details.get("category") if isinstance(details, dict) else None
    return f"{stop_reason}: {category}" if category and isinstance(category, str) else stop_reason


def _thinking(call: Call, able: Abilities) -> dict[str, Any]:
    """The `thinking` field for an effort: off, adaptive, or a token budget."""
    if call.effort == "none":
        if "none" not in able.efforts:
            raise ModelNotFound(f"{call.model} always thinks; leave effort 'none' out")
        return {"type": able.thinking_off}
    if able.thinking == "adaptive" and call.effort != "minimal":
        return {"type": "adaptive"}
    share = _BUDGET_SHARE.get(call.effort)
    if able.thinking != "budget" or share is None:
        raise ModelNotFound(f"{call.model} takes no effort {call.effort!r}; leave it out")
    if call.max_tokens <= MIN_THINKING:
        raise ModelNotFound(
            f"{call.model}: effort {call.effort!r} needs max_tokens above {MIN_THINKING}, "
            f"not {call.max_tokens}"
        )
    return {"type": "enabled", "budget_tokens": max(MIN_THINKING, int(call.max_tokens * share))}


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Messages in the provider's form; the results of one turn's tools make one user message."""
    written: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "assistant":
            written.append({"role": "assistant", "content": _said(message)})
            continue
        if message.role == "tool":
            block = {"type": "tool_result", "tool_use_id": message.tool_call_id}
            block["content"] = message.text
        else:
            block = {"type": "text", "text": message.text}
        last = written[-1] if written else None
        if last is None or last["role"] != "user" or message.role == "system":
            role = "user" if message.role == "tool" else message.role
            written.append({"role": role, "content": [block]})
        else:
            last["content"].append(block)
    return written


def _said(message: Message) -> list[Any] | str:
    """The content of an assistant's message; thinking is sent back unchanged."""
    if not message.tool_calls and not message.opaque:
        return message.text
    blocks: list[Any] = [{"type": "text", "text": message.text}] if message.text else []
    blocks += [
        {
            "type": "tool_use",
            "id": tool_call.id,
            "name": tool_call.name,
            "input": given_json(tool_call.arguments, f"tool_calls.{tool_call.id}.arguments"),
        }
        for tool_call in message.tool_calls
    ]
    if not message.opaque:
        return blocks
    original = given_back(message.opaque)
    if _unchanged(original, message):
        return original
    return [block for block in original if block.get("type") in _THINKING] + blocks


def _unchanged(original: list[dict[str, Any]], message: Message) -> bool:
    """Whether a message still has the text and tool calls of its original blocks."""
    texts = [block.get("text", "") for block in original if block.get("type") == "text"]
    ids = [block.get("id") for block in original if block.get("type") == "tool_use"]
    return "".join(texts) == message.text and ids == [call.id for call in message.tool_calls]


def _usage(usage: Any) -> Usage:
    """Token usage. Anthropic's input_tokens excludes cached tokens; ours includes them."""
    if not isinstance(usage, dict):
        return Usage()
    fresh, output, read, wrote = counts(
        usage.get("input_tokens"),
        usage.get("output_tokens"),
        usage.get("cache_read_input_tokens"),
        usage.get("cache_creation_input_tokens"),
    )
    return Usage(fresh + read + wrote, output, read, wrote, raw=compact(usage))
