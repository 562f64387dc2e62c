"""What servers say in their headers about rate limits, and how long they ask one to wait."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

_STEP = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|s|m|h|d)?")
_SECONDS = {
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}

LONGEST = 10 * 366 * 86400.0
"""Seconds: no server means a longer delay than ten years, and no calendar holds every number."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much of one budget a server grants."""

    limit: int | None = None
    """Units a minute; None where the server does not say."""
    remaining: int | None = None
    reset: float | None = None
    """Seconds until all of `limit` is there again."""


@dataclass(frozen=True, slots=True)
class HeaderLimits:
    """A server's own account of its limits for one model, as far as it gives one."""

    requests: Allowance = Allowance()
    tokens: Allowance = Allowance()
    """Input and output tokens counted together."""
    input_tokens: Allowance = Allowance()
    output_tokens: Allowance = Allowance()
    date: str = ""
    """The server's clock, as it stands on the answer; empty where it does not say."""

    @property
    def clock(self) -> datetime | None:
        """The server's time when it answered, to the second; None where it cannot be read."""
        return _instant(self.date)

    @property
    def longest_reset(self) -> float:
        """Seconds until every budget that was named is whole again; 0 if none was."""
        named = (self.requests, self.tokens, self.input_tokens, self.output_tokens)
        return max((allowance.reset or 0.0 for allowance in named), default=0.0)


def delay(status: int, headers: Mapping[str, str], limits: HeaderLimits) -> float:
    """Seconds to wait before asking again, at most LONGEST; 0 if the server does not say.

    `retry-after-ms`, else `retry-after` (seconds or an HTTP date), else, of a 429, the longest
    reset: when a budget is whole again says nothing of when a failing server is well.
    """
    return min(_delay(status, headers, limits), LONGEST)


def _delay(status: int, headers: Mapping[str, str], limits: HeaderLimits) -> float:
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        if (wait := _number(headers.get(name, ""))) is not None:
            return wait * unit
    if (wait := _until(headers.get("retry-after", ""), headers)) is not None:
        return wait
    return limits.longest_reset if status == 429 else 0.0


def duration_limits(headers: Mapping[str, str]) -> HeaderLimits:
    """`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`; resets are durations: `1m30s`."""

    def allowance(kind: str) -> Allowance:
        return Allowance(
            _count(headers.get(f"x-ratelimit-limit-{kind}", "")),
            _count(headers.get(f"x-ratelimit-remaining-{kind}", "")),
            _duration(headers.get(f"x-ratelimit-reset-{kind}", "")),
        )

    return HeaderLimits(
        requests=allowance("requests"), tokens=allowance("tokens"), date=headers.get("date", "")
    )


def instant_limits(headers: Mapping[str, str]) -> HeaderLimits:
    """`anthropic-ratelimit-{kind}-{limit,remaining,reset}`; resets are RFC 3339 instants."""

    def allowance(kind: str) -> Allowance:
        return Allowance(
            _count(headers.get(f"anthropic-ratelimit-{kind}-limit", "")),
            _count(headers.get(f"anthropic-ratelimit-{kind}-remaining", "")),
            _until(headers.get(f"anthropic-ratelimit-{kind}-reset", ""), headers),
        )

    return HeaderLimits(
        allowance("requests"),
        allowance("tokens"),
        allowance("input-tokens"),
        allowance("output-tokens"),
        headers.get("date", ""),
    )


def _until(instant: str, headers: Mapping[str, str]) -> float | None:
    """Seconds from the response's own Date to `instant`; None if either cannot be read.

    Both are the server's clock. Ours may be wrong by hours and is not asked.
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
    except (ValueError, OverflowError):  # the latter of a year or a zone beyond all calendars
        return None
    return when if when.tzinfo else None


def _number(text: str) -> float | None:
    if not text:  # as a rule: most servers name few limits or none, and every answer comes by here
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
    if not text:
        return None
    text = text.strip()
    steps = _STEP.findall(text)
    if not steps or "".join(number + unit for number, unit in steps) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in steps)
