"""The wire of OpenAI chat completions, also used by DeepSeek, OpenRouter, vLLM, Ollama and more."""

from collections.abc import Iterable
from dataclasses import dataclass
from sys import intern
from typing import Any, ClassVar

import orjson

from ...cache.call import Call, Effort, Message
from ...cache.reply import Reply, Token, ToolCall, Usage
from .capabilities import Abilities
from .fault import stop_meaning
from .payload import (
    PARAMETERS,
    brief,
    compact,
    counts,
    foreign,
    functions,
    given_json,
    parts,
    strict_format,
    text,
    written,
)
from .wire import Wire, cache_key

_FIELDS = {name: name for name in PARAMETERS}
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields of a message that hold reasoning: DeepSeek's and vLLM's, then OpenRouter's."""
_THOUGHTS = ("thinking", "reasoning")
"""Kinds of content parts that hold reasoning, at Mistral and in gateways."""
_ROUTED = {"provider": {"require_parameters": True}}
"""OpenRouter's setting, unless a call changes it: its hosts drop parameters that they lack."""
_READ = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens", "cache_read_tokens")
"""Tokens that came from the prompt cache: OpenAI's name, DeepSeek's, Anthropic's in gateways."""
_WROTE = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
_MARKS = "tool_calls.extra_content"
"""Key in `opaque` of the thought signatures that Gemini attaches to tool calls and needs back."""


@dataclass(frozen=True, slots=True)
class OpenAIWire(Wire):
    path: ClassVar[str] = "/chat/completions"

    provider: str = "openai"

    def body(self, call: Call) -> bytes:
        request = call.request
        able = self.abilities(request.model)
        body: dict[str, Any] = {
            "model": request.model.removeprefix(f"{self.provider}/"),
            "messages": [
                {"role": message.role, "content": message.text}
                if message.role in ("user", "system")
                else _message(message)
                for message in request.messages
            ],
            able.max_tokens_field: request.max_tokens,
            "stream": False,
        }
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.effort:
            body |= _reasoning(request.effort, able)
        if request.tools:
            tools = functions(request)
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        if (response_format := request.response_format) is not None:
            schema = strict_format(response_format)
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if self.provider == "openai" and (key := cache_key(call)):
            body["prompt_cache_key"] = key
        fields = _FIELDS if able.seed == "seed" else {**_FIELDS, "seed": able.seed}
        return written(body, call, fields, _ROUTED if self.provider == "openrouter" else {})

    def error(self, data: dict[str, Any]) -> object:
        if error := data.get("error"):
            return error
        # An error in a choice: OpenRouter may put the upstream server's error there.
        choices = data.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        return first.get("error") if isinstance(first, dict) else None

    def read(self, data: dict[str, Any]) -> Reply:
        choice = data["choices"][0]
        stop_reason = choice.get("finish_reason")
        # A filter may leave the message out.
        filtered = type(stop_reason) is str and stop_meaning(stop_reason) == "declined"
        message = choice["message"] if not filtered else choice.get("message") or {}
        content = message.get("content")
        if type(content) is str and message.get("refusal") is None:
            speech, refusal = content, ""
        else:
            speech, refusal = self._said(message)
        tool_calls = message.get("tool_calls") or ()
        calls: tuple[ToolCall, ...] = ()
        if tool_calls:
            calls = tuple(_tool_call(n, tool_call) for n, tool_call in enumerate(tool_calls))
        outcome, stop_reason = self.ended(stop_reason, speech, calls, refusal)
        reasoning = {}
        for name in _REASONING:
            if message.get(name):
                reasoning[name] = message[name]
        if isinstance(content, list) and any(kind in _THOUGHTS for kind, _ in parts(content)):
            reasoning["content"] = content
        if tool_calls:
            marks = [tool_call.get("extra_content") for tool_call in tool_calls]
            reasoning |= {_MARKS: marks} if any(marks) else {}
        scored = (choice.get("logprobs") or {}).get("content")
        served = data.get("model")
        return Reply(
            text=speech or refusal,
            tool_calls=calls,
            outcome=outcome,
            stop_reason=intern(stop_reason),
            logprobs=tokens(scored) if scored else (),
            usage=usage_of(data.get("usage"), "prompt_tokens", "completion_tokens"),
            served_model=intern(
                served if type(served) is str and "provider" not in data else _server(data)
            ),
            opaque=compact(reasoning) if reasoning else "",
        )

    def _said(self, message: dict[str, Any]) -> tuple[str, str]:
        """The text and the refusal of a message, without its reasoning."""
        texts, refusal = [], [text(message.get("refusal"))]
        for kind, words in parts(message.get("content")):
            match kind:
                case "text" | "output_text":
                    texts.append(words)
                case "refusal":
                    refusal.append(words)
                case kind if kind in _THOUGHTS:
                    pass
                case _:
                    raise self.unknown("sent a kind of content", kind)
        return "".join(texts), "".join(refusal)


def _reasoning(effort: Effort, able: Abilities) -> dict[str, Any]:
    if able.thinking != "toggle":
        return {"reasoning_effort": effort}
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    written: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.tool_calls:
        written["content"] = message.text or None
        written["tool_calls"] = [
            {
                "id": tool_call.id,
                "type": "function",
                "function": {"name": tool_call.name, "arguments": tool_call.arguments},
            }
            for tool_call in message.tool_calls
        ]
    if message.opaque:
        reasoning = given_json(message.opaque, "messages.opaque")
        if not isinstance(reasoning, dict):
            raise foreign(message.opaque)
        marks = reasoning.pop(_MARKS, ())
        for tool_call, mark in zip(written.get("tool_calls", ()), marks, strict=False):
            tool_call |= {"extra_content": mark} if mark else {}
        written |= reasoning
    return written


def _server(data: dict[str, Any]) -> str:
    """The model that answered, and OpenRouter's host."""
    model, host = text(data.get("model")), data.get("provider")
    return f"{model} at {host}" if model and host and isinstance(host, str) else model


def _tool_call(place: int, sent_call: dict[str, Any]) -> ToolCall:
    function = sent_call["function"]
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        # Ollama sends an object instead of its JSON text.
        arguments = compact(arguments)
    # Some servers send no id, but tool results must refer to one.
    return ToolCall(
        text(sent_call.get("id")) or f"call_{place}", text(function["name"]), text(arguments)
    )


def tokens(scored: Iterable[Any]) -> tuple[Token, ...]:
    """Output tokens with logprobs; both of OpenAI's endpoints send them in this form."""
    return tuple(
        Token(
            text(token["token"]),
            _logprob(token["logprob"]),
            _candidates(token.get("top_logprobs") or ()),
        )
        for token in scored
    )


def _candidates(tops: Iterable[Any]) -> tuple[tuple[str, float], ...]:
    # Sorted, as vLLM puts the drawn token first, however unlikely it is.
    candidates = [
        (text(top["token"]), _logprob(top["logprob"])) for top in tops if top["logprob"] is not None
    ]
    return tuple(sorted(candidates, key=lambda candidate: -candidate[1]))


def _logprob(value: Any) -> float:
    if value is None:  # SGLang's minus infinity, as vLLM writes it
        return -9999.0
    if not isinstance(value, (int, float)):
        raise TypeError(f"a logprob of {brief(value)}")
    return float(value)


def usage_of(usage: Any, prompt_name: str, reply_name: str) -> Usage:
    """Token usage, as stated by both of OpenAI's endpoints. prompt_name, reply_name: their fields
    for the tokens of prompt and reply."""
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get(f"{prompt_name}_details")
    details = details if isinstance(details, dict) else {}
    field = (usage | details).get
    prompt, reply, read, wrote, total = counts(
        field(prompt_name) or field("input_tokens"),
        field(reply_name) or field("output_tokens"),
        next(filter(None, map(field, _READ)), 0),
        next(filter(None, map(field, _WROTE)), 0),
        field("total_tokens"),
    )
    # Some servers exclude the cache from the prompt, as Anthropic does: then the prompt is smaller
    # than the cache, or the total exceeds the other two by that amount.
    apart = not details and any(name.endswith("_input_tokens") for name in usage)
    if prompt < read + wrote or (apart and total - prompt - reply >= read + wrote):
        prompt += read + wrote
    # The rest of the total is reasoning, which xAI and Gemini bill separately from the reply.
    return Usage(prompt, max(reply, total - prompt), read, wrote, raw=orjson.dumps(usage).decode())
