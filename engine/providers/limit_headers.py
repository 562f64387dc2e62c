"""Rate limits and requested waits in the headers of answers."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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
"""Characters behind the words that announce a wait."""
_EPOCH = 1e9
"""Seconds since 1970: a larger number is an instant."""
_TRUSTED = 86_400.0
"""Seconds from now up to which an instant is believed by this machine's clock."""

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


def stated_seconds(
    text: str, headers: Mapping[str, str], unit: str = "s", *, within: bool = False
) -> float | None:
    """The seconds that a text states, at most LONGEST: a number, a duration, or an instant.

    headers: of the answer, for the server's clock. unit: of a number alone, `s` or `ms`; a number
    of today's seconds or milliseconds since 1970 is an instant. within: whether the text goes on
    behind the wait. None if it states none.
    """
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
    """The longest of these resets, in seconds; only of spent limits, where some are known to be
    spent."""
    resets = {name: stated_seconds(headers[name], headers) or 0.0 for name in names}
    remaining = {
        name: _number(headers.get(name.replace("reset", "remaining"), "")) for name in resets
    }
    spent = [resets[name] for name, left in remaining.items() if left == 0]
    return max(spent or resets.values(), default=0.0)


def stated_limits(headers: Mapping[str, str]) -> HeaderLimits:
    """The rate limits in the headers of an answer, in either form."""

    def allowance(kind: str, form: str) -> Allowance:
        stated = (form.format(what=what, kind=kind) for what in ("limit", "remaining", "reset"))
        limit, remaining, when = (headers.get(name, "") for name in stated)
        return Allowance(_count(limit), _count(remaining), stated_seconds(when, headers))

    found = {}
    for kind, forms in _STATED.items():
        each = (allowance(kind, form) for form in forms)
        found[kind.replace("-", "_")] = next((it for it in each if it != Allowance()), Allowance())
    return HeaderLimits(**found)


def _clock(headers: Mapping[str, str]) -> datetime | None:
    """The server's own time."""
    return _instant(headers.get("date", ""))


def _first_instant(text: str) -> datetime | None:
    """The instant with its zone that a text begins with."""
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


def _duration(text: str, within: bool = False) -> float | None:
    """A duration such as `1m30.5s` or `2 minutes`. within: more text may follow it."""
    text, at, total = text.strip(), 0, 0.0
    while step := _STEP.match(text, at):
        total += float(step[1]) * _UNITS[step[2] or ""]
        at = step.end()
    return total if at and (within or at == len(text)) else None
