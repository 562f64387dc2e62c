"""Rules by which vendors refuse requests, from their own pages of November 2026: profile `2026`.

They share nothing with the table against which calls are checked before a run, so that a rehearsal
tests that table.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Endpoint: TypeAlias = Literal["chat", "responses", "messages"]

_ALWAYS_REASONING = re.compile(
    r"o[134](-|$)|gpt-5(-mini|-nano|-pro)?(-20|$)|gpt-6-astra|gpt-6\.1-sol"
)
_NONE_BY_DEFAULT = re.compile(r"gpt-5\.[1-4]")
_REASONING = re.compile(r"o[134](-|$)|gpt-5(?!-chat)|gpt-6")
_CHAT_TOOLS_WANT_NONE = re.compile(r"gpt-5\.[4-9]|gpt-6")
_CHAT_HAS_NO_TOOLS = re.compile(r"gpt-6-astra|gpt-6\.1-sol")
_MAX_EFFORT = re.compile(r"gpt-5\.[6-9]|gpt-6")
_XHIGH_EFFORT = re.compile(r"gpt-5\.[2-9]|gpt-6")
_NO_LONGER_SERVED = re.compile(
    r"gpt-4(-0613|-turbo.*)?$|gpt-3\.5-turbo|o1(-|$)|o3-mini|o4-mini|claude-3-|claude-2"
    r"|claude-(opus|sonnet)-4-(0|20250514)|claude-opus-4-1"
)
_NEVER_SAMPLING = re.compile(r"claude-(opus-4-[7-9]|opus-5|sonnet-5|haiku-5|fable-5|mythos-5)")
_THINKING_ALWAYS = re.compile(r"claude-(opus-5-5|fable-5|mythos-5)")
_ADAPTIVE = re.compile(r"claude-(opus-4-[7-9]|opus-5|sonnet-5|haiku-5|fable-5|mythos-5)")
_NO_PREFILL = re.compile(
    r"claude-(opus-4-[6-9]|sonnet-4-6|opus-5|sonnet-5|haiku-5|fable-5|mythos-5)"
)
_ENDS = {
    "2026-12-11": r"gpt-5(-mini|-nano)?(-20|$)|o3(-20|$)",
    "2027-01-14": r"gpt-4o(-mini)?(-20|$)|gpt-4\.1(-mini|-nano)?(-20|$)",
    "2026-11-30": r"claude-sonnet-4-5",
}
"""Retirement dates of models."""
_FREE_OF_SAMPLING = b"2026-10-21"


@dataclass(frozen=True, slots=True)
class VendorRefusal:
    """A vendor's refusal of a request."""

    status: int
    code: str
    message: str


def vendor_refusal(
    endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes
) -> VendorRefusal | None:
    """The refusal of a request by the vendor of its model; None if it is served.

    model: the vendor's name for it. head: request line and headers, as received.
    """
    if _NO_LONGER_SERVED.match(model):
        return VendorRefusal(404, "model_not_found", f"The model `{model}` does not exist")
    rules = _claude if endpoint == "messages" else _rules_of(model, head)
    for code, message in rules(endpoint, body, model, head):
        return VendorRefusal(422 if rules is _mistral else 400, code, message)
    return None


_Found: TypeAlias = Iterator[tuple[str, str]]


def _gpt(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    if not _REASONING.match(model):
        return
    told = body.get("reasoning") if endpoint == "responses" else None
    effort = told.get("effort") if told else body.get("reasoning_effort")
    always = bool(_ALWAYS_REASONING.match(model))
    takes = {"low", "medium", "high"}
    takes |= set() if always else {"none"}
    takes |= {"minimal"} if always and model.startswith("gpt-5") else set()
    takes |= {"xhigh"} if _XHIGH_EFFORT.match(model) else set()
    takes |= {"max"} if _MAX_EFFORT.match(model) else set()
    if effort is not None and effort not in takes:
        yield (
            "unsupported_value",
            f"Unsupported value: 'reasoning_effort' does not support '{effort}' with this model.",
        )
    unsupported = "Unsupported parameter: '{}' is not supported with this model."
    if endpoint == "chat" and "max_tokens" in body:
        instead = "Use 'max_completion_tokens' instead."
        yield "unsupported_parameter", f"{unsupported.format('max_tokens')} {instead}"
    if "stop" in body:
        yield "unsupported_parameter", unsupported.format("stop")
    silent = effort == "none" or (effort is None and bool(_NONE_BY_DEFAULT.match(model)))
    for name in ("temperature", "top_p", "logprobs", "top_logprobs"):
        if body.get(name) is not None and (always or not silent):
            yield "unsupported_parameter", unsupported.format(name)
    tools_on_chat = endpoint == "chat" and bool(body.get("tools"))
    picky = tools_on_chat and _CHAT_TOOLS_WANT_NONE.match(model)
    if picky and (_CHAT_HAS_NO_TOOLS.match(model) or not silent):
        yield (
            "unsupported_parameter",
            f"Function tools with reasoning_effort are not supported for {model} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set "
            "reasoning_effort to 'none'.",
        )


def _gemini(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    if len(_stops(body)) > 5:
        yield "INVALID_ARGUMENT", "stop_sequences: at most 5 are supported."
    if body.get("reasoning_effort") == "none" and not model.startswith("gemini-2.5-flash"):
        yield "INVALID_ARGUMENT", "Thinking cannot be disabled for this model."
    for message in body["messages"]:
        for asked in message.get("tool_calls") or ():
            if asked.get("extra_content") != thought_signature(asked["id"]):
                yield (
                    "INVALID_ARGUMENT",
                    "Function call is missing a thought_signature in functionCall parts.",
                )


def thought_signature(id: str) -> dict[str, Any]:
    """Extra content that Gemini attaches to a tool call, and requires when it is sent back."""
    return {"google": {"thought_signature": f"signed {id}"}}


def _grok(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    if "stop" in body:
        yield "invalid-argument", f"Model {model} does not support parameter stop."
    if body.get("reasoning_effort") == "none" and not model.startswith("grok-4.3"):
        yield "invalid-argument", f"Model {model} does not support parameter reasoningEffort: none."


_NOT_MISTRAL = ("logprobs", "top_logprobs", "reasoning_effort", "max_completion_tokens")


def _mistral(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    for name in ("seed", "top_k", "min_p", "service_tier", *_NOT_MISTRAL):
        if name in body:
            yield "extra_forbidden", f"Extra inputs are not permitted: body.{name}"
    if (body.get("temperature") or 0) > 1.5:
        yield "less_than_equal", "body.temperature: Input should be less than or equal to 1.5"


def _moonshot(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    fixed = model.startswith("kimi")
    if fixed and "top_p" in body:
        yield "invalid_request_error", "invalid top_p: it is fixed for this model"
    if "temperature" in body and (fixed or body["temperature"] > 1):
        yield "invalid_request_error", "invalid temperature: only 1 is allowed for this model"


def _deepseek(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    """Sampling parameters are accepted in thinking mode, without effect."""
    if (body.get("response_format") or {}).get("type") == "json_schema":
        yield "invalid_request_error", "This response_format type is unavailable now"


def _stops(body: dict[str, Any]) -> list[str]:
    stop = body.get("stop") or []
    return [stop] if isinstance(stop, str) else stop


def _groq(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    for name in ("logprobs", "top_logprobs"):
        if name in body:
            yield "invalid_request_error", f"property '{name}' is unsupported"


def _together(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    """`logprobs` is the number of candidates there, not a boolean."""
    if isinstance(body.get("logprobs"), bool):
        yield "invalid_request_error", "logprobs: expected an integer from 0 to 20"


_HOSTS = {b"groq": _groq, b"together": _together}
"""First path segment -> rules of a host of open-weight models, whose names do not tell the host."""
_HOST = re.compile(rb"[A-Z]+ /(\w+)/")
_VENDORS = (
    ("gemini-", _gemini),
    ("grok-", _grok),
    ("mistral-", _mistral),
    ("kimi-", _moonshot),
    ("moonshot-", _moonshot),
    ("deepseek-", _deepseek),
)
"""(prefix of model names, rules) of each vendor."""


def _rules_of(model: str, head: bytes) -> Callable[[Endpoint, dict[str, Any], str, bytes], _Found]:
    if (host := _HOST.match(head)) and host[1] in _HOSTS:
        return _HOSTS[host[1]]
    return next((rules for start, rules in _VENDORS if model.startswith(start)), _gpt)


def _claude(endpoint: Endpoint, body: dict[str, Any], model: str, head: bytes) -> _Found:
    thinking = (body.get("thinking") or {}).get("type")
    for name in ("temperature", "top_p", "top_k"):
        if name not in body:
            continue
        if _NEVER_SAMPLING.match(model) or _FREE_OF_SAMPLING in _version(head):
            yield "invalid_request_error", f"`{name}` is deprecated for this model."
        if thinking in ("enabled", "adaptive"):
            yield "invalid_request_error", f"`{name}` is not supported when thinking is enabled."
    if "temperature" in body and "top_p" in body:
        yield (
            "invalid_request_error",
            "`temperature` and `top_p` cannot both be specified for this model.",
        )
    if thinking == "disabled" and _THINKING_ALWAYS.match(model):
        yield "invalid_request_error", '"thinking.type.disabled" is not supported for this model.'
    if thinking == "enabled" and _ADAPTIVE.match(model):
        yield "invalid_request_error", '"thinking.type.enabled" is not supported for this model.'
    choice = (body.get("tool_choice") or {}).get("type")
    if choice in ("any", "tool") and _THINKING_ALWAYS.match(model):
        yield "invalid_request_error", "Forced tool use is not supported for this model."
    if body["messages"][-1]["role"] == "assistant" and _NO_PREFILL.match(model):
        yield "invalid_request_error", "Prefilling assistant messages is not supported."
    effort = (body.get("output_config") or {}).get("effort")
    if effort == "xhigh" and not _ADAPTIVE.match(model):
        yield "invalid_request_error", "effort 'xhigh' is not supported for this model."


def vendor_model(model: str, head: bytes) -> dict[str, Any] | None:
    """A model as described by its vendor's Models endpoint; None if there is no such model.

    head: request line and headers, by which Anthropic's clients are recognised.
    """
    if not _version(head):
        if not model.startswith(("gpt-", "o")) or _NO_LONGER_SERVED.match(model):
            return None
        ends = next((day for day, named in _ENDS.items() if re.match(named, model)), None)
        told = {"id": model, "object": "model", "created": 0, "owned_by": "openai"}
        return told | {"shutdown_date": ends}
    if not model.startswith("claude-"):
        return None
    retired = bool(_NO_LONGER_SERVED.match(model))
    ends = next((day for day, named in _ENDS.items() if re.match(named, model)), None)
    lifecycle = "retired" if retired else "deprecated" if ends else "active"
    adaptive, recent = bool(_ADAPTIVE.match(model)), bool(_NO_PREFILL.match(model))
    efforts = {"low": True, "medium": True, "high": True, "xhigh": adaptive, "max": recent}
    types = {
        "adaptive": recent,
        "between_tools": model.startswith("claude-sonnet-5-5"),
        "disabled": not _THINKING_ALWAYS.match(model),
        "enabled": not adaptive,
    }
    return {
        "id": model,
        "type": "model",
        "lifecycle": lifecycle,
        "retires_at": f"{ends}T00:00:00Z" if ends else None,
        "max_input_tokens": 1_000_000 if recent else 200_000,
        "max_tokens": 128_000 if recent else 64_000,
        "capabilities": {
            "effort": _support(efforts) | {"supported": True},
            "thinking": {"supported": True, "types": _support(types)},
            "structured_outputs": {"supported": True},
        },
    }


def _support(kinds: dict[str, bool]) -> dict[str, Any]:
    return {name: {"supported": there} for name, there in kinds.items()}


def _version(head: bytes) -> bytes:
    """Version of Anthropic's API in the headers of a request; empty if there is none."""
    found = re.search(rb"(?i)\r\nanthropic-version: *([^\r]*)", head)
    return found[1] if found else b""
