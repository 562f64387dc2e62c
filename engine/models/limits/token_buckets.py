"""The token budgets of a model: one bucket for each kind of tokens that its provider counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from ...errors import ExceedsRateLimit
from ...stop import StopToken
from ...throughput import Bottleneck
from ...tokens import COMBINED, INPUT, OUTPUT, TokenEstimate, TokenLimit
from .bucket import Bucket
from .limits import Limits

LOOKAHEAD = 16
"""Calls that may gather their tokens at once. With one, a call that waits for output tokens leaves
input tokens unspent that the next call could have gathered: of two budgets that both nearly bind,
57 % was used with one, 93 % with 8, 99 % with 16, and no more with 64."""


class TokenReservation(Struct, frozen=True):
    """Tokens of one kind that a call has taken before it leaves."""

    limit: TokenLimit
    bucket: Bucket
    amount: float


class TokenBuckets:
    """Input, output or combined tokens a minute, as far as limits are known; falsy without any."""

    def __init__(self, stop_token: StopToken) -> None:
        self._stop_token = stop_token
        self._buckets: dict[TokenLimit, Bucket] = {}
        self._entrance = asyncio.Semaphore(LOOKAHEAD)

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def learn(self, limits: Limits) -> None:
        """Take over limits. The bucket of a rate that has not changed stays as it is."""
        rates = {
            OUTPUT: limits.output_tokens,
            INPUT: limits.input_tokens,
            COMBINED: limits.tokens,
        }
        former = self._buckets
        self._buckets = {
            limit: former[limit]
            if limit in former and former[limit].per_minute == rate
            else Bucket(rate, self._stop_token)
            for limit, rate in rates.items()
            if rate is not None
        }

    def require_fit(self, model: str, estimate: TokenEstimate) -> None:
        """ExceedsRateLimit for a call that takes more than a minute's budget."""
        for limit, bucket in self._buckets.items():
            if (most := limit.most(estimate)) > bucket.per_minute:
                raise ExceedsRateLimit(
                    f"{model}: a call of about {most:,.0f} {limit.resource} does not fit the "
                    f"limit of {bucket.per_minute:,.0f} a minute; "
                    "shorten the prompt, lower max_tokens, or raise the limit"
                )

    def taken_at_once(self, estimate: TokenEstimate) -> list[TokenReservation] | None:
        """All tokens of a call where none waits, if they are at hand; else None."""
        taken = []
        for limit, bucket in self._buckets.items():
            amount = limit.expected(estimate)
            if amount > bucket.balance or limit.most(estimate) > bucket.per_minute:
                return None
            taken.append(TokenReservation(limit, bucket, amount))
        for each in taken:
            each.bucket.balance -= each.amount
        return taken

    @asynccontextmanager
    async def reserved(self, estimate: TokenEstimate) -> AsyncIterator[list[TokenReservation]]:
        """Run the body once all tokens of a call are taken, first come, first served.

        If it is cancelled, or the body raises, what was taken is given back.
        """
        taken: list[TokenReservation] = []
        try:
            async with self._entrance:
                for limit, bucket in self._buckets.items():
                    amount = limit.expected(estimate)
                    await bucket.take(amount)
                    taken.append(TokenReservation(limit, bucket, amount))
                yield taken
        except BaseException:
            for each in taken:
                each.bucket.settle(each.amount, 0.0)
            raise

    def bottlenecks(self, now: float) -> list[Bottleneck]:
        """How much of each budget is in use at loop time `now` (s)."""
        return [
            Bottleneck(limit.resource, bucket.share(now)) for limit, bucket in self._buckets.items()
        ]
