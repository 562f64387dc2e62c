"""Limits of one (provider, model), spent evenly, first come, first served."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from aiolimiter import AsyncLimiter
from msgspec import Struct

from ...display.throughput import Bottleneck, ThroughputMeter
from ...errors import ExceedsRateLimit
from ...stop import StopToken
from ...tokens import COMBINED, INPUT, OUTPUT, TokenEstimate, TokenLimit


@dataclass(frozen=True, slots=True)
class Limits:
    """Rates and width, from the sweep file or the server. None: unknown."""

    requests: float | None = None
    """Requests per minute."""
    tokens: float | None = None
    """Tokens per minute, for vendors that count input and output together, with all of
    max_tokens."""
    input_tokens: float | None = None
    """Input tokens per minute; tokens from the provider's prompt cache do not count."""
    output_tokens: float | None = None
    """Output tokens per minute."""
    concurrency: int | None = None
    """Maximum calls in flight."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{field.name}: {value} is not a positive number")

    def part(self, sharers: int) -> "Limits":
        """An equal part of these limits for one of several processes; at least one call."""
        if sharers == 1:
            return self
        parts: dict[str, Any] = {
            field.name: value / sharers
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        if self.concurrency is not None:
            parts["concurrency"] = max(self.concurrency // sharers, 1)
        return replace(self, **parts)

    def filled(self, defaults: "Limits") -> "Limits":
        """These limits, completed by `defaults` where unknown."""
        missing = {
            field.name: getattr(defaults, field.name)
            for field in fields(self)
            if getattr(self, field.name) is None
        }
        return replace(self, **missing)


BURST_WINDOW = 0.1
"""Seconds of budget that may be spent at one moment. A window of a minute would admit twice the
budget in the first minute: all of it at once, and again as it drains."""

MIN_WAIT = 0.002
"""Minimum wait (s) of a waiting caller; those behind it then pass at once. uvloop's clock has a
resolution of a millisecond and rounds shorter waits to none: the loop would spin."""

MAX_SAVED = 1.0
"""Maximum seconds of unused budget that are saved while nobody waits."""


class Bucket:
    """Units that drain at a steady rate: requests, or tokens of one kind.

    aiolimiter's queue serves small amounts first and would starve large ones. So callers queue at a
    gate, and only the first one waits for the limiter, in portions of half a window. (With whole
    windows, the delay of each wake-up would be lost.) A caller that is alone takes a whole portion
    even if it needs less: the next ones find the rest and pass the gate."""

    def __init__(self, per_minute: float, stop_token: StopToken, *, least: float = 0.0) -> None:
        """least: minimum units that may be spent at one moment. It is 1 for requests: otherwise
        each would wait for its share to drain even if nothing else is sent."""
        self.per_minute = per_minute
        self.meter = ThroughputMeter()
        """Units drained."""
        self._stop_token = stop_token
        size = max(per_minute * BURST_WINDOW / 60, least)
        self._limiter = AsyncLimiter(size, size * 60 / per_minute)
        self._portion = per_minute * BURST_WINDOW / 60 / 2
        self._saved = MAX_SAVED * per_minute / 60
        self._gate = asyncio.Lock()
        self.queued = 0
        """Number of waiting callers."""
        self.balance = 0.0
        """Units at hand: taken and not needed, minus amounts that calls reserved too little. If it
        is enough and nobody waits, a caller may skip the gate."""

    def share(self, now: float) -> float:
        """Fraction of the budget in use at loop time `now` (s), over about ten seconds."""
        return min(self.meter.rate(now) * 60 / self.per_minute, 1.0)

    async def take(self, amount: float) -> None:
        """Wait until `amount` units have drained for this caller, after all earlier callers. Raises
        the Halt of the stop token within half a window. A cancelled caller returns its units."""
        self.queued += 1
        try:
            async with self._gate:
                await self._drain(amount)
        finally:
            self.queued -= 1

    def settle(self, reserved: float, actual: float) -> None:
        """Correct the budget once the true cost of a call is known; (n, 0) returns all n."""
        self.balance += reserved - actual
        if not self.queued and self.balance > self._saved:
            self.balance = self._saved

    async def _drain(self, amount: float) -> None:
        due, drained = amount, 0.0
        try:
            while True:
                # Completed calls may have left a surplus or a debt.
                due -= self.balance
                self.balance = 0.0
                if due <= 0.0:
                    return
                self._stop_token.raise_if_stopped()
                part = due
                if due > self._portion and not self._limiter.has_capacity(due):
                    part = self._portion
                elif self.queued == 1 and self._limiter.has_capacity(self._portion):
                    part = max(due, self._portion)
                if not self._limiter.has_capacity(part):
                    await asyncio.sleep(MIN_WAIT)
                await self._limiter.acquire(part)
                due -= part
                drained += part
        except BaseException:
            due -= amount
            raise
        finally:
            self.balance -= due
            self.meter.add(drained, asyncio.get_running_loop().time())


LOOKAHEAD = 16
"""Calls that may collect their tokens at once. With one, a call that waits for output tokens leaves
input tokens unspent that the next call could collect. If both budgets nearly bind, 57 % is used
with one, 93 % with 8, 99 % with 16, and no more with 64."""


class TokenReservation(Struct, frozen=True):
    """Tokens of one kind that a call has taken before it is sent."""

    limit: TokenLimit
    bucket: Bucket
    amount: float


class TokenBuckets:
    """Input, output or combined tokens per minute, as far as limits are known; falsy if none is."""

    def __init__(self, stop_token: StopToken) -> None:
        self._stop_token = stop_token
        self._buckets: dict[TokenLimit, Bucket] = {}
        self._entrance = asyncio.Semaphore(LOOKAHEAD)

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def learn(self, limits: Limits) -> None:
        """Use these limits. Buckets whose rate has not changed are kept."""
        rates = {OUTPUT: limits.output_tokens, INPUT: limits.input_tokens, COMBINED: limits.tokens}
        former = self._buckets
        self._buckets = {
            limit: former[limit]
            if limit in former and former[limit].per_minute == rate
            else Bucket(rate, self._stop_token)
            for limit, rate in rates.items()
            if rate is not None
        }

    def require_fit(self, model: str, estimate: TokenEstimate) -> None:
        """Raise ExceedsRateLimit for a call above a minute's budget."""
        for limit, bucket in self._buckets.items():
            if (most := limit.most(estimate)) > bucket.per_minute:
                raise ExceedsRateLimit(
                    f"{model}: a call of about {most:,.0f} {limit.resource} does not fit the "
                    f"limit of {bucket.per_minute:,.0f} a minute; "
                    "shorten the prompt, lower max_tokens, or raise the limit"
                )

    def taken_at_once(self, estimate: TokenEstimate) -> list[TokenReservation] | None:
        """All tokens of a call if they are available without waiting; else None."""
        reservations = []
        for limit, bucket in self._buckets.items():
            amount = limit.expected(estimate)
            if amount > bucket.balance or limit.most(estimate) > bucket.per_minute:
                return None
            reservations.append(TokenReservation(limit, bucket, amount))
        for reservation in reservations:
            reservation.bucket.balance -= reservation.amount
        return reservations

    @asynccontextmanager
    async def reserved(self, estimate: TokenEstimate) -> AsyncIterator[list[TokenReservation]]:
        """Run the body once all tokens of a call are taken, first come, first served. They are
        returned if it is cancelled, or if the body raises."""
        reservations: list[TokenReservation] = []
        try:
            async with self._entrance:
                for limit, bucket in self._buckets.items():
                    amount = limit.expected(estimate)
                    await bucket.take(amount)
                    reservations.append(TokenReservation(limit, bucket, amount))
                yield reservations
        except BaseException:
            for reservation in reservations:
                reservation.bucket.settle(reservation.amount, 0.0)
            raise

    def bottlenecks(self, now: float) -> list[Bottleneck]:
        """Fraction of each budget in use at loop time `now` (s)."""
        return [
            Bottleneck(limit.resource, bucket.share(now)) for limit, bucket in self._buckets.items()
        ]
