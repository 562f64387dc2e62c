"""The sender of one model's calls: limits, ledger, wire and retries in one coroutine."""

import random
from collections.abc import Callable

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import (
    AuthenticationFailed,
    Crowded,
    EngineError,
    Malformed,
    OutcomeUnknown,
    Overloaded,
    RateLimited,
    Unreachable,
)
from ..providers.limit_headers import HeaderLimits
from ..providers.prompt_cache import keeps_prefixes, kept_prefix
from ..providers.provider import HttpProvider
from ..stop import StopToken
from ..tokens import CAUTION, prompt_tokens
from .accounting.budget import ModelBudget
from .accounting.ledger import ABANDONED, Accounting, fate
from .limits.admission_gate import Connections
from .limits.limits import Limits
from .limits.rate_limiter import RateLimiter
from .prefix_warmup import PrefixWarmup

MAX_UNBILLED = 6
"""Retries after faults for which nothing was billed."""

MAX_BILLED = 2
"""Retries after faults that may have been billed: sent, but no whole answer came."""

MAX_CROWDED = 8
"""Retries of a call that the user's own server was too crowded to answer: nothing is billed, and
each time fewer are in flight."""

MAX_RETRY_WAIT = 60.0
"""Seconds between two tries at most: they wait 1, 2, 4 … s, times a draw from [0.5, 1)."""


class Sender:
    """An `Ask` for one model.

    Every try waits in line for its slot, its tokens and its dollars, is entered in the ledger
    before it leaves and when it is back, and is tried again by the kind of fault:

    | fault                     | retries                                                       |
    |---------------------------|---------------------------------------------------------------|
    | Unreachable, Overloaded   | 6, with backoff; none counted while the breaker is open       |
    | OutcomeUnknown, Malformed | 2, with backoff: each try may cost money                      |
    | Crowded                   | 8, after a second: fewer are in flight each time              |
    | RateLimited               | unlimited: the limiter makes everyone wait as the server says |
    | AuthenticationFailed      | until the stop token is set: the limiter sends one probe      |
    | all others                | none                                                          |

    If the server asks for a longer wait than the backoff, the wait is that and up to a tenth more.
    Each kind of fault has a count of its own. Nothing is held during a wait, and a Halt ends it.
    Raises the last error once all retries are used up, or the Halt that ends the run. Making one
    raises UsageError if there is a budget and no price.
    """

    def __init__(
        self,
        model: str,
        provider: Ask,
        limits: Limits,
        stop_token: StopToken,
        accounting: Accounting,
        jitter: Callable[[], float] = random.random,
        *,
        own: bool = False,
        connections: Connections | None = None,
    ) -> None:
        """provider: may be shared with other models. jitter: draws from [0, 1). own: whether the
        server is the user's own. connections: of the provider; None for any number."""
        budget, prices = accounting.budget, accounting.prices
        self._price = prices.find(model)
        self.page = page = accounting.ledger.page(model, self._price)
        model_budget = None
        if budget is not None:
            model_budget = ModelBudget(budget, budget.price(model, prices), page.count_unstated)
        self.limiter = RateLimiter(
            limits,
            stop_token=stop_token,
            model_budget=model_budget,
            jitter=jitter,
            own=own,
            connections=connections,
        )
        self._provider = provider
        self._http = provider if isinstance(provider, HttpProvider) else None
        self._stop_token = stop_token
        self._quarantine = accounting.quarantine
        self._jitter = jitter
        self._stated: tuple[int | None, ...] = ()
        self.ask: Ask = PrefixWarmup(self, kept_prefix) if keeps_prefixes(model) else self
        """Where its vendor keeps prefixes of prompts, the first call of each goes alone."""

    async def __call__(self, call: Call) -> Reply:
        limiter, page, http, price = self.limiter, self.page, self._http, self._price
        tries: Tries | None = None
        while True:
            held = limiter.enter(call)
            if held is None:
                held = await limiter.line_up(call)
            worst = sent = 0.0
            if price is not None:
                given = held.estimate.max_input if held.estimate else CAUTION * prompt_tokens(call)
                worst = price.worst(given, call.request.max_tokens)
            page.begun(worst)
            try:
                if http is None:
                    reply = await self._provider(call)
                else:
                    reply, sent = http.land(call, await http.start(call))
            except EngineError as exc:
                page.failed(fate(exc), type(exc).__name__, worst)
                if self._quarantine is not None and isinstance(exc, Malformed):
                    self._quarantine.keep(call, exc)
                fault = limiter.failed(exc, held)
                tries = tries or Tries(self._jitter)
                wait = tries.wait(fault, limiter)
                if wait is None:
                    if fault is exc:
                        raise
                    raise fault from exc
            except BaseException:
                page.failed("ambiguous", ABANDONED, worst)
                limiter.abandoned(held)
                raise
            else:
                page.reply(reply, limiter.answered(reply, held, sent), worst)
                return reply
            if wait:
                await self._stop_token.sleep(wait)

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


class Tries:
    """How often one call has failed, by the kind of fault."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._unbilled = self._billed = self._crowded = 0

    def wait(self, fault: EngineError, limiter: RateLimiter) -> float | None:
        """Seconds to wait before the call is tried again; None if it is not."""
        match fault:
            case RateLimited():
                # The limiter holds the next try back for as long as the server asks.
                return 0.0
            case AuthenticationFailed():
                # The limiter lets one probe out; the token is set if the key is refused again.
                return 0.0 if limiter.stop_token.halt is None else None
            case Crowded():
                self._crowded += 1
                return self._backoff(1) if self._crowded <= MAX_CROWDED else None
            case OutcomeUnknown():
                self._billed += 1
                return self._backoff(self._billed) if self._billed <= MAX_BILLED else None
            case Unreachable() | Overloaded():
                if not limiter.breaker.closed:
                    return 0.0
                self._unbilled += 1
                if self._unbilled <= MAX_UNBILLED:
                    return self._backoff(self._unbilled, fault.delay)
        return None

    def _backoff(self, tries: int, delay: float = 0.0) -> float:
        """Seconds to wait after so many tries of one kind. delay: what the server asks for (s)."""
        draw = self._jitter()
        return max(
            min(MAX_RETRY_WAIT, 2.0 ** (tries - 1)) * (1 + draw) / 2, delay * (1 + draw / 10)
        )
