"""An `Ask` that keeps a model's limits, for everyone who asks it."""

import asyncio
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply, Usage
from oversight.engine.accounting.budget import ModelBudget
from oversight.engine.errors import (
    AllRefused,
    AuthenticationFailed,
    Crowded,
    EngineError,
    ExceedsRateLimit,
    Halt,
    InvalidRequest,
    Malformed,
    NeverAnswered,
    OutcomeUnknown,
    Overloaded,
    ProviderDown,
    RateLimited,
    TransientError,
    Unreachable,
    UnrecognizedReply,
)
from oversight.engine.limits.admission_gate import AdmissionGate
from oversight.engine.limits.breaker import GIVE_UP, Breaker
from oversight.engine.limits.bucket import Bucket
from oversight.engine.limits.climb import Climb
from oversight.engine.limits.concurrency import LEAST, AdaptiveConcurrency
from oversight.engine.limits.lease import Lease
from oversight.engine.limits.limits import Limits
from oversight.engine.limits.throttle import Throttle
from oversight.engine.stop import StopToken
from oversight.engine.throughput import Bottleneck, LimitStatistics, ThroughputMeter
from oversight.engine.tokens import (
    COMBINED,
    INPUT,
    OUTPUT,
    TokenEstimate,
    TokenEstimator,
    TokenLimit,
)

MAX_DELAY = 900.0
"""Seconds: a server that asks for a longer wait stops the run, which can be resumed."""

MAX_TOLD = 366 * 86_400.0
"""Seconds: a longer wait has no date to name; a server may send any number."""

LOOKAHEAD = 16
"""Calls that may gather their tokens at once. With one, a call that waits for output tokens leaves
input tokens unspent that the next call could have gathered: of two budgets that both nearly bind,
57 % was used with one, 93 % with 8, 99 % with 16, and no more with 64."""


WORTH_TELLING = 0.1
"""The part of itself by which a pause outlasts the one that others know of, before they are told:
all that were in flight together are refused, each with a delay of its own chance."""

ALIKE = 20
"""Calls that fail for good of one cause, before any is answered, until the run stops."""


@dataclass(frozen=True, slots=True)
class Flight:
    """What one call in flight holds, to be settled when it lands."""

    demand: TokenEstimate
    taken: tuple[tuple[TokenLimit, Bucket, float], ...]
    requests: Bucket | None
    worst: float
    """Dollars reserved."""


class RateLimiter:
    """Asks `inner` no faster than the limits of its model allow; one for each (provider, model).

    Callers wait in one line, first come, first served, whatever the size of their calls. Errors
    of `inner` pass through once they have had their effect on everyone: a 429 pauses and slows
    all, failures open the breaker, a Halt pulls the latch. Some change on the way: a delay of more
    than 15 minutes, or 30 minutes without any answer, becomes ProviderDown; no whole answer of a
    server of one's own, that has other calls as well, becomes Crowded. An AuthenticationFailed is
    only
    final once the latch is pulled: before that, the next call to leave is the probe.

    An InvalidRequest of a model that has answered nothing yet is a NeverAnswered; twenty of one
    cause are a
    ModelNotFound, as what they complain of is in all calls.

    Raises ExceedsRateLimit for a call that exceeds a whole minute's budget. A caller that is
    cancelled in
    line takes nothing; one that is cancelled in flight keeps what it reserved, since the server
    may have done the work.
    """

    def __init__(
        self,
        inner: Ask,
        limits: Limits | None = None,
        *,
        stop_token: StopToken | None = None,
        model_budget: ModelBudget | None = None,
        jitter: Callable[[], float] = random.random,
        own: bool = False,
        lease: Lease | None = None,
    ) -> None:
        """jitter: draws from [0, 1). own: whether the server is the user's own, which serves few
        calls at once, queues the others, and bills nothing. lease: the part of the limits that may
        be used; None for all of them."""
        self.stop_token = stop_token or StopToken()
        self.lease = lease or Lease()
        self.breaker = Breaker()
        self._inner = inner
        self._set = limits or Limits()
        self._limits = Limits()
        self._model_budget = model_budget
        self._throttle = Throttle(jitter)
        self._own = own
        climbs = own and self._set.concurrency is None
        self._slots = (
            Climb() if climbs else AdaptiveConcurrency(self._set.concurrency, 1.0 if own else LEAST)
        )
        self._admission = AdmissionGate(
            self.stop_token, self._throttle, self.breaker, self._slots, model_budget, self.lease
        )
        self._paused: Callable[[float], None] = _nobody
        self._told_until = 0.0
        """The end of the longest pause that was told to others."""
        self._entrance = asyncio.Semaphore(LOOKAHEAD)
        self._estimator = TokenEstimator()
        self._requests: Bucket | None = None
        self._tokens: tuple[tuple[TokenLimit, Bucket], ...] = ()
        self._waiting = 0
        self._open: dict[int, float] = {}
        """When each request in flight was sent, the oldest first."""
        self._number = 0
        self._last_answer = -math.inf
        self._fault = ""
        """What went wrong last, if nothing was answered since."""
        self._alike = "", 0
        """What the first calls failed of for good, and how many did, without any answer."""
        self._replies = ThroughputMeter()
        self.learn(Limits())

    def learn(self, told: Limits) -> None:
        """Take over limits that the server told, where the sweep file sets none."""
        limits = self._set.filled(told).filled(self._limits)
        if limits.requests is not None and limits.requests != self._limits.requests:
            self._requests = Bucket(limits.requests, self.stop_token, self.lease.pace, least=1.0)
        old = {kind.resource: bucket for kind, bucket in self._tokens}
        rates = (
            (OUTPUT, limits.output_tokens),
            (INPUT, limits.input_tokens),
            (COMBINED, limits.tokens),
        )
        self._tokens = tuple(
            (kind, bucket)
            if (bucket := old.get(kind.resource)) is not None and bucket.per_minute == rate
            else (kind, Bucket(rate, self.stop_token, self.lease.pace))
            for kind, rate in rates
            if rate is not None
        )
        self._limits = limits

    async def __call__(self, call: Call) -> Reply:
        self.stop_token.raise_if_stopped()
        flight = None
        if self._nothing_holds():
            self._slots.take()
        else:
            flight = await self._line_up(call)
        sent = self._now()
        self._number = number = self._number + 1
        self._open[number] = sent
        try:
            reply = await self._inner(call)
        except EngineError as exc:
            fault = self._failed(exc, flight, sent)
            if fault is exc:
                raise
            raise fault from exc
        except BaseException:
            self.breaker.abandoned(sent, self._now())
            self._settle(flight, None)
            raise
        else:
            self._answered(reply, flight, sent)
            return reply
        finally:
            del self._open[number]
            self._slots.leave()
            self._admission.look()

    def listen(self, paused: Callable[[float], None]) -> None:
        """Have `paused` called with the seconds left whenever a 429 makes a pause longer."""
        self._paused = paused

    def pause(self, seconds: float) -> None:
        """Hold everyone for so long: another process met a 429. It slows nobody down afterwards,
        since each finds its own pace by its own refusals."""
        self._told_until = max(self._told_until, self._now() + seconds)
        self._throttle.hold(self._now() + seconds, self._now())
        self._admission.look()

    def statistics(self) -> LimitStatistics:
        """How fast it goes just now, and what holds it back."""
        now = self._now()
        return LimitStatistics(
            per_second=self._replies.rate(now),
            in_flight=self._slots.busy,
            waiting=self._waiting,
            width=self._slots.width,
            pace=self._throttle.pace(now),
            binding=self._binding(now) if self._waiting else None,
            still=now - self._last_answer,
            oldest=now - next(iter(self._open.values()), now),
            fault=self._fault,
        )

    def _nothing_holds(self) -> bool:
        """Whether a call may leave at once, and pass nobody who waits."""
        return (
            self._requests is None
            and not self._tokens
            and not self._waiting
            and self._slots.free
            and self._model_budget is None
            and self._throttle.quiet
            and self.breaker.closed
            and self.lease.whole
        )

    async def _line_up(self, call: Call) -> Flight:
        """Wait for tokens, then for the door. Cancelled, or halted, it gives back what it took."""
        demand = self._estimator.demand(call)
        self._refuse_too_big(call, demand)
        taken: list[tuple[TokenLimit, Bucket, float]] = []
        self._waiting += 1
        try:
            if not self._tokens:
                return await self._leave(demand, ())
            async with self._entrance:
                for kind, bucket in self._tokens:
                    amount = kind.expected(demand)
                    await bucket.take(amount)
                    taken.append((kind, bucket, amount))
                return await self._leave(demand, tuple(taken))
        except BaseException:
            for _, bucket, amount in taken:
                bucket.settle(amount, 0.0)
            raise
        finally:
            self._waiting -= 1

    async def _leave(
        self, demand: TokenEstimate, taken: tuple[tuple[TokenLimit, Bucket, float], ...]
    ) -> Flight:
        worst = self._model_budget.worst(demand) if self._model_budget else 0.0
        requests = self._requests
        await self._admission.leave(worst, requests)
        return Flight(demand, taken, requests, worst)

    def _refuse_too_big(self, call: Call, demand: TokenEstimate) -> None:
        for kind, bucket in self._tokens:
            if (most := kind.most(demand)) > bucket.per_minute:
                raise ExceedsRateLimit(
                    f"{call.model}: a call of about {most:,.0f} {kind.resource} does not fit the "
                    f"limit of {bucket.per_minute:,.0f} a minute; "
                    "shorten the prompt, lower max_tokens, or raise the limit"
                )

    def _answered(self, reply: Reply, flight: Flight | None, sent: float) -> None:
        now = self._now()
        self._throttle.answered()
        self._slots.answered(now - sent)
        self.breaker.answered(sent)
        self._replies.add(1.0, now)
        self._last_answer = now
        self._fault = ""
        if flight is not None:
            self._settle(flight, _billed(reply))
            self._estimator.observe(flight.demand, reply.usage)

    def _failed(self, exc: EngineError, flight: Flight | None, sent: float) -> EngineError:
        """Let everyone feel the fault; the error to raise."""
        now = self._now()
        self._fault = str(exc)
        halt: Halt | None = None
        match exc:
            case RateLimited():
                self._settle(flight, Usage())
                self._refused(exc.delay, sent, now)
            case AuthenticationFailed():
                self._settle(flight, Usage())
                halt = exc if self.breaker.doubt_key(sent, now) else None
            case Halt():
                self._settle(flight, Usage())
                halt = exc
            case OutcomeUnknown() | Overloaded() | Unreachable():
                self._settle(flight, None if isinstance(exc, OutcomeUnknown) else Usage())
                self.breaker.failed(sent, now, exc.delay)
                if not isinstance(exc, Malformed):
                    self._slots.overloaded(sent, now)
                if isinstance(exc, Unreachable) and flight is not None and flight.requests:
                    flight.requests.settle(1.0, 0.0)
            case _:
                self._settle(flight, None if isinstance(exc, UnrecognizedReply) else Usage())
                self.breaker.answered(sent)
                if type(exc) is InvalidRequest and self._last_answer == -math.inf:
                    exc = NeverAnswered(str(exc))
                    halt = self._all_alike(str(exc))
        if isinstance(exc, TransientError) and exc.delay > MAX_DELAY:
            halt = ProviderDown(_come_back(exc))
        if halt is None and self.breaker.silence(now) >= GIVE_UP:
            halt = ProviderDown(f"no answer for {GIVE_UP / 60:.0f} minutes; last: {exc}")
        if halt is None:
            crowd = self._own and self._slots.busy > 1
            if crowd and isinstance(exc, OutcomeUnknown) and not isinstance(exc, Malformed):
                return Crowded(f"{exc}, with {self._slots.busy - 1} other calls in flight")
            return exc
        self.stop_token.stop(halt)
        return halt

    def _all_alike(self, message: str) -> Halt | None:
        """A Halt once so many calls have failed for good of one cause, and none was answered."""
        cause = re.sub(r"\d+", "0", message)
        first, count = self._alike
        self._alike = cause, count + 1 if cause == first else 1
        if self._alike[1] < ALIKE:
            return None
        return AllRefused(
            f"{message}; the first {ALIKE} calls all ended so, and none was answered. Fix what it "
            "names in the sweep file or at the server; the cells that failed of it are run again"
        )

    def _refused(self, delay: float, sent: float, now: float) -> None:
        """A 429: pause; fewer at once in a storm."""
        if self._throttle.refused(delay, sent, now):
            self._slots.refused()
        self.breaker.refused(sent, now)
        left = self._throttle.until - now
        if self._throttle.until - self._told_until > WORTH_TELLING * left:
            self._told_until = self._throttle.until
            self._paused(left)

    def _settle(self, flight: Flight | None, usage: Usage | None) -> None:
        """Give back what was reserved too much.

        usage: as billed; None if that is not known: then what was reserved counts as spent.
        """
        if flight is None:
            return
        if usage is not None:
            for kind, bucket, reserved in flight.taken:
                bucket.settle(reserved, kind.actual(usage, reserved))
        if self._model_budget is not None:
            spent = flight.worst if usage is None else self._model_budget.cost(usage)
            self._model_budget.budget.settle(flight.worst, spent)

    def _binding(self, now: float) -> Bottleneck | None:
        held_by, slots = self._admission.held_by, self._slots
        if held_by in ("pause", "outage", "budget", "lease"):
            return Bottleneck(held_by, 0.0, max(self._admission.until - now, 0.0))
        if held_by == "pace":
            return Bottleneck(held_by, 1.0, self._throttle.pace(now))
        limits = [Bottleneck(kind.resource, bucket.share(now)) for kind, bucket in self._tokens]
        if self._requests is not None:
            limits.append(Bottleneck("requests", self._requests.share(now)))
        if held_by == "concurrency" or not (limits or slots.unlimited):
            width = slots.width if self.lease.width is None else min(slots.width, self.lease.width)
            return Bottleneck("concurrency", slots.busy / max(width, 1.0), int(width))
        # Nothing binds a caller that is about to leave.
        return max(limits, key=lambda binding: binding.share, default=None)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _nobody(seconds: float) -> None:
    """Who shares its limits with nobody."""


def _billed(reply: Reply) -> Usage | None:
    """What a reply was billed for; None if that is not known: some servers report no usage."""
    if reply.usage.input_tokens:
        return reply.usage
    # A policy that turns a prompt down before any model reads it bills nothing.
    return Usage() if reply.outcome == "refused" and not reply.served_model else None


def _come_back(exc: TransientError) -> str:
    wait = f"{exc}; it asks to wait"
    if exc.delay > MAX_TOLD:
        return f"{wait} for more than a year: ask those who run it, and then go on"
    at = datetime.now().astimezone() + timedelta(seconds=exc.delay)
    unit, seconds = next(
        ((unit, seconds) for unit, seconds in _UNITS if exc.delay >= 2 * seconds), _UNITS[-1]
    )
    return f"{wait} {exc.delay / seconds:,.0f} {unit}: go on at {at:%H:%M on %d %B %Y}"


_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))
