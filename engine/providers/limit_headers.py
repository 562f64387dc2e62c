"""Rate limits and requested waits in the headers of answers."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

_STEP = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|s|m|h|d)?")
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "": 1, "m": 60, "h": 3600, "d": 86400}

_DURATIONS, _INSTANTS = "x-ratelimit-{what}-{kind}", "anthropic-ratelimit-{kind}-{what}"
_STATED = {
    "requests": (_DURATIONS, _INSTANTS),
    "tokens": (_DURATIONS, _INSTANTS),
    "input-tokens": (_INSTANTS,),
    "output-tokens": (_INSTANTS,),
}
"""By kind of limit, the forms of the headers that state it: OpenAI's, whose resets are durations
(`1m30s`), and Anthropic's, whose resets are RFC 3339 instants."""
LIMIT_HEADERS = tuple(
    form.format(what="limit", kind=kind) for kind, forms in _STATED.items() for form in forms
)
"""Headers that state how much is allowed a minute; the others vary by the call."""

LONGEST = 10 * 366 * 86400.0
"""Maximum delay in seconds: ten years, since dates overflow with the largest numbers."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """One rate limit, and how much of it is left."""

    limit: int | None = None
    """Units a minute; None if the server does not state it."""
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

    @property
    def longest_reset(self) -> float:
        """Seconds until every stated limit is wholly available again; 0 if none is stated."""
        named = (self.requests, self.tokens, self.input_tokens, self.output_tokens)
        return max(allowance.reset or 0.0 for allowance in named)


def delay(status: int, headers: Mapping[str, str]) -> float:
    """Seconds to wait before a retry, at most LONGEST; 0 if the server states none.

    `retry-after-ms`, else `retry-after` (seconds or an HTTP date), else, for a 429 only, the
    longest reset: rate limits do not tell when a failing server will recover.
    """
    after = headers.get("retry-after", "")
    if (wait := _number(headers.get("retry-after-ms", ""))) is not None:
        wait /= 1000
    elif (wait := _number(after)) is None and (wait := _until(after, headers)) is None:
        wait = stated_limits(headers).longest_reset if status == 429 else 0.0
    return min(wait, LONGEST)


def stated_limits(headers: Mapping[str, str]) -> HeaderLimits:
    """The rate limits in the headers of an answer, in either form."""

    def allowance(kind: str, form: str) -> Allowance:
        stated = (form.format(what=what, kind=kind) for what in ("limit", "remaining", "reset"))
        limit, remaining, when = (headers.get(name, "") for name in stated)
        reset = _duration(when) if form is _DURATIONS else _until(when, headers)
        return Allowance(_count(limit), _count(remaining), reset)

    found = {}
    for kind, forms in _STATED.items():
        each = (allowance(kind, form) for form in forms)
        found[kind.replace("-", "_")] = next((it for it in each if it != Allowance()), Allowance())
    return HeaderLimits(**found)


def _until(instant: str, headers: Mapping[str, str]) -> float | None:
    """Seconds from the response's own Date to `instant`; None if either cannot be parsed.

    Both are by the server's clock. This machine's may be wrong by hours and is not used.
    """
    when, now = _instant(instant), _instant(headers.get("date", ""))
    if when is None or now is None:
        return None
    return max((when - now).total_seconds(), 0.0)


def _instant(text: str) -> datetime | None:
    if not text:
        return None
    try:
        when = parsedate_to_datetime(text) if "," in text else datetime.fromisoformat(text)
    except (ValueError, OverflowError):  # OverflowError: year or zone out of range
        return None
    return when if when.tzinfo else None


def _number(text: str) -> float | None:
    if not text:  # the usual case, on the hot path: most servers state few limits or none
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _count(text: str) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


def _duration(text: str) -> float | None:
    text = text.strip()
    steps = _STEP.findall(text)
    if not steps or "".join(number + unit for number, unit in steps) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in steps)
