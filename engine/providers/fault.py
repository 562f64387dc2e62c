"""Error answers of providers, and the errors of ours that they become by `faults.toml`.

Also limits and waits in headers."""

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from ...cache.normalize import MAX_TEXT, words
from ...cache.reply import Reply
from ..errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    EngineError,
    ExceedsRateLimit,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    Overloaded,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    UnknownFault,
)
from .payload import body_start, loaded

Meaning: TypeAlias = Literal[
    "key", "quota", "rate", "exceeds_rate", "too_long", "declined",
    "setting", "model", "address", "proxy", "overloaded", "unknown",
]  # fmt: skip
StopMeaning: TypeAlias = Literal["end", "cut", "declined", "interrupted"]
Phrase: TypeAlias = tuple[str, ...]
"""Parts of a phrase, in the order in which a text has them."""

MAX_VALUES = 300
"""Values of a body that are read. Vendors' bodies may hold anything."""
MAX_LINES = 20
"""Messages, and codes, of a body that are read."""
GAP = 80
"""Maximum characters between two parts of a phrase."""


def phrase(text: str) -> Phrase:
    """A phrase of the table. Each part starts a word, except in scripts without spaces."""
    return tuple(f" {part}" if part.isascii() else part for part in text.split(" * "))


def has_phrase(text: str, parts: Phrase) -> bool:
    """Whether a text of `words` has the parts in order, each at most GAP after the previous one."""
    first, *more = parts
    start = text.find(first)
    while start >= 0 and more:
        remainder = text[start + len(first) :][: GAP + len(more[0])]
        if has_phrase(remainder, tuple(more)):
            return True
        start = text.find(first, start + 1)
    return start >= 0


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule, with the conditions that the head of the table explains."""

    means: Meaning
    vendor: tuple[str, ...] = ()
    own: bool = False
    status: tuple[int | str, ...] = ()
    says: tuple[str, ...] = ()
    at: str = ""
    has: tuple[str, ...] = ()
    param: bool = False
    over: tuple[str, ...] = ()
    retry: bool = False
    fix: str = ""
    call: bool = False


class WaitPlace(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a wait is stated: a header, a key of the body, or text after certain words."""

    kind: Literal["retry", "reset"] = "retry"
    header: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    unit: Literal["s", "ms"] = "s"


class FaultTable(Struct, frozen=True, forbid_unknown_fields=True):
    fault: tuple[Rule, ...]
    wait: tuple[WaitPlace, ...]
    places: dict[str, tuple[str, ...]]
    settings: dict[str, tuple[str, ...]]
    fix: dict[str, str]
    stop: dict[StopMeaning, tuple[str, ...]]


@cache
def table() -> FaultTable:
    data = tomllib.loads(files(__package__).joinpath("faults.toml").read_text("utf-8"))
    return convert(data, FaultTable)


@cache
def _rules() -> list[tuple[Rule, tuple[Phrase, ...]]]:
    return [(rule, tuple(map(phrase, rule.says))) for rule in table().fault]


@cache
def _stops() -> dict[str, StopMeaning]:
    return {reason: means for means, reasons in table().stop.items() for reason in reasons}


@cache
def stop_meaning(reason: str) -> StopMeaning | None:
    head = words(reason.partition(":")[0])
    for prefix in ("finish ", "stop ", "reason "):
        if head not in _stops():
            head = head.removeprefix(prefix)
    return _stops().get(head)


class FaultEvidence:
    """An error answer, prepared for the rules."""

    def __init__(
        self, vendors: frozenset[str], own: bool, status: int, headers: Mapping[str, str], body: Any
    ) -> None:
        """vendors: the provider, in lower case. body: parsed JSON, else its text."""
        self.own = own
        self.status = status
        self.headers = headers
        self.pairs = [*values(body, "replies" if status == 200 else "")]
        names = [value for key, value in self.pairs if key in table().places["upstream"]]
        upstream = {part for name in names for part in (words(name), words(name).partition(" ")[0])}
        self.vendors = vendors | upstream

    def at(self, keys: tuple[str, ...]) -> list[str]:
        """The values of these keys, in the order of the keys."""
        return [value for name in keys for key, value in self.pairs if key == name and value]

    @cached_property
    def codes(self) -> list[str]:
        """Informative codes: not `error`, and not a repeated status."""
        codes = self.at(table().places["codes"])
        return [code for code in codes if code not in ("error", "None") and not code.isdecimal()]

    @cached_property
    def statuses(self) -> list[int]:
        """The statuses in the body, the outermost first."""
        numbers = (value for key, value in self.pairs if key in ("code", "status"))
        return [int(n) for n in numbers if len(n) == 3 and n.isascii() and n.isdecimal()]

    @cached_property
    def messages(self) -> list[str]:
        """The messages in the order of the body, without repetitions."""
        lines: list[str] = []
        for key, value in self.pairs:
            line = " ".join(value.split()) if key in table().places["messages"] else ""
            if line and len(lines) < MAX_LINES and not any(line in other for other in lines):
                lines.append(line)
        return lines

    @cached_property
    def text(self) -> str:
        headers = filter(None, map(self.headers.get, table().places["headers"]))
        return "\n".join(
            f" {words(line)}" for line in (*self.messages, *self.codes[:MAX_LINES], *headers)
        )

    @cached_property
    def param(self) -> bool:
        settings = table().settings
        params = {param.strip("`'\" ") for param in self.at(table().places["params"])}
        if not params.isdisjoint((*settings["words"], *settings["params"])):
            return True
        return any(f" {words(setting)}" in self.text for setting in settings["words"])

    @cached_property
    def waits(self) -> dict[str, float]:
        """Seconds to wait by kind, as far as stated."""
        waits: dict[str, float] = {}
        for place in table().wait:
            for seconds in filter(None, self._stated(place)):
                waits.setdefault(place.kind, seconds)
        return waits

    def _stated(self, place: WaitPlace) -> Iterator[float | None]:
        for name in place.header:
            if "*" in name:
                yield spent_resets(
                    [header for header in self.headers if fnmatchcase(header, name)], self.headers
                )
            else:
                yield stated_seconds(self.headers.get(name, ""), self.headers, place.unit)
        for value in self.at(place.key):
            yield stated_seconds(value, self.headers, place.unit)
        for message in self.messages if place.says else ():
            for announcement in place.says:
                _, match, remainder = message[:MAX_TEXT].casefold().partition(announcement)
                if match:
                    yield stated_seconds(remainder, self.headers, within=True)

    def _over(self, first: str, second: str) -> bool:
        limit, amount = (_number_behind(self.text, word) for word in (first, second))
        return limit is not None and amount is not None and amount > limit

    def _holds(self, rule: Rule, phrases: tuple[Phrase, ...], status: int) -> bool:
        if rule.status and not (status in rule.status or f"{status // 100}xx" in rule.status):
            return False
        if (rule.own and not self.own) or (rule.vendor and self.vendors.isdisjoint(rule.vendor)):
            return False
        if rule.says:
            text = self.text
            if rule.at:
                text = "\n".join(f" {words(value)}" for value in self.at((rule.at,)))
            if not any(parts[0] in text and has_phrase(text, parts) for parts in phrases):
                return False
        return not (
            (rule.has and all(key not in rule.has for key, _ in self.pairs))
            or (rule.param and not self.param)
            or (rule.over and not self._over(*rule.over))
            or (rule.retry and "retry" not in self.waits)
        )

    def rule(self) -> Rule | None:
        """The first rule that holds for the answer's status, else for a status in its body."""
        for status in (self.status, *self.statuses):
            for rule, phrases in _rules():
                if self._holds(rule, phrases, status):
                    return rule
        return None


def values(body: Any, more: str = "") -> Iterator[tuple[str, str]]:
    """(key, value) of a body in order; the texts of a list have its key. Text that is JSON is read
    too, such as the upstream's answer in `metadata.raw`. more: list of further keys to skip."""
    skipped = table().places["skipped"] + table().places.get(more, ())
    waiting, remaining = [("message", body, 0)], MAX_VALUES
    while waiting and remaining:
        key, value, depth = waiting.pop()
        remaining -= 1
        match value:
            case dict() | list() if depth > 20:
                continue
            case dict():
                yield key, ""
                inner = [(_key(name), part, depth + 1) for name, part in value.items()]
                waiting += [pair for pair in reversed(inner) if pair[0] not in skipped]
            case list():
                yield key, ""
                waiting += [(key, part, depth + 1) for part in reversed(value[:MAX_VALUES])]
            case str() if value[:1] in ("{", "[") and not (read := loaded(value.encode()))[1]:
                waiting.append((key, read[0], depth + 1))
            case str():
                yield key, value[:MAX_TEXT]
            case bool() | None:
                yield key, ""
            case _:
                yield key, str(value)[:MAX_TEXT]


def _key(name: Any) -> str:
    return str(name)[:MAX_TEXT].casefold().replace("_", "").replace("-", "")


def _number_behind(text: str, word: str) -> int | None:
    """The first number directly after a word."""
    for remainder in text.split(f" {word} ")[1:]:
        number = remainder[:20].partition(" ")[0].partition("\n")[0]
        if number.isascii() and number.isdecimal():
            return int(number)
    return None


_UNITS = {
    **dict.fromkeys(("us", "µs"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", ""), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_STEP = re.compile(
    r"(\d++(?:\.\d++)?+)(?: ?+("
    + "|".join(sorted(filter(None, _UNITS), key=len, reverse=True))
    + r")(?![a-z])|(?! ?[a-z]|[-/:]\d))(?:,? and |, ?| )?"
)
_FILLERS = ("for", "at", "least", "about", "another", "approximately", "in", "after", "on", "until")
_LOOKED_AT = 100
"""Characters read after the words that announce a wait."""
_EPOCH = 1e9
"""Seconds since 1970. A larger number is an instant."""
_TRUSTED = 86_400.0
"""Seconds from now up to which an instant is trusted without the server's clock."""

_DURATIONS, _INSTANTS = "x-ratelimit-{what}-{kind}", "anthropic-ratelimit-{kind}-{what}"
_STATED = {
    "requests": (_DURATIONS, _INSTANTS),
    "tokens": (_DURATIONS, _INSTANTS),
    "input-tokens": (_INSTANTS,),
    "output-tokens": (_INSTANTS,),
}
"""By kind of limit, the names of its headers: OpenAI's, whose resets are durations (`1m30s`), and
Anthropic's, whose resets are RFC 3339 instants."""
LIMIT_HEADERS = tuple(
    form.format(what="limit", kind=kind) for kind, forms in _STATED.items() for form in forms
)
"""Headers with the allowed amount per minute; the others vary by the call."""

LONGEST = 10 * 366 * 86400.0
"""Maximum delay in seconds: ten years, since dates overflow with the largest numbers."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """One rate limit, and how much of it is left."""

    limit: int | None = None
    """Units per minute; None if unstated."""
    remaining: int | None = None
    reset: float | None = None
    """Seconds until all of `limit` is available again."""


@dataclass(frozen=True, slots=True)
class HeaderLimits:
    """The rate limits that a server states for one model."""

    requests: Allowance = Allowance()
    tokens: Allowance = Allowance()
    """Input and output tokens counted together."""
    input_tokens: Allowance = Allowance()
    output_tokens: Allowance = Allowance()


def stated_seconds(
    text: str, headers: Mapping[str, str], unit: str = "s", *, within: bool = False
) -> float | None:
    """The seconds that a text states, at most LONGEST: a number, a duration, or an instant.
    headers: of the answer, for the server's clock. unit: of a plain number, `s` or `ms`; a number
    of seconds or milliseconds since 1970 is an instant. within: whether more text may follow. None
    if it states none."""
    text = text[:_LOOKED_AT].strip(" :~(") if within else text.strip()
    if within:
        while (parts := text.partition(" "))[0] in _FILLERS:
            text = parts[2]
    number = _number(text)
    when = _first_instant(text) if within else _instant(text)
    if number is not None and number > _EPOCH:
        since = number / (1000 if number > 1000 * _EPOCH else 1)
        seconds = since - (_clock(headers) or datetime.now(UTC)).timestamp()
    elif number is not None:
        seconds = number / (1000 if unit == "ms" else 1)
    elif when is not None:
        clock = _clock(headers)
        seconds = (when - (clock or datetime.now(UTC))).total_seconds()
        if clock is None and not 0 < seconds <= _TRUSTED:
            return None
    elif (duration := _duration(text, within)) is not None:
        seconds = duration
    else:
        return None
    return min(max(seconds, 0.0), LONGEST)


def spent_resets(names: Iterable[str], headers: Mapping[str, str]) -> float:
    """The longest of these resets, in seconds; only of spent limits, if any is known."""
    resets = {name: stated_seconds(headers[name], headers) or 0.0 for name in names}
    remaining = {
        name: _number(headers.get(name.replace("reset", "remaining"), "")) for name in resets
    }
    spent = [resets[name] for name, amount in remaining.items() if amount == 0]
    return max(spent or resets.values(), default=0.0)


def stated_limits(headers: Mapping[str, str]) -> HeaderLimits:
    """The rate limits in the headers of an answer."""

    def allowance(kind: str, form: str) -> Allowance:
        names = (form.format(what=part, kind=kind) for part in ("limit", "remaining", "reset"))
        limit, remaining, when = (headers.get(name, "") for name in names)
        return Allowance(_count(limit), _count(remaining), stated_seconds(when, headers))

    allowances = {}
    for kind, forms in _STATED.items():
        candidates = (allowance(kind, form) for form in forms)
        allowances[kind.replace("-", "_")] = next(
            (it for it in candidates if it != Allowance()), Allowance()
        )
    return HeaderLimits(**allowances)


def _clock(headers: Mapping[str, str]) -> datetime | None:
    return _instant(headers.get("date", ""))


def _first_instant(text: str) -> datetime | None:
    """The instant, with a time zone, at the start of a text."""
    parts = [part.strip(".,;()") for part in text.upper().replace(" AT ", " ").split()[:3]]
    for count in (3, 2, 1):
        joined = " ".join(parts[:count]).replace(" UTC", "+00:00").replace(" GMT", "+00:00")
        if (when := _instant(joined.replace(",", ""))) is not None:
            return when
    return None


def _instant(text: str) -> datetime | None:
    if not text:
        return None
    try:
        when = parsedate_to_datetime(text) if "," in text else datetime.fromisoformat(text)
    except (ValueError, OverflowError):  # OverflowError: year or zone out of range
        return None
    return when if when.tzinfo else None


def _number(text: str) -> float | None:
    if not text:  # usual on the hot path: most servers state few limits or none
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _count(text: str) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


def _duration(text: str, within: bool = False) -> float | None:
    """A duration such as `1m30.5s` or `2 minutes`. within: more text may follow it."""
    text, at, total = text.strip(), 0, 0.0
    while step := _STEP.match(text, at):
        total += float(step[1]) * _UNITS[step[2] or ""]
        at = step.end()
    return total if at and (within or at == len(text)) else None


_ERRORS: Mapping[Meaning, type[EngineError]] = {
    "key": AuthenticationFailed,
    "quota": QuotaExhausted,
    "rate": RateLimited,
    "exceeds_rate": ExceedsRateLimit,
    "too_long": ContextLengthExceeded,
    "setting": ModelNotFound,
    "model": ModelNotFound,
    "address": ModelNotFound,
    "proxy": ProviderDown,
    "overloaded": Overloaded,
    "unknown": UnknownFault,
}
_MAX_MESSAGE = 600
_SHORT = 900.0
"""Seconds. A quota is not renewed sooner, so a shorter wait belongs to another limit."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error answer, in the same form for all wires."""

    source: str
    status: int
    """The HTTP status, or the status that the code of an error inside a 200 stands for."""
    code: str
    """The provider's error code, else its error type; may be empty."""
    message: str
    means: Meaning = "unknown"
    fix: str = ""
    """Advice, with the provider's name; may be empty."""
    delay: float = 0.0
    """Seconds that the server asks to wait, or until a quota is renewed; 0 if unstated."""
    call: bool = False
    """Whether only this call fails, although others with this meaning stop the model."""

    def __str__(self) -> str:
        code = f"{self.status} {self.code}" if self.code else f"{self.status}"
        return f"{self.source} says: {code}: {self.message}"

    def reply(self) -> Reply:
        """A `refused` reply if a policy rejected the prompt; otherwise raise `error()`."""
        if self.means == "declined":
            return Reply("", outcome="refused", stop_reason=self.code or "policy")
        raise self.error()

    def embedded_reply(self, body: bytes) -> Reply:
        """As `reply`, for an error inside a 200. Raises Malformed if the server failed or the error
        is unknown, since the call may be billed."""
        if self.means == "overloaded" or (self.means == "unknown" and self.status == 200):
            raise Malformed(f"{self} (inside a 200)", body)
        return self.reply()

    def error(self) -> EngineError:
        """The error of `oversight.engine.errors` for this answer, with advice."""
        message = f"{self}; {self.fix}" if self.fix else str(self)
        if self.means == "declined" or self.call:
            return InvalidRequest(message)
        error = _ERRORS[self.means](message)
        error.words = f'HTTP {self.status} "{self.message}"'
        if isinstance(error, (QuotaExhausted, RateLimited, Overloaded)):
            error.delay = self.delay
        return error


def read_fault(
    source: str, status: int, headers: Mapping[str, str], body: bytes, own: bool = False
) -> ErrorAnswer:
    """Read an error answer by the rules of `faults.toml`. The body may hold anything. own: whether
    the server is self-hosted."""
    data, wrong = loaded(body)
    content = body.decode(errors="replace") if wrong else data
    vendors = frozenset((source, *source.split("/")))
    evidence = FaultEvidence(vendors, own, status, headers, content)
    if status == 200 and evidence.statuses:
        evidence.status = status = evidence.statuses[0]
    message = ": ".join(evidence.messages) if isinstance(content, dict | list) else ""
    if 300 <= status < 400 and (elsewhere := headers.get("location")):
        message = f"it has moved to {elsewhere}"
    params = [param for param in evidence.at(table().places["params"]) if param not in message]
    if message and params:
        message += f" (parameter {params[-1]})"
    code, message = evidence.codes[0] if evidence.codes else "", _line(message) or body_start(body)
    rule = evidence.rule()
    if rule is None:
        return ErrorAnswer(source, status, _line(code), message)
    retry, reset = (evidence.waits.get(kind, 0.0) for kind in ("retry", "reset"))
    later = next((seconds for seconds in (retry, reset) if seconds > _SHORT), 0.0)
    delay = {"rate": retry or reset, "overloaded": retry, "quota": later}.get(rule.means, 0.0)
    fix = (rule.fix or table().fix.get(rule.means, "")).format(source=source)
    return ErrorAnswer(source, status, _line(code), message, rule.means, fix, delay, rule.call)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE]} …"
