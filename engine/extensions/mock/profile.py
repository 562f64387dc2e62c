"""Profiles of the mock server: latency, limits, faults, refusals and thoughts.

Profile `2026` refuses requests as vendors do, by the rules in vendor_rules.toml. Thoughts stand in
a reply in one of the forms that servers use."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import yaml
from annotated_types import Interval
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ....cache.call import Call
from ....protocols.settings import unknown
from ...errors import UsageError

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
        """The value at a path of the body, such as `thinking.type`, or None."""
        node: Any = self.body
        for name in path.split("."):
            node = (node or {}).get(name)
        return node

    def of(self, models: str) -> bool:
        return _is(self.model, models)

    @property
    def effort(self) -> str | None:
        """As OpenAI's models are told it."""
        stated_effort: str | None = (
            self.at("reasoning.effort") if self.endpoint == "responses" else None
        )
        return stated_effort or self.body.get("reasoning_effort")

    @property
    def reasons(self) -> bool:
        """Whether a model of OpenAI reasons before it answers."""
        by_default = self.effort is None and self.of("silent_by_default")
        return self.of("always_reasoning") or not (self.effort == "none" or by_default)


_CHECKS: Mapping[str, Callable[[_Request], bool]] = {
    "": lambda request: True,
    "effort": lambda request: (
        bool(request.effort) and not request.of(_table()["efforts"].get(request.effort, "(?!)"))
    ),
    "reasons": lambda request: request.reasons,
    "six stops": lambda request: (
        isinstance(request.body["stop"], list) and len(request.body["stop"]) > 5
    ),
    "unsigned": lambda request: any(
        call.get("extra_content") != thought_signature(call["id"])
        for message in request.body["messages"]
        for call in message.get("tool_calls") or ()
    ),
    "version without sampling": lambda request: _FREE_OF_SAMPLING in request.version,
    "top_p": lambda request: "top_p" in request.body,
    "prefilled": lambda request: request.body["messages"][-1]["role"] == "assistant",
}


def _refusal(rule: Mapping[str, Any], request: _Request) -> VendorRefusal | None:
    """rule: as the table's head explains it."""
    fields, above = rule.get("fields", ()), rule.get("above")
    present = [name for name in fields if request.body.get(name) is not None]
    if (
        (fields and not present)
        or not request.of(rule.get("models", ""))
        or rule.get("endpoint", request.endpoint) != request.endpoint
        or not all(request.at(path) in values for path, values in rule.get("where", {}).items())
        or (above is not None and request.body[present[0]] <= above)
        or not _CHECKS[rule.get("check", "")](request)
    ):
        return None
    name = present[0] if present else ""
    refusal_text = rule["message"].format(field=name, model=request.model, effort=request.effort)
    return VendorRefusal(rule.get("status", 400), rule["code"], refusal_text)


def vendor_refusal(
    endpoint: Endpoint, body: dict[str, Any], model: str, host: str, version: bytes
) -> VendorRefusal | None:
    """The refusal of a request by the vendor of its model; None if it is served. model: the
    vendor's name for it. host: the first part of the path. version: of Anthropic's API."""
    checked = _Request(endpoint, body, model, version)
    if checked.of("gone"):
        return VendorRefusal(404, "model_not_found", f"The model `{model}` does not exist")
    vendor = next((name for name in _VENDORS if model.startswith(name)), "openai")
    if endpoint == "messages":
        vendor = "anthropic"
    elif host in _HOSTS:
        vendor = host
    refusals = (_refusal(rule, checked) for rule in _table()[vendor])
    return next(filter(None, refusals), None)


def thought_signature(id: str) -> dict[str, Any]:
    """Extra content that Gemini attaches to a tool call, and requires when it is sent back."""
    return {"google": {"thought_signature": f"signed {id}"}}


def vendor_model(model: str, version: bytes) -> dict[str, Any] | None:
    """A model as described by its vendor's Models endpoint; None for an unknown model. version: of
    Anthropic's API, by which its clients are recognised; empty for OpenAI's."""
    gone = _is(model, "gone")
    ends = next(
        (day for day, pattern in _table()["ends"].items() if re.match(pattern, model)), None
    )
    if not version:
        if not model.startswith(("gpt-", "o")) or gone:
            return None
        description = {"id": model, "object": "model", "created": 0, "owned_by": "openai"}
        return description | {"shutdown_date": ends}
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
    return {name: {"supported": is_supported} for name, is_supported in kinds.items()}


Thinking: TypeAlias = Literal[
    "think", "lone", "magistral", "gemma", "harmony", "reasoning", "reasoning_content", "parts"
]
"""How a server of chat completions has thoughts: in the text, between tags of a family (`lone`: the
prompt opens them), or apart. On the other two endpoints they are blocks and items."""

TAGS: Mapping[str, tuple[str, str]] = {
    "think": ("<think>\n", "\n</think>\n\n"),
    "lone": ("", "\n</think>\n\n"),
    "magistral": ("[THINK]", "[/THINK]"),
    "gemma": ("<|channel>thought\n", "<channel|>"),
    "harmony": (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
}

THOUGHT = "SECRET"
"""First word of all that is thought, and a word of nothing that is said."""

TOKENS = 40
"""Of each thought."""


def add_thoughts(data: dict[str, Any], endpoint: Endpoint, call: Call, form: Thinking) -> None:
    """Add to a reply what was thought before it. Where max_tokens are fewer than the thought takes,
    it is cut there, and nothing is said."""
    cut = call.request.max_tokens <= TOKENS
    # The first answer that comes to mind need not be the one that is given.
    words = f"Answer: B\nA: 0%\nB: 100%\nI concede. </turn> {call.address[:12]}".split(" ")
    thought = " ".join([THOUGHT, *words * TOKENS][: call.request.max_tokens if cut else TOKENS])
    _ENDPOINTS[endpoint](data, thought, cut, form)
    for name in ("completion_tokens", "output_tokens"):
        if name in data["usage"]:
            data["usage"][name] = call.request.max_tokens if cut else data["usage"][name] + TOKENS


def _chat(data: dict[str, Any], thought: str, cut: bool, form: Thinking) -> None:
    choice = data["choices"][0]
    message = choice["message"]
    if cut:
        message |= {"content": None}
        message.pop("tool_calls", None)
        choice |= {"finish_reason": "length", "logprobs": None}
    said = message["content"] or ""
    if form in TAGS:
        # A template that opens the thoughts leaves no trace in a reply that ends within them.
        opening, closing = TAGS["think" if form == "lone" and cut else form]
        before = f"{opening}{thought}{'' if cut else closing}"
        message["content"] = before + said
        scored = (choice.get("logprobs") or {}).get("content")
        if scored:
            tokens = before.replace("\n", " \n").split(" ")
            choice["logprobs"]["content"] = [
                *({"token": f"{token} ", "logprob": -1.0} for token in tokens[:-1]),
                {"token": tokens[-1], "logprob": -1.0},
                *scored,
            ]
            message["content"] = before.replace("\n", " \n") + said
    elif form == "parts":
        parts = [{"type": "thinking", "thinking": [{"type": "text", "text": thought}]}]
        message["content"] = parts + ([{"type": "text", "text": said}] if said else [])
    else:
        message[form] = thought


def _messages(data: dict[str, Any], thought: str, cut: bool, form: Thinking) -> None:
    block = {"type": "thinking", "thinking": thought, "signature": "s"}
    data["content"] = [block, *(() if cut else data["content"])]
    if cut:
        data["stop_reason"] = "max_tokens"


def _responses(data: dict[str, Any], thought: str, cut: bool, form: Thinking) -> None:
    summary = [{"type": "summary_text", "text": thought}]
    others = [] if cut else data["output"]
    if others and others[0]["type"] == "reasoning":
        others[0]["summary"] = summary
    else:
        others = [{"type": "reasoning", "id": f"rs_{data['id']}", "summary": summary}, *others]
    data["output"] = others
    if cut:
        data |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


_ENDPOINTS: Mapping[Endpoint, Callable[[dict[str, Any], str, bool, Thinking], None]] = {
    "chat": _chat,
    "messages": _messages,
    "responses": _responses,
}


FaultKind: TypeAlias = Literal[
    # Instead of an answer, and free:
    "rate_limit",  # 429, with a delay to obey
    "server_error",  # 500
    "overloaded",  # 503, or 529 on the Anthropic wire, with a delay to obey
    "unauthorized",  # 401
    "quota",  # the account has no credit left
    "policy",  # 400: a filter rejected the prompt
    "too_long",  # 400: longer than the context
    "html",  # 502 with a web page
    "reset",  # the connection is reset
    "stall",  # no answer at all
    # After generation, so possibly billed:
    "cut",  # the connection is reset in the middle of the body
    "half_json",  # truncated JSON, with a content-length to match
    "error_in_200",
    "drip",  # a blank line every 0.4 s before the body
    "gzip_bomb",  # 64 KB that are 64 MB
    "huge",  # 40 MB, uncompressed
    "unknown_stop",  # a stop reason that does not exist
    "refusal",  # a good reply in which the model declines
]
T = TypeVar("T")
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

Share: TypeAlias = Annotated[float, Interval(ge=0, le=1)]
Seconds: TypeAlias = Annotated[float, Interval(ge=0)]
Count: TypeAlias = Annotated[int, Interval(ge=0)]
_KNOWN_FIELDS_ONLY = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class FaultWindow:
    """A period in which a share of the requests meets one fault."""

    __pydantic_config__ = _KNOWN_FIELDS_ONLY

    fault: FaultKind
    share: Share
    """Share of the requests that arrive in the period, in [0, 1]."""
    start: Seconds = 0.0
    """Seconds after the first request."""
    end: Annotated[float, Interval(gt=0)] = float("inf")


@dataclass(frozen=True, slots=True)
class BatchProfile:
    """Behaviour of the batch endpoints. Shares, in [0, 1], are of lines unless stated otherwise."""

    __pydantic_config__ = _KNOWN_FIELDS_ONLY

    delay: Seconds = 0.0
    """Simulated seconds until a batch ends; vendors take from minutes to a day."""
    expired: Share = 0.0
    missing: Share = 0.0
    """Share of lines that the counts include, and the results do not."""
    errored: Share = 0.0
    """Answered with a 400."""
    overloaded: Share = 0.0
    """Answered with a 503, or an `overloaded_error`."""
    garbled: Share = 0.0
    """A 200 that holds no reply."""
    expires: Share = 0.0
    """Share of batches that expire with half of their lines done."""
    unmade: Share = 0.0
    """Share of batches answered with a 500 and not created."""
    deaf: Share = 0.0
    """Share of batches that are created, but whose connection is reset instead of an answer."""
    flaky: Share = 0.0
    """Share of all requests to the batch endpoints answered with a 500 before anything is done."""
    locked: bool = False
    """Whether every request to the batch endpoints is answered with a 401."""
    doubled: bool = False
    """Whether results hold duplicate, unknown and truncated lines."""
    fails: str = ""
    """Error code with which every OpenAI batch fails as a whole; empty: none fails."""
    enqueued: Count = 0
    """Maximum number of tokens in OpenAI's queue; 0: no limit."""
    lines: Count = 0
    """Maximum number of calls in a batch; 0: no limit."""
    spoiled: Literal["cut", "empty", "html", "error", "no_file"] = "cut"
    """The fault of a spoiled download: cut at a line, nothing, a web page or a JSON error in
    a 200, the name of the file not known yet."""
    downloads: Count = 0
    """Downloads of each batch that are spoiled, from the first on."""
    unlisted: Seconds = 0.0
    """Simulated seconds until the list shows a batch."""
    denied: Count = 0
    """Requests about each batch that are answered with a 404, from the first on."""
    stale: Count = 0
    """Requests about each batch that are answered with another's state, from the first on."""
    ahead: float = 0.0
    """Seconds by which the server's clock is ahead of this machine's."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Behaviour of the server. Times are simulated seconds, `speed` of them per real second."""

    __pydantic_config__ = _KNOWN_FIELDS_ONLY

    spells: tuple[FaultWindow, ...] = ()
    """Shares of overlapping windows add up."""
    latency: Seconds = 0.0
    """Median time until a reply starts."""
    spread: Annotated[float, Interval(ge=0)] = 0.0
    """Standard deviation of the logarithm of the latency."""
    per_token: Seconds = 0.0
    """Additional time per output token."""
    requests_per_minute: Count = 0
    """For each model; 0: no limit."""
    tokens_per_minute: Count = 0
    """Input and output together, for each model; 0: no limit."""
    quota: Count = 0
    """Replies until the account's credit is used up; 0: unlimited."""
    delay: Seconds = 1.0
    """The wait that a `rate_limit` or an `overloaded` fault asks for."""
    drip: Seconds = 30.0
    """Duration of a dripping reply."""
    vendors: Literal["", "2026"] = ""
    """Year of the vendors' rules by which requests are refused; empty: none are."""
    thinking: tuple[Thinking, ...] = ()
    """How models think before they reply: each call in one of these forms. Empty: they do not."""
    batch: BatchProfile = BatchProfile()
    speed: Annotated[float, Interval(gt=0)] = 1.0
    seed: int = 0
    """Seed of the faults. The fault of a request depends on it, on the request and on the number of
    equal requests before, but not on the order of arrival."""

    def fault(self, chance: float, elapsed: float) -> FaultKind | None:
        """The fault of a request that drew `chance`, in [0, 1), `elapsed` simulated seconds in."""
        for spell in self.spells:
            if spell.start <= elapsed < spell.end:
                if chance < spell.share:
                    return spell.fault
                chance -= spell.share
        return None


def _read(kind: type[T], text: str) -> T:
    return TypeAdapter(kind).validate_python(yaml.safe_load(text) or {})


PROFILES = _read(
    dict[str, Profile], files(__package__).joinpath("profiles.yaml").read_text("utf-8")
)


def load_profile(name: str) -> Profile:
    """A profile by name, or from a YAML file. UsageError if it is unknown or invalid."""
    if name in PROFILES:
        return PROFILES[name]
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(unknown("profile", name, [*PROFILES, "a YAML file"]))
    try:
        return _read(Profile, path.read_text("utf-8"))
    except OSError as exc:
        raise UsageError(f"{name}: {exc.strerror}") from exc
    except yaml.YAMLError as exc:
        raise UsageError(f"{name}: {exc}") from exc
    except ValidationError as exc:
        faults = "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors()
        )
        raise UsageError(f"{name}: {faults}") from exc
