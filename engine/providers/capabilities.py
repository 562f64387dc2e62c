"""Parameters that each model accepts, the check of a call, and the days when models retire."""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

import orjson
from msgspec import convert

from ...cache.call import Call, Effort
from ...protocols.settings import PARAMETERS
from .settings import Api

RESPONSES_LEAST = 16
"""Smallest max_tokens that the responses endpoint accepts."""

MIN_THINKING = 1024
"""Smallest cap on thinking that a model with a token budget accepts."""

SAMPLING_FREE_VERSION = "2026-10-21"
"""The first version of Anthropic's API in which no model takes temperature or top_p."""

OWN_FIELDS = frozenset(
    (
        *("model", "messages", "input", "system", "stream", "n", "tools", "response_format"),
        *("temperature", "max_tokens", "max_completion_tokens", "max_output_tokens", *PARAMETERS),
    )
)
"""Fields of a body that a call's settings write, so `extra_body` must not set them."""

_EVERY_EFFORT: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class Abilities:
    """The parameters that a family of models accepts. The defaults are the most permissive."""

    match: tuple[str, ...] = ("*",)
    """Patterns of `provider/name`; `*` matches anything."""
    top_logprobs: int = 20
    """Maximum candidates reported per token; 0 without logprobs."""
    max_temperature: float = 2.0
    """0 where temperature is not accepted at all."""
    top_p: bool = True
    temperature_with_top_p: bool = True
    sampling_needs: tuple[Effort, ...] = (*_EVERY_EFFORT, "")
    """The efforts at which temperature, top_p, top_k and logprobs are accepted."""
    sampling_ignored: bool = False
    """Whether, at other efforts, they are silently ignored, not refused."""
    chat_tools_need: tuple[Effort, ...] = (*_EVERY_EFFORT, "")
    """The efforts at which the chat completions endpoint accepts tools; empty for none."""
    stop: int = 16
    """Maximum number of stop sequences; 0 where none are accepted."""
    top_k: bool = True
    min_p: bool = True
    seed: str = "seed"
    """Name of the field for a seed; empty where none is accepted."""
    service_tiers: tuple[str, ...] = ("*",)
    """The service tiers that are accepted; `*` stands for any."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """On the OpenAI wire, the name of the field that limits output tokens."""
    structured: bool = True
    """Whether a JSON schema can be enforced."""
    tools: bool = True
    efforts: tuple[Effort, ...] = _EVERY_EFFORT
    """Accepted effort levels, other than none at all."""
    thinking: Literal["", "budget", "adaptive", "toggle"] = ""
    """How effort is sent: on the Anthropic wire as a token budget or as a level (`adaptive`); on
    the OpenAI wire, `toggle` is for a separate field that switches thinking on and off."""
    thinking_off: Literal["disabled", "between_tools"] = "disabled"
    """On the Anthropic wire, the type of thinking that effort `none` asks for."""
    context: int = 0
    """Tokens of prompt and reply together; 0 if unknown."""
    max_output: int = 0
    """Maximum tokens of a reply; 0 if unknown."""
    characters_a_token: float = 4.0
    """Approximate value for English prose, used by plans until replies give a better one."""
    prompt_cache_minimum: int = 0
    """Minimum tokens of a prefix to be marked for the prompt cache; 0: none is marked."""
    assumed: str = ""
    """The assumption about models without an entry; empty if facts are known."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A parameter that a model does not accept, and the fix."""

    model: str
    parameter: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.model}: {self.parameter}: {self.reason}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint, API version and underlying model, on which the accepted parameters depend."""

    api: Api = "chat"
    version: str = ""
    """Dated version of the vendor's API, where it has several."""
    is_model: str = ""
    """The vendor's name of the model behind a user's name, such as a deployment."""


def default_endpoint(model: str) -> Endpoint:
    return Endpoint()


@lru_cache(maxsize=1024)
def abilities(model: str) -> Abilities:
    """The entry of `provider/name`: the first `family` and the first `parameters` that match it."""
    family, served = (
        next(row for row in rows if any(fnmatchcase(model, pattern) for pattern in row["match"]))
        for rows in map(_table().__getitem__, ("family", "parameters"))
    )
    return convert(served | family, Abilities)


def thinking_effort(effort: Effort, thinking_tokens: int | None) -> Effort:
    """The effort, or a stand-in for models that think because of a cap in tokens."""
    return effort or ("medium" if thinking_tokens else "")


def takes_temperature(model: str, effort: Effort, top_p: float | None, reach: Endpoint) -> bool:
    """Whether `provider/name` takes a temperature at this effort, together with this top_p."""
    able = reached_abilities(model, reach)
    alone = top_p is None or able.temperature_with_top_p
    return bool(able.max_temperature) and effort in able.sampling_needs and alone


def reached_abilities(model: str, reach: Endpoint) -> Abilities:
    """The abilities of a model at this endpoint and API version."""
    able = abilities(reach.is_model or model)
    if SAMPLING_FREE_VERSION <= reach.version < "A":  # the clouds' versions begin with a name
        able = replace(able, max_temperature=0.0, top_p=False)
    if reach.api == "responses":
        able = replace(able, stop=0, seed="", top_k=False, min_p=False)
        able = replace(able, chat_tools_need=(*_EVERY_EFFORT, ""))
    return able


def missing_abilities(call: Call, reach: Endpoint = Endpoint()) -> tuple[Unsupported, ...]:
    """Every parameter of `call` that its model does not accept, in the order of Call's fields."""
    able = reached_abilities(call.model, reach)
    lacks = [*_lacks(call, able)]
    if reach.api == "responses" and call.max_tokens < RESPONSES_LEAST:
        least = f"set at least {RESPONSES_LEAST}"
        too_few = f"over responses {call.max_tokens} is too low a limit"
        lacks.append(("max_tokens", too_few, f"{least}, or the provider's api: chat"))
    return tuple(Unsupported(call.model, *lack) for lack in lacks)


def _lacks(call: Call, able: Abilities) -> Iterator[tuple[str, str, str]]:
    if call.temperature is not None and not able.max_temperature:
        yield "temperature", "this model takes none", "leave it out: null"
    elif call.temperature is not None and call.temperature > able.max_temperature:
        most = f"{able.max_temperature:g}"
        yield "temperature", f"{call.temperature:g} is above {most}", f"set at most {most}"
    if not able.temperature_with_top_p and None not in (call.temperature, call.top_p):
        yield "top_p", "this model takes it or temperature, not both", "leave one of them out"
    request = call.request
    none = {"top_p": not able.top_p, "top_k": not (able.top_k and able.top_p)}
    none |= {"min_p": not able.min_p, "seed": not able.seed}
    for name in none:
        if none[name] and getattr(request, name) is not None:
            yield name, "this model takes none", "leave it out"
    if (tier := request.service_tier) and not {tier, "*"} & {*able.service_tiers}:
        takes = ", ".join(able.service_tiers)
        fix = f"leave it out, or choose of: {takes}" if takes else "leave it out"
        yield "service_tier", f"{tier!r} is not taken", fix
    if request.extra_body and (
        ours := sorted(OWN_FIELDS & orjson.loads(request.extra_body).keys())
    ):
        yield "extra_body", f"{ours[0]!r} is written by this program", "leave it out there"
    if able.max_output and call.max_tokens > able.max_output:
        most = f"{able.max_output}"
        yield "max_tokens", f"{call.max_tokens} is above {most}", f"set at most {most}"
    if len(call.stop) > able.stop:
        fix = f"give at most {able.stop}" if able.stop else "leave them out"
        yield "stop", f"{len(call.stop)} stop sequences, {able.stop} are taken", fix
    if call.tools and not able.tools:
        yield "tools", "this model uses none", "leave them out, or choose another model"
    elif call.tools and call.effort not in able.chat_tools_need:
        yield "tools", *_tools_lack(call, able)
    if call.response_format is not None and not able.structured:
        yield "response_format", "this model keeps to no JSON schema", "leave it out"
    if call.top_logprobs > able.top_logprobs:
        yield "top_logprobs", *_logprobs_lack(call, able)
    if request.thinking_tokens is not None:
        yield from _cap_lacks(call, able)
    if call.effort and call.effort not in able.efforts:
        takes = ", ".join(able.efforts)
        fix = f"leave it out, or choose of: {takes}" if takes else "leave it out"
        yield "effort", f"{call.effort!r} is not taken", fix
    samples = (call.temperature, call.top_p, request.top_k, call.top_logprobs or None)
    effort = thinking_effort(call.effort, request.thinking_tokens)
    if samples != (None,) * 4 and effort not in able.sampling_needs:
        needs, now = _either(able.sampling_needs), _either((effort,))
        reason = f"{_SAMPLING} need it {needs}, not {now}"
        if able.sampling_ignored:
            reason = f"at effort {now} {_SAMPLING} are taken and have no effect"
        yield "effort", reason, f"set {needs}, or leave them out"


def _cap_lacks(call: Call, able: Abilities) -> Iterator[tuple[str, str, str]]:
    """The reasons why a call cannot have its cap on thinking."""
    cap = call.request.thinking_tokens or 0
    if able.thinking != "budget":
        fix = "set effort, or extra_body for your own server"
        yield "thinking_tokens", "this model takes an effort and no cap in tokens", fix
    elif call.effort:
        yield "thinking_tokens", "effort and this cap are one field", "leave one of them out"
    elif cap < MIN_THINKING:
        yield "thinking_tokens", f"{cap} is below {MIN_THINKING}", f"set at least {MIN_THINKING}"
    elif cap >= call.max_tokens:
        fix = f"set reasoning_tokens to {cap} or more, or a lower cap"
        yield "thinking_tokens", f"{cap} is not below max_tokens, {call.max_tokens}", fix


_SAMPLING = "temperature, top_p, top_k and logprobs"
_BY_RESPONSES = "set the provider's api: auto or responses"


def _either(efforts: Iterable[Effort]) -> str:
    return " or ".join(repr(effort) if effort else "unset" for effort in efforts)


def _tools_lack(call: Call, able: Abilities) -> tuple[str, str]:
    if not able.chat_tools_need:
        reason = "this model calls no tools over chat completions"
        return reason, f"{_BY_RESPONSES}, leave them out, or choose another model"
    needs = _either(able.chat_tools_need)
    now = _either((call.effort,))
    reason = f"over chat completions they need effort {needs}, not {now}"
    return reason, f"{_BY_RESPONSES}, or effort {needs}"


def _logprobs_lack(call: Call, able: Abilities) -> tuple[str, str]:
    if able.top_logprobs:
        return f"{call.top_logprobs} is above {able.top_logprobs}", f"set {able.top_logprobs}"
    return "this model reports no logprobs", "judge by stated probabilities or votes"


@lru_cache(maxsize=1)
def _table() -> dict[str, list[dict[str, Any]]]:
    source = files(__package__).joinpath("capabilities.toml").read_text(encoding="utf-8")
    return tomllib.loads(source)


NOTICE = 60
"""Users are warned from this many days before a retirement."""


@dataclass(frozen=True, slots=True)
class Retirement:
    model: str
    """`provider/name`, as the user writes it."""
    day: date
    """The first day without service."""

    def past(self, today: date) -> bool:
        return today >= self.day

    def near(self, today: date) -> bool:
        """Whether the day is at most `NOTICE` days ahead."""
        return 0 < (self.day - today).days <= NOTICE

    def __str__(self) -> str:
        stops = "stopped" if self.past(today()) else "stops"
        return f"{self.model}: its vendor {stops} serving it on {self.day}"


def today() -> date:
    """Today by this machine's clock; date.min if the clock is outside the calendar's range."""
    try:
        return date.today()
    except (ValueError, OverflowError):
        return date.min


@lru_cache(maxsize=1024)
def retirement(model: str) -> Retirement | None:
    """The retirement of `provider/name`; None if its vendor has announced none. Covers vendors' own
    endpoints only: clouds that resell a model set their own dates."""
    vendor, _, name = model.partition("/")
    days = [day for day, pattern in _retirements().get(vendor, ()) if fnmatchcase(name, pattern)]
    return Retirement(model, min(days)) if days else None


@lru_cache(maxsize=1)
def _retirements() -> dict[str, tuple[tuple[date, str], ...]]:
    source = files(__package__).joinpath("retirements.toml").read_text(encoding="utf-8")
    vendors: dict[str, dict[str, list[str]]] = tomllib.loads(source)
    return {
        vendor: tuple(
            (date.fromisoformat(day), name) for day, names in days.items() for name in names
        )
        for vendor, days in vendors.items()
    }
