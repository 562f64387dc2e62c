"""Per-minute rate limits of a server: token buckets that refill steadily."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeterReading:
    limit: int
    """Units per minute."""
    remaining: int
    reset: float
    """Real seconds until it is full again."""


class ServerBudget:
    """A token bucket of one minute's capacity. Times, and `minute`, are in real seconds."""

    def __init__(self, limit: int, minute: float, now: float) -> None:
        self._limit = limit
        self._rate = limit / minute
        self._left = float(limit)
        self._seen = now

    def wait(self, amount: float, now: float) -> float:
        """Real seconds until `amount` is available; infinity if it never will be."""
        self._fill(now)
        if amount > self._limit:
            return float("inf")
        return max(amount - self._left, 0.0) / self._rate

    def take(self, amount: float, now: float) -> None:
        self._fill(now)
        self._left -= amount

    def read(self, now: float) -> MeterReading:
        self._fill(now)
        missing = self._limit - self._left
        return MeterReading(self._limit, max(int(self._left), 0), missing / self._rate)

    def _fill(self, now: float) -> None:
        self._left = min(self._limit, self._left + (now - self._seen) * self._rate)
        self._seen = now


class ServerBudgets:
    """The budgets of one model; 0 means no limit."""

    def __init__(
        self, requests_per_minute: int, tokens_per_minute: int, minute: float, now: float
    ) -> None:
        self._requests = (
            ServerBudget(requests_per_minute, minute, now) if requests_per_minute else None
        )
        self._tokens = ServerBudget(tokens_per_minute, minute, now) if tokens_per_minute else None

    def admit(self, tokens: int, now: float) -> float:
        """Take one request of so many tokens and return 0.0, or else the real seconds to wait."""
        due = [(self._requests, 1), (self._tokens, tokens)]
        wait = max(meter.wait(amount, now) if meter else 0.0 for meter, amount in due)
        for meter, amount in due:
            if meter and not wait:
                meter.take(amount, now)
        return wait

    def read(self, now: float) -> tuple[MeterReading | None, MeterReading | None]:
        """Requests and tokens left; None where there is no limit."""
        requests = self._requests.read(now) if self._requests else None
        return requests, self._tokens.read(now) if self._tokens else None
