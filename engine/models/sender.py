"""Sends one model's calls: limits, ledger, wire and retries in one coroutine."""

import random
from collections.abc import Callable

from ...cache.call import Ask, Call
from ...cache.reply import Reply
from ..errors import EngineError, Malformed
from ..providers.fault import HeaderLimits
from ..providers.provider import HttpProvider
from ..stop import StopToken
from ..tokens import CAUTION, prompt_tokens
from .accounting.budget import ModelBudget
from .accounting.ledger import ABANDONED, Accounting, fate
from .limits.breaker import GIVE_UP, Tries
from .limits.buckets import Limits
from .limits.concurrency import Connections
from .limits.rate_limiter import RateLimiter


class Sender:
    """An `Ask` for one model.

    Every try waits for a slot, tokens and dollars. It is entered in the ledger before it is sent
    and when it completes. The kind of fault decides about retries:

    | fault                     | retries                                                       |
    | --------------------------|---------------------------------------------------------------|
    | Unreachable, Overloaded   | 6, with backoff; not counted while the breaker is open        |
    | UnknownFault              | the same, if the model has answered a call before; else none  |
    | both, not Unreachable     | 4, if only this call fails while others are answered          |
    | OutcomeUnknown, Malformed | 2, with backoff: each try may cost money                      |
    | ServerBusy                | 8, after a second: fewer are in flight each time              |
    | RateLimited               | unlimited: the limiter makes everyone wait as the server says |
    | AuthenticationFailed      | until the stop token is set: the limiter sends one probe      |
    | all others                | none                                                          |

    A longer wait that the server asks for replaces the backoff, plus up to a tenth. Each kind of
    fault is counted separately. Nothing is held during a wait, and a Halt ends it. Raises the last
    error after the last retry, or the Halt that ends the run. The constructor raises UsageError for
    a budget without a price."""

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
        give_up: float = GIVE_UP,
    ) -> None:
        """provider: may be shared by several models. jitter: draws from [0, 1). own: whether the
        server is self-hosted. connections: of the provider; None for any number. give_up: seconds
        without any answer until the run gives up."""
        budget, prices = accounting.budget, accounting.prices
        self._price = prices.find(model)
        self.page = page = accounting.ledger.page(model, self._price)
        """The model's account in the ledger."""
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
            give_up=give_up,
        )
        self._provider = provider
        self._http = provider if isinstance(provider, HttpProvider) else None
        self._stop_token = stop_token
        self._quarantine = accounting.quarantine
        self._jitter = jitter
        self._stated: tuple[int | None, ...] = ()

    async def __call__(self, call: Call) -> Reply:
        limiter, page, http, price = self.limiter, self.page, self._http, self._price
        tries: Tries | None = None
        while True:
            reservation = limiter.enter(call)
            if reservation is None:
                reservation = await limiter.line_up(call, tries is None)
            # Most dollars that this try can cost, and the time at which it was sent.
            worst = sent = 0.0
            if price is not None:
                input_tokens = (
                    reservation.estimate.max_input
                    if reservation.estimate
                    else CAUTION * prompt_tokens(call)
                )
                worst = price.worst(input_tokens, call.request.max_tokens)
            page.begun(worst)
            try:
                if http is None:
                    reply = await self._provider(call)
                else:
                    reply, sent = http.receive(call, await http.send(call))
            except EngineError as exc:
                page.failed(fate(exc), type(exc).__name__, worst)
                if self._quarantine is not None and isinstance(exc, Malformed):
                    self._quarantine.keep(call, exc)
                tries = tries or Tries(self._jitter, limiter.answers)
                fault = limiter.failed(exc, reservation, tries)
                wait = tries.wait(fault, limiter.breaker.closed, limiter.stop_token.halt is None)
                if wait is None:
                    if fault is exc:
                        raise
                    raise fault from exc
            except BaseException:
                page.failed("unconfirmed", ABANDONED, worst)
                limiter.abandoned(reservation)
                raise
            else:
                page.reply(reply, limiter.answered(reply, reservation, sent), worst)
                return reply
            if wait:
                await self._stop_token.sleep(wait)

    def adopt_limits(self, header_limits: HeaderLimits, sharers: int = 1) -> None:
        """Use the limits that the server states, where the sweep file sets none. sharers: processes
        that divide them."""
        apart = header_limits.input_tokens.limit or header_limits.output_tokens.limit
        limits = (
            header_limits.requests.limit,
            # With separate limits for input and output, this is just the tighter one.
            None if apart else header_limits.tokens.limit,
            header_limits.input_tokens.limit,
            header_limits.output_tokens.limit,
        )
        if limits != self._stated:
            self._stated = limits
            self.limiter.learn(Limits(*(limit or None for limit in limits)).part(sharers))
