"""One model, ready to be asked: its provider, and around it all that keeps the asking in bounds."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.accounting.budget import Budget, ModelBudget
from oversight.engine.accounting.ledger import Ledger, Metered, UsageTotals
from oversight.engine.accounting.prices import PriceList
from oversight.engine.accounting.quarantine import Quarantine
from oversight.engine.limits.lease import Lease
from oversight.engine.limits.limits import Limits
from oversight.engine.limits.rate_limiter import RateLimiter
from oversight.engine.models.prefix_warmup import PrefixWarmup
from oversight.engine.models.retry import Retry
from oversight.engine.providers.limit_headers import HeaderLimits
from oversight.engine.providers.prompt_cache import kept_prefix
from oversight.engine.providers.provider import Provider
from oversight.engine.stop import StopToken
from oversight.engine.throughput import LimitStatistics


@dataclass(frozen=True, slots=True)
class Accounting:
    """What the models of one run share."""

    ledger: Ledger
    prices: PriceList
    budget: Budget | None = None
    """None: no cap."""
    quarantine: Quarantine | None = None
    """None: malformed bodies are not kept."""


class ModelClient:
    """An `Ask` for one model: Primed(Retry(Limited(Metered(provider)))).

    A retry waits in line again and holds nothing meanwhile; every try takes a slot, its tokens
    and its dollars, and is a line in the ledger. Raises what is left when all retries are used up,
    or the Halt that ends the run. UsageError, when it is made, if there is a budget and no price.
    """

    def __init__(
        self,
        model: str,
        provider: Provider,
        limits: Limits,
        stop_token: StopToken,
        accounting: Accounting,
        jitter: Callable[[], float] = random.random,
        *,
        own: bool = False,
        lease: Lease | None = None,
    ) -> None:
        """provider: it may answer for other models too. jitter: draws from [0, 1). own: whether
        its server is the user's own. lease: the part of the limits that may be used; None for all
        of them."""
        model_budget = (
            None
            if accounting.budget is None
            else ModelBudget(accounting.budget, accounting.prices.need(model))
        )
        page = accounting.ledger.page(model, accounting.prices.find(model))
        metered = Metered(provider, page, accounting.quarantine)
        self.model = model
        self._provider = provider
        self._ledger = accounting.ledger
        self.limiter = RateLimiter(
            metered,
            limits,
            stop_token=stop_token,
            model_budget=model_budget,
            jitter=jitter,
            own=own,
            lease=lease,
        )
        self._ask = PrefixWarmup(
            Retry(self.limiter, stop_token, self.limiter.breaker, jitter), kept_prefix
        )
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
            self.limiter.learn(Limits(*(limit or None for limit in limits)))

    def statistics(self) -> LimitStatistics:
        """How fast it goes just now, and what holds it back."""
        return self.limiter.statistics()

    def account(self) -> UsageTotals:
        """What was asked so far, and what came of it."""
        return self._ledger.account(self.model)

    async def close(self) -> None:
        """Close the provider. Safe to call twice, and for each of its models."""
        await self._provider.close()
