"""Whether a vendor would refuse a request, by the rules in vendor_rules.toml: profile `2026`."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

Endpoint: TypeAlias = Literal["chat", "responses", "messages"]

_HOSTS = ("groq", "together")
"""Hosts of open-weight models, whose names do not tell the host; the path's first part does."""
_VENDORS = ("gemini", "grok", "mistral", "kimi", "moonshot", "deepseek")
"""Vendors whose models' names begin with theirs."""
_FREE_OF_SAMPLING = b"2026-10-21"
"""Version of Anthropic's API from which no model samples as it is told."""


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("vendor_rules.toml").read_text("utf-8"))


def _is(model: str, models: str) -> bool:
    """models: a name in the table, or the beginning of names."""
    return re.match(_table()["models"].get(models, models), model) is not None


class VendorRefusal(NamedTuple):
    """A vendor's refusal of a request."""

    status: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class _Request:
    endpoint: Endpoint
    body: dict[str, Any]
    model: str
    version: bytes

    def at(self, path: str) -> Any:
        """What stands at a path of the body, such as `thinking.type`; None if nothing does."""
        found: Any = self.body
        for name in path.split("."):
            found = (found or {}).get(name)
        return found

    def of(self, models: str) -> bool:
        return _is(self.model, models)

    @property
    def effort(self) -> str | None:
        """As OpenAI's models are told it."""
        told: str | None = self.at("reasoning.effort") if self.endpoint == "responses" else None
        return told or self.body.get("reasoning_effort")

    @property
    def reasons(self) -> bool:
        """Whether a model of OpenAI reasons before it answers."""
        by_default = self.effort is None and self.of("silent_by_default")
        return self.of("always_reasoning") or not (self.effort == "none" or by_default)


_CHECKS: Mapping[str, Callable[[_Request], bool]] = {
    "": lambda asked: True,
    "effort": lambda asked: (
        bool(asked.effort) and not asked.of(_table()["efforts"].get(asked.effort, "(?!)"))
    ),
    "reasons": lambda asked: asked.reasons,
    "six stops": lambda asked: isinstance(asked.body["stop"], list) and len(asked.body["stop"]) > 5,
    "unsigned": lambda asked: any(
        call.get("extra_content") != thought_signature(call["id"])
        for message in asked.body["messages"]
        for call in message.get("tool_calls") or ()
    ),
    "version without sampling": lambda asked: _FREE_OF_SAMPLING in asked.version,
    "top_p": lambda asked: "top_p" in asked.body,
    "prefilled": lambda asked: asked.body["messages"][-1]["role"] == "assistant",
}


def _refusal(rule: Mapping[str, Any], asked: _Request) -> VendorRefusal | None:
    """rule: as the table's head explains it."""
    fields, above = rule.get("fields", ()), rule.get("above")
    there = [name for name in fields if asked.body.get(name) is not None]
    if (
        (fields and not there)
        or not asked.of(rule.get("models", ""))
        or rule.get("endpoint", asked.endpoint) != asked.endpoint
        or not all(asked.at(path) in values for path, values in rule.get("where", {}).items())
        or (above is not None and asked.body[there[0]] <= above)
        or not _CHECKS[rule.get("check", "")](asked)
    ):
        return None
    name = there[0] if there else ""
    told = rule["message"].format(field=name, model=asked.model, effort=asked.effort)
    return VendorRefusal(rule.get("status", 400), rule["code"], told)


def vendor_refusal(
    endpoint: Endpoint, body: dict[str, Any], model: str, host: str, version: bytes
) -> VendorRefusal | None:
    """The refusal of a request by the vendor of its model; None if it is served.

    model: the vendor's name for it. host: the first part of the path. version: of Anthropic's API.
    """
    asked = _Request(endpoint, body, model, version)
    if asked.of("gone"):
        return VendorRefusal(404, "model_not_found", f"The model `{model}` does not exist")
    vendor = next((name for name in _VENDORS if model.startswith(name)), "openai")
    if endpoint == "messages":
        vendor = "anthropic"
    elif host in _HOSTS:
        vendor = host
    refusals = (_refusal(rule, asked) for rule in _table()[vendor])
    return next(filter(None, refusals), None)


def thought_signature(id: str) -> dict[str, Any]:
    """Extra content that Gemini attaches to a tool call, and requires when it is sent back."""
    return {"google": {"thought_signature": f"signed {id}"}}


def vendor_model(model: str, version: bytes) -> dict[str, Any] | None:
    """A model as described by its vendor's Models endpoint; None if there is no such model.

    version: of Anthropic's API, by which its clients are recognised; empty for OpenAI's.
    """
    gone = _is(model, "gone")
    ends = next((day for day, named in _table()["ends"].items() if re.match(named, model)), None)
    if not version:
        if not model.startswith(("gpt-", "o")) or gone:
            return None
        told = {"id": model, "object": "model", "created": 0, "owned_by": "openai"}
        return told | {"shutdown_date": ends}
    if not model.startswith("claude-"):
        return None
    adaptive, recent = _is(model, "adaptive"), _is(model, "no_prefill")
    efforts = {"low": True, "medium": True, "high": True, "xhigh": adaptive, "max": recent}
    types = {
        "adaptive": recent,
        "between_tools": model.startswith("claude-sonnet-5-5"),
        "disabled": not _is(model, "thinking_always"),
        "enabled": not adaptive,
    }
    return {
        "id": model,
        "type": "model",
        "lifecycle": "retired" if gone else "deprecated" if ends else "active",
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
