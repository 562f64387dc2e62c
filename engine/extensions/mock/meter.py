"""Per-minute rate limits of a server: token buckets that refill steadily."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeterReading:
    limit: int
    """Units per minute."""
    remaining: int
    reset: float
    """Real seconds until it is full again."""


class ServerBudgets:
    """The token buckets of one model, each of one minute's capacity. Times are in real seconds."""

    def __init__(self, limits: Mapping[str, int], minute: float, now: float) -> None:
        """limits: units a minute by what they count, `requests` and `tokens`; 0: no limit. minute:
        its real seconds."""
        self._limits = {kind: limit for kind, limit in limits.items() if limit}
        self._left = {kind: float(limit) for kind, limit in self._limits.items()}
        self._minute, self._seen = minute, now

    def admit(self, tokens: int, now: float) -> float:
        """Take one request of so many tokens and return 0.0, or else the real seconds to wait;
        infinity if there will never be as many."""
        self._fill(now)
        amounts = {"requests": 1, "tokens": tokens}
        if any(amounts[kind] > limit for kind, limit in self._limits.items()):
            return float("inf")
        missing = {kind: max(amounts[kind] - left, 0.0) for kind, left in self._left.items()}
        wait = max((each / self._limits[kind] for kind, each in missing.items()), default=0.0)
        if not wait:
            self._left = {kind: left - amounts[kind] for kind, left in self._left.items()}
        return wait * self._minute

    def read(self, now: float) -> dict[str, MeterReading]:
        """What is left of each budget."""
        self._fill(now)
        return {
            kind: MeterReading(limit, max(int(left), 0), (limit - left) / limit * self._minute)
            for (kind, limit), left in zip(self._limits.items(), self._left.values(), strict=True)
        }

    def _fill(self, now: float) -> None:
        passed, self._seen = now - self._seen, now
        for kind, limit in self._limits.items():
            self._left[kind] = min(limit, self._left[kind] + passed / self._minute * limit)
