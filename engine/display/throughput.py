"""Rates of models and the limits that bind them, as lines of the display. Works without rich."""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .text import counted, minutes

Resource: TypeAlias = (
    Literal["requests", "tokens", "input tokens", "output tokens", "concurrency", "connections"]
    | Literal["budget", "pause", "pace", "outage"]
)

WAITING = "waiting for "
"""Start of the line of a model that waits."""

STILL = 5.0
"""Seconds without an answer after which the display says why."""

NAME = 36
"""Characters of a model's name that the display has room for."""

MAX_FAULT = 160
"""Characters of a fault that the display has room for."""

SPAN = 10.0
"""Seconds that a rate looks back."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The limit that decides how fast a model is asked now."""

    resource: Resource
    share: float
    """The part of the limit that is in use, 1 being all of it; 0 where that has no meaning."""
    amount: float = 0.0
    """For concurrency and connections the limit itself (calls), for pause and outage the time left
    (seconds), for pace the requests per second."""

    def __str__(self) -> str:
        if self.resource == "pause":
            return f"rate limited; resuming in {self.amount:.0f} s"
        if self.resource == "pace":
            return f"slowed to {self.amount:.1f}/s, as the provider refuses more"
        if self.resource == "outage":
            probe = "out" if self.amount == math.inf else f"in {self.amount:.0f} s"
            return f"the provider does not answer; next probe {probe}"
        if self.resource == "budget":
            return "waiting for calls in flight to leave room in the budget"
        if self.resource in ("concurrency", "connections"):
            return f"limited by {self.resource} {self.amount:,.0f}"
        return f"limited by {self.resource} {self.share:.0%}"


@dataclass(frozen=True, slots=True)
class LimitStatistics:
    """One model at one moment."""

    per_second: float
    """Replies a second, over about the last ten seconds."""
    in_flight: int
    waiting: int
    width: float
    """Calls that may be in flight at once, as adapted so far; infinite where nothing limits it."""
    pace: float
    """Requests a second at most since the provider refused some; infinite as a rule."""
    binding: Bottleneck | None
    """None while nobody waits."""
    still: float = 0.0
    """Seconds since the last answer; infinite before the first."""
    oldest: float = 0.0
    """Seconds for which the oldest request in flight has been open; 0 without any."""
    fault: str = ""
    """The last fault, if nothing was answered since."""
    words: str = ""
    """The server's own words for it, with their status; empty if it gave none."""
    probes_every: float = 0.0
    """Seconds between two probes while the model is paused because it fails."""
    give_up: float = 0.0
    """Seconds without an answer after which the run gives up."""

    @property
    def waits(self) -> bool:
        """Whether all calls wait for the next probe."""
        return self.binding is not None and self.binding.resource == "outage"

    def wait(self, model: str, cells: int) -> str:
        """The line of a model that waits. cells: those that wait for its replies."""
        assert self.binding is not None
        seconds = self.binding.amount
        probe = "now" if seconds == math.inf else f"in {minutes(seconds)}"
        return (
            f"{WAITING}{model}: {_clipped(self.words or self.fault)}, "
            f"{counted(cells, 'cell')} held, next try {probe} "
            f"(--give-up {_short(self.give_up)} ends the wait)"
        )

    def __str__(self) -> str:
        speed = f"{self.per_second:.0f}/s" if self.per_second >= 10 else f"{self.per_second:.1f}/s"
        parts = [speed, str(self.binding or "")]
        if self.still >= STILL:
            parts.append(f"last fault: {_clipped(self.fault)}" if self.fault else "")
            old = self.oldest >= STILL
            parts.append(f"the oldest request has been open for {self.oldest:.0f} s" if old else "")
        return "  ".join(filter(None, parts))


def lines(models: Mapping[str, LimitStatistics], cells: Callable[[str], int]) -> tuple[str, ...]:
    """For the display, a line for each model. cells: how many wait for a model's replies."""
    names = {model: clipped(model) for model in models}
    width = max(map(len, names.values()), default=0)
    return tuple(
        now.wait(model, cells(model)) if now.waits else f"{names[model]:<{width}}  {now}"
        for model, now in models.items()
    )


def busy(models: Mapping[str, LimitStatistics]) -> bool:
    """Whether calls wait for some model."""
    return any(one.waiting or one.in_flight >= one.width for one in models.values())


def clipped(name: str) -> str:
    """A model's name, short enough for a line of the display."""
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def _short(seconds: float) -> str:
    return f"{seconds / 60:g}m" if seconds >= 60 else f"{seconds:g}s"


def _clipped(fault: str) -> str:
    line = " ".join(fault.split())
    return line if len(line) <= MAX_FAULT else f"{line[:MAX_FAULT]} …"


class ThroughputMeter:
    """Units a second, over about the last `SPAN` seconds."""

    __slots__ = ("_begun", "_bins", "_edge", "_newest")

    def __init__(self) -> None:
        self._begun = -1.0
        self._edge = 0.0
        """When the newest bin is a second old, and full."""
        self._newest = 0.0
        self._bins: deque[tuple[float, float]] = deque()
        """(edge, units) of the full bins, one second each; seconds without units have none."""

    def add(self, amount: float, now: float) -> None:
        """Count `amount` units at loop time `now` (s)."""
        if now >= self._edge:
            self._turn(now)
        self._newest += amount

    def rate(self, now: float) -> float:
        """Units a second at loop time `now` (s); of a young meter, the mean since it began."""
        if self._begun < 0.0:
            return 0.0
        if now >= self._edge:
            self._turn(now)
        since = max(self._begun, now - SPAN)
        if self._bins:
            since = min(since, self._bins[0][0] - 1.0)
        return (self._newest + sum(units for _, units in self._bins)) / max(now - since, 1.0)

    def _turn(self, now: float) -> None:
        if self._begun < 0.0:
            self._begun = now
        else:
            self._bins.append((self._edge, self._newest))
        self._newest = 0.0
        self._edge = now + 1.0
        while self._bins and self._bins[0][0] <= now - SPAN:
            self._bins.popleft()
