"""One model, ready to be asked: its provider, and around it all that keeps the asking in bounds."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from cache.call import Call
from cache.reply import Reply
from engine.books.budget import Budget, Purse
from engine.books.ledger import Account, Ledger, Metered
from engine.books.prices import PriceList
from engine.books.quarantine import Quarantine
from engine.limits.gauge import LimitStatistics
from engine.limits.latch import Latch
from engine.limits.limited import Limited
from engine.limits.limits import Limits
from engine.limits.primed import Primed
from engine.limits.retry import Retry
from engine.providers.limit_headers import HeaderLimits
from engine.providers.prompt_cache import kept_prefix
from engine.providers.provider import Provider


@dataclass(frozen=True, slots=True)
class Books:
    """What the models of one run share."""

    ledger: Ledger
    prices: PriceList
    budget: Budget | None = None
    """None: no cap."""
    quarantine: Quarantine | None = None
    """None: malformed bodies are not kept."""


class Endpoint:
    """An `Ask` for one model: Primed(Retry(Limited(Metered(provider)))).

    A retry waits in line again and holds nothing meanwhile; every try takes a slot, its tokens
    and its dollars, and is a line in the ledger. Raises what is left when all retries are used up,
    or the Halt that ends the run. SweepError, when it is made, if there is a budget and no price.
    """

    def __init__(
        self,
        model: str,
        provider: Provider,
        limits: Limits,
        latch: Latch,
        books: Books,
        jitter: Callable[[], float] = random.random,
        *,
        own: bool = False,
    ) -> None:
        """provider: it may answer for other models too. jitter: draws from [0, 1). own: whether
        its server is the user's own."""
        purse = None if books.budget is None else Purse(books.budget, books.prices.need(model))
        page = books.ledger.page(model, books.prices.find(model))
        metered = Metered(provider, page, books.quarantine)
        self.model = model
        self._provider = provider
        self._ledger = books.ledger
        self._limited = Limited(metered, limits, latch=latch, purse=purse, jitter=jitter, own=own)
        self._ask = Primed(Retry(self._limited, latch, self._limited.breaker, jitter), kept_prefix)
        self._told: tuple[int | None, ...] = ()

    async def __call__(self, call: Call) -> Reply:
        return await self._ask(call)

    def hear(self, told: HeaderLimits) -> None:
        """Take over the limits that the server tells, where the sweep file sets none."""
        apart = told.input_tokens.limit or told.output_tokens.limit
        limits = (
            told.requests.limit,
            # Where both kinds have limits of their own, this is but the tighter of the two.
            None if apart else told.tokens.limit,
            told.input_tokens.limit,
            told.output_tokens.limit,
        )
        if limits != self._told:
            self._told = limits
            self._limited.learn(Limits(*(limit or None for limit in limits)))

    def statistics(self) -> LimitStatistics:
        """How fast it goes just now, and what holds it back."""
        return self._limited.statistics()

    def account(self) -> Account:
        """What was asked so far, and what came of it."""
        return self._ledger.account(self.model)

    async def close(self) -> None:
        """Close the provider. Safe to call twice, and for each of its models."""
        await self._provider.close()
