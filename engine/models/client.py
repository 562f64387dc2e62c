"""The client of one model: its provider under prefix warm-up, retries, limits and accounting."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..providers.limit_headers import HeaderLimits
from ..providers.prompt_cache import keeps_prefixes, kept_prefix
from ..providers.provider import Provider
from ..stop import StopToken
from .accounting.budget import Budget, ModelBudget
from .accounting.ledger import Ledger, Metered
from .accounting.prices import PriceList
from .accounting.quarantine import Quarantine
from .limits.limits import Limits
from .limits.rate_limiter import RateLimiter
from .prefix_warmup import PrefixWarmup
from .retry import Retry


@dataclass(frozen=True, slots=True)
class Accounting:
    """Ledger, prices, budget and quarantine, which all models of a run share."""

    ledger: Ledger
    prices: PriceList
    budget: Budget | None = None
    """None: no cap."""
    quarantine: Quarantine | None = None
    """None: malformed bodies are not kept."""


class ModelClient:
    """An `Ask` for one model: PrefixWarmup(Retry(RateLimiter(Metered(provider)))).

    A retry waits in line again and holds nothing meanwhile; every try takes a slot, its tokens
    and its dollars, and is a line in the ledger. Raises the last error once all retries are used
    up, or the Halt that ends the run. Making one raises UsageError if there is a budget and no
    price.
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
        servers: int = 1,
    ) -> None:
        """provider: may be shared with other models. jitter: draws from [0, 1). own: whether the
        server is the user's own; servers: how many of those there are."""
        model_budget = (
            None
            if accounting.budget is None
            else ModelBudget(accounting.budget, accounting.budget.price(model, accounting.prices))
        )
        self.page = accounting.ledger.page(model, accounting.prices.find(model))
        self.limiter = RateLimiter(
            Metered(provider, self.page, accounting.quarantine),
            limits,
            stop_token=stop_token,
            model_budget=model_budget,
            jitter=jitter,
            own=own,
            servers=servers,
        )
        retry = Retry(self.limiter, stop_token, self.limiter.breaker, jitter)
        self.ask: Ask = PrefixWarmup(retry, kept_prefix) if keeps_prefixes(model) else retry
        self._stated: tuple[int | None, ...] = ()

    def __call__(self, call: Call) -> Awaitable[Reply]:
        return self.ask(call)

    def adopt_limits(self, stated: HeaderLimits, sharers: int = 1) -> None:
        """Use the limits that the server states, where the sweep file sets none; of those that
        several processes share, a part."""
        apart = stated.input_tokens.limit or stated.output_tokens.limit
        limits = (
            stated.requests.limit,
            # Where input and output have limits of their own, this is just the tighter one.
            None if apart else stated.tokens.limit,
            stated.input_tokens.limit,
            stated.output_tokens.limit,
        )
        if limits != self._stated:
            self._stated = limits
            self.limiter.learn(Limits(*(limit or None for limit in limits)).part(sharers))
