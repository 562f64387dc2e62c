"""Per-minute rate limits of a server: token buckets that refill steadily."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeterReading:
    limit: int
    """Units per minute."""
    remaining: int
    reset: float
    """Real seconds until it is full again."""


class ServerBudgets:
    """The token buckets of one model, each of one minute's capacity, by what they count:
    `requests`, `tokens`; 0 means no limit. Times, and `minute`, are in real seconds."""

    def __init__(
        self, requests_per_minute: int, tokens_per_minute: int, minute: float, now: float
    ) -> None:
        limits = {"requests": requests_per_minute, "tokens": tokens_per_minute}
        self._limits = {kind: limit for kind, limit in limits.items() if limit}
        self._left = {kind: float(limit) for kind, limit in self._limits.items()}
        self._minute, self._seen = minute, now

    def admit(self, tokens: int, now: float) -> float:
        """Take one request of so many tokens and return 0.0, or else the real seconds to wait;
        infinity if there will never be as many."""
        self._fill(now)
        amounts = {"requests": 1, "tokens": tokens}
        wait = max((self._wait(kind, amounts[kind]) for kind in self._limits), default=0.0)
        if not wait:
            for kind in self._limits:
                self._left[kind] -= amounts[kind]
        return wait

    def read(self, now: float) -> dict[str, MeterReading]:
        """What is left of each budget."""
        self._fill(now)
        return {
            kind: MeterReading(
                limit,
                max(int(self._left[kind]), 0),
                (limit - self._left[kind]) / limit * self._minute,
            )
            for kind, limit in self._limits.items()
        }

    def _wait(self, kind: str, amount: float) -> float:
        limit = self._limits[kind]
        missing = max(amount - self._left[kind], 0.0)
        return float("inf") if amount > limit else missing / limit * self._minute

    def _fill(self, now: float) -> None:
        passed, self._seen = now - self._seen, now
        for kind, limit in self._limits.items():
            self._left[kind] = min(limit, self._left[kind] + passed / self._minute * limit)
