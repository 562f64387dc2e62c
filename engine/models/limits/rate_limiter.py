"""The rate limiter of a model: waits, slots and halts for all its callers."""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from weakref import WeakSet

from msgspec import Struct

from ....cache.call import Call
from ....cache.reply import Reply, Usage
from ...display.throughput import Bottleneck, LimitStatistics, ThroughputMeter
from ...errors import (
    AuthenticationFailed,
    EngineError,
    GaveUp,
    Halt,
    InvalidRequest,
    Malformed,
    NeverAnswered,
    OutcomeUnknown,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    ServerBusy,
    TransientError,
    UnknownFault,
    Unreachable,
)
from ...stop import StopToken
from ...tokens import TokenEstimate, TokenEstimator
from ..accounting.budget import ModelBudget
from ..accounting.ledger import billed, fate
from .breaker import (
    GIVE_UP,
    MAX_UNKNOWN,
    Breaker,
    EqualFailures,
    Tries,
    overlong_delay,
    spoken,
    with_return,
)
from .buckets import Bucket, Limits, TokenBuckets, TokenReservation
from .concurrency import (
    MIN_VENDOR_WIDTH,
    START,
    AdaptiveConcurrency,
    AdmissionGate,
    ConcurrencySearch,
    Connections,
)
from .throttle import Throttle

MAX_FAILING = 2
"""A fault lies with a call if, since its first failure, at least this many times as many calls were
answered as are failing now."""


class Reservation(Struct, eq=False):
    """Resources of one call in flight, to be settled when it completes."""

    sent: float
    """When it was sent (loop time, s)."""
    estimate: TokenEstimate | None = None
    """None where neither rates nor dollars are limited."""
    tokens: Sequence[TokenReservation] = ()
    requests: Bucket | None = None
    worst: float = 0.0
    """Dollars reserved."""


class RateLimiter:
    """Keeps the calls of one (provider, model) to its limits.

    A call enters, or lines up; then it is answered, has failed, or is abandoned. The line is first
    come, first served, whatever the size of the calls. An error affects everyone: a 429 pauses and
    slows all calls, failures open the breaker, a Halt sets the stop token. Some errors change:

    - A delay of more than 15 minutes becomes ProviderDown; 30 minutes without any answer, or
      `give_up`, become GaveUp. If all remaining calls have failed, only they fail.
    - An UnknownFault after an answer counts as a failure of the server, unless only this call has
      it.
    - OutcomeUnknown of a self-hosted server that had other calls too becomes ServerBusy.
    - InvalidRequest of a model without any answer becomes NeverAnswered; twenty with one cause
      become AllRefused, since all calls have that cause.

    AuthenticationFailed is final only once the stop token is set: before, the next call is the
    probe. Raises ExceedsRateLimit for a call above a whole minute's budget. A caller that is
    cancelled in line takes nothing; one that is cancelled in flight keeps its reservation, since
    the server may have done the work.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        stop_token: StopToken | None = None,
        model_budget: ModelBudget | None = None,
        jitter: Callable[[], float] = random.random,
        own: bool = False,
        connections: Connections | None = None,
        give_up: float = GIVE_UP,
    ) -> None:
        """jitter: draws from [0, 1). own: whether the server is self-hosted: it serves few calls at
        once, queues the others, and bills nothing. connections: of its provider; None for any
        number. give_up: seconds without any answer until the run gives up."""
        self.stop_token = stop_token or StopToken()
        self.breaker = Breaker(give_up)
        self._set = limits or Limits()
        self._limits = Limits()
        self._model_budget = model_budget
        self._throttle = Throttle(jitter)
        self._own = own
        ceiling = self._set.concurrency
        least = 1.0 if own else MIN_VENDOR_WIDTH
        searches = own and ceiling is None
        # Self-hosted servers serve as many calls as they are set to, or state their slots.
        start = math.inf if own else float(START)
        self._slots = (
            ConcurrencySearch() if searches else AdaptiveConcurrency(ceiling, least, start)
        )
        self._connections = connections or Connections()
        self._admission = AdmissionGate(
            *(self.stop_token, self._throttle, self.breaker, self._slots),
            *(model_budget, self._connections),
        )
        self._estimator = TokenEstimator()
        self._requests: Bucket | None = None
        self._tokens = TokenBuckets(self.stop_token)
        self._waiting = self._fresh = 0
        """Calls in line, and the number of them without a failed try."""
        self._open: dict[Reservation, None] = {}
        """Requests in flight, the oldest first."""
        self._last_answer = -math.inf
        self.answers = 0
        """Calls answered so far."""
        self._failing: WeakSet[Tries] = WeakSet()
        """Tries of the calls whose last try failed."""
        self._fault = self._words = ""
        """The last fault and the server's words for it, if no answer followed."""
        self._failed_alike = EqualFailures()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop, from the first call on."""
        self._replies = ThroughputMeter()
        self.learn(Limits())

    def learn(self, server_limits: Limits) -> None:
        """Use the limits that the server states, where the sweep file sets none."""
        limits = self._set.filled(server_limits).filled(self._limits)
        if limits.requests is not None and limits.requests != self._limits.requests:
            self._requests = Bucket(limits.requests, self.stop_token, least=1.0)
        self._tokens.learn(limits)
        self._limits = limits
        self._bounded = bool(self._requests or self._tokens or self._model_budget)

    @property
    def unknown_width(self) -> float:
        """Maximum calls in flight at a server with unknown slots; 0 for others."""
        return self._slots.width if isinstance(self._slots, ConcurrencySearch) else 0.0

    def load_stated(self, running: int, waiting: int) -> None:
        """The server states its load but not its slots; see `ConcurrencySearch.load_stated`."""
        if isinstance(self._slots, ConcurrencySearch):
            self._slots.load_stated(running, waiting)
            self._admission.look()

    def load_unknown(self) -> None:
        """The server no longer states its load."""
        if isinstance(self._slots, ConcurrencySearch):
            self._slots.load_unknown()

    def statistics(self) -> LimitStatistics:
        now = self._now()
        return LimitStatistics(
            per_second=self._replies.rate(now),
            in_flight=self._slots.busy,
            waiting=self._waiting,
            width=min(self._slots.width, self._connections.most),
            pace=self._throttle.pace(now),
            binding=self._binding(now) if self._waiting else None,
            still=now - self._last_answer,
            oldest=now - next((reservation.sent for reservation in self._open), now),
            fault=self._fault,
            words=self._words,
            probes_every=self.breaker.wait,
            give_up=self.breaker.give_up,
        )

    def enter(self, call: Call) -> Reservation | None:
        """Admit a call that need not wait and passes no waiting call; None if it must line up.
        Raises the Halt of the stop token. Must check and take exactly as `line_up` and
        `AdmissionGate.leave` do."""
        if self.stop_token.halt is not None:
            self.stop_token.raise_if_stopped()
        slots, model_budget, connections = self._slots, self._model_budget, self._connections
        if (
            self._waiting
            or slots.busy + 1 > slots.width
            or connections.busy >= connections.most
            or connections.line
            or not self._throttle.quiet
            or self.breaker.state != "closed"
        ):
            return None
        reservation = Reservation((self._loop or self._found()).time())
        if self._bounded:
            requests = reservation.requests = self._requests
            if requests is not None and requests.balance < 1.0:
                return None
            reservation.estimate = estimate = self._estimator.demand(call)
            if model_budget is not None:
                reservation.worst = model_budget.worst(estimate)
                if not model_budget.budget.fits(reservation.worst):
                    return None
            # A call that exceeds a limit is refused in line.
            tokens = self._tokens.taken_at_once(estimate)
            if tokens is None:
                return None
            reservation.tokens = tokens
            if requests is not None:
                requests.balance -= 1.0
            if model_budget is not None:
                model_budget.budget.reserve(reservation.worst)
        slots.take()
        connections.busy += 1
        self._open[reservation] = None
        return reservation

    async def line_up(self, call: Call, fresh: bool = True) -> Reservation:
        """Wait for tokens, then at the admission gate. Nothing is kept after a cancellation or
        Halt. fresh: whether the call has not failed yet."""
        estimate = self._estimator.demand(call)
        self._tokens.require_fit(call.model, estimate)
        self._waiting += 1
        self._fresh += fresh
        try:
            if not self._tokens:
                return await self._leave(estimate, ())
            async with self._tokens.reserved(estimate) as tokens:
                return await self._leave(estimate, tokens)
        finally:
            self._waiting -= 1
            self._fresh -= fresh

    async def _leave(
        self, estimate: TokenEstimate, tokens: Sequence[TokenReservation]
    ) -> Reservation:
        worst = await self._admission.leave(estimate, self._requests)
        reservation = Reservation(self._now(), estimate, tokens, self._requests, worst)
        self._open[reservation] = None
        return reservation

    def answered(self, reply: Reply, reservation: Reservation, sent: float = 0.0) -> float:
        """Record an answer; returns the seconds since it was sent. sent: when (loop time, s), if
        known: opening a connection may have delayed it."""
        now = (self._loop or self._found()).time()
        sent = sent or reservation.sent
        self._throttle.answered()
        self._slots.answered(now - sent)
        self.breaker.answered(sent)
        self._replies.add(1.0, now)
        self._last_answer = now
        self.answers += 1
        self._fault = self._words = ""
        self._completed(reservation, billed(reply) if reservation.estimate else None)
        if reservation.estimate is not None:
            self._estimator.observe(reservation.estimate, reply.usage)
        return now - sent

    def abandoned(self, reservation: Reservation) -> None:
        self.breaker.abandoned(reservation.sent, self._now())
        self._completed(reservation, None)

    def failed(self, exc: EngineError, reservation: Reservation, tries: Tries) -> EngineError:
        """Apply a call's fault to all callers; returns the error to raise."""
        sent, now = reservation.sent, self._now()
        self._fault, self._words = str(exc), exc.words
        halt: Halt | None = None
        unconfirmed = fate(exc) == "unconfirmed"
        match exc:
            case RateLimited():
                # A pause; and a smaller width in a storm.
                if self._throttle.refused(exc.delay, sent, now):
                    self._slots.refused()
                self.breaker.refused(sent, now)
            case AuthenticationFailed():
                halt = exc if self.breaker.doubt_key(sent, now) else None
            case QuotaExhausted():
                halt = with_return(exc)
            case Halt():
                halt = exc
            case Unreachable():
                self.breaker.failed(sent, now, exc.delay)
                self._slots.overloaded(sent, now)
                if reservation.requests:
                    reservation.requests.settle(1.0, 0.0)
            case OutcomeUnknown() | Overloaded():
                alone = self._lies_with_call(tries, sent, now)
                if not alone:
                    self.breaker.failed(sent, now, exc.delay)
                if not isinstance(exc, Malformed) and not (alone and isinstance(exc, Overloaded)):
                    self._slots.overloaded(sent, now)
            case UnknownFault() if self._last_answer > -math.inf:
                if not self._lies_with_call(tries, sent, now):
                    self.breaker.failed(sent, now, most=MAX_UNKNOWN)
            case _:
                self.breaker.answered(sent)
                if type(exc) in (InvalidRequest, UnknownFault) and self._last_answer == -math.inf:
                    exc = NeverAnswered(str(exc))
                    halt = self._failed_alike.add(str(exc))
        self._completed(reservation, None if unconfirmed else Usage())
        if isinstance(exc, TransientError):
            halt = overlong_delay(exc) or halt
        if halt is None and self.breaker.silence(now) >= self.breaker.give_up:
            others = self._fresh or self._slots.busy or self.stop_token.halt
            tries.given_up = self.stop_token.last_cells and not others
            if not tries.given_up:
                halt = GaveUp(f"no answer for {spoken(self.breaker.give_up)}; last: {exc}")
        if halt is None:
            crowd = self._own and self._slots.busy
            if crowd and isinstance(exc, OutcomeUnknown) and not isinstance(exc, Malformed):
                return ServerBusy(f"{exc}, with {crowd} other calls in flight")
            return exc
        self.stop_token.stop(halt)
        return halt

    def _lies_with_call(self, tries: Tries, sent: float, now: float) -> bool:
        """Count a failure; returns whether it lies with the call and not with the server."""
        self._failing.add(tries)
        passed = self.answers - tries.answers
        tries.alone = tries.failures > 0 and passed >= MAX_FAILING * len(self._failing)
        tries.failures += 1
        if tries.alone:
            self.breaker.abandoned(sent, now)
        return tries.alone

    def _completed(self, reservation: Reservation, usage: Usage | None) -> None:
        """Free the slot of a call, and correct its reservations by its bill. usage: None if
        unknown; then the reserved amounts count as spent."""
        del self._open[reservation]
        self._slots.busy -= 1
        self._connections.busy -= 1
        if self._connections.line:
            self._connections.look()
        if usage is not None:
            for tokens in reservation.tokens:
                if tokens.limit.actual is not None:
                    tokens.bucket.settle(tokens.amount, tokens.limit.actual(usage))
        if self._model_budget is not None and reservation.estimate is not None:
            self._model_budget.settle(reservation.worst, usage)
        if self._waiting:
            self._admission.look()

    def _binding(self, now: float) -> Bottleneck | None:
        held_by, slots = self._admission.held_by, self._slots
        if held_by in ("pause", "outage", "budget"):
            return Bottleneck(held_by, 0.0, max(self._admission.until - now, 0.0))
        if held_by == "pace":
            return Bottleneck(held_by, 1.0, self._throttle.pace(now))
        if held_by == "connections":
            return Bottleneck(held_by, 1.0, self._connections.most)
        limits = self._tokens.bottlenecks(now)
        if self._requests is not None:
            limits.append(Bottleneck("requests", self._requests.share(now)))
        if held_by == "concurrency" or not (limits or slots.unlimited):
            return Bottleneck("concurrency", slots.busy / max(slots.width, 1.0), int(slots.width))
        # A caller that is about to leave is not limited by anything.
        return max(limits, key=lambda binding: binding.share, default=None)

    def _now(self) -> float:
        return (self._loop or self._found()).time()

    def _found(self) -> asyncio.AbstractEventLoop:
        # Looking up the loop is a system call in Python 3.11.
        self._loop = asyncio.get_running_loop()
        return self._loop
