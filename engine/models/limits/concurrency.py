"""Calls in flight: how many a vendor or an own server is sent, and the gate that lets them out."""

import asyncio
import math

from ...display.console import Resource
from ...errors import BudgetReached, Pending
from ...stop import StopToken
from ...tokens import TokenEstimate
from ..accounting.budget import ModelBudget
from .breaker import Breaker
from .buckets import Bucket
from .throttle import Throttle

START = 16
"""Calls in flight to begin with; each round of answers doubles them, until the first fault."""

CUT = 0.7
"""Factor by which a fault reduces the width."""

WIDENING_STEP = 0.025
"""Relative growth of the width by a round of answers after a fault; at least one call."""

MIN_VENDOR_WIDTH = 4.0
"""Calls that may always be in flight at a vendor: with one, a single request that hangs holds back
all the others until its deadline."""


class AdaptiveConcurrency:
    """Slots of one model: additive increase, multiplicative decrease, never above a ceiling.

    Held only around the wire. Without a ceiling nothing limits until a fault shows that there is
    a limit, and again once twice the calls of that moment were in flight without another.
    """

    def __init__(
        self, ceiling: int | None, least: float = 1.0, start: float = float(START)
    ) -> None:
        """least: the width below which faults never narrow; refusals narrow it down to one. start:
        the first width, where there is a ceiling."""
        self._least = least
        self._ceiling = math.inf if ceiling is None else float(ceiling)
        self.width = math.inf if ceiling is None else min(self._ceiling, start)
        """Calls that may be in flight now."""
        self.busy = 0
        """Calls in flight; whoever takes a slot lowers it again once its call has ended."""
        self._goal = self._ceiling
        self._cut_at = -1.0
        self._regain = 0.0
        """The width before refusals narrowed it; below this, each round of answers doubles it."""
        self._widening = 0
        """Answers that may still widen: one for each slot when all were last taken at once."""

    @property
    def unlimited(self) -> bool:
        return self.width == math.inf

    @property
    def free(self) -> bool:
        return self.busy + 1 <= self.width

    def take(self) -> None:
        """Take a slot; the caller has checked `free`."""
        self.busy += 1
        if self.busy + 1 > self.width:
            self._widening = self.busy

    def answered(self, took: float = 0.0) -> None:
        """A call was answered after `took` s: widen, if the whole width was in use."""
        if not self._widening or self.width >= self._goal:
            return
        self._widening -= 1
        careful = self._cut_at >= 0.0 and self.width >= self._regain
        self.width += max(1.0 / self.width, WIDENING_STEP) if careful else 1.0
        if self.width >= self._goal:
            self.width = self._goal = self._ceiling

    def overloaded(self, sent: float, now: float) -> None:
        """A call sent at `sent` met an overloaded server (loop times, s): narrow, once a round."""
        if sent < self._cut_at:
            return
        self._narrow(CUT, self._least)
        self._cut_at = now
        self._regain = 0.0

    def refused(self) -> None:
        """Most of what is sent is refused: halve. The first answers after it widen as fast."""
        self._regain = max(self._regain, min(self.width, float(self.busy)))
        self._narrow(0.5, 1.0)

    def _narrow(self, part: float, least: float) -> None:
        if self.unlimited:
            self._goal = 2.0 * self.busy
        self.width = min(max(min(self.width, float(self.busy)) * part, least), self._ceiling)
        self._widening = 0


FEW, OWN_SERVER_START = 4, 16
"""Calls in flight to begin with, and in the first round, once that many were answered. The width
returns to the smaller one if the first round shows a queue: most such servers have few slots."""

QUEUE_SHOWS = 0.5
"""A server queues if the mean time of the first `FEW` answers is less than this part of the mean
time of the first round."""

QUEUE = 0.25
"""Calls that wait at a server that states its load, for each that it serves."""

GAIN = 1.25
"""Growth of throughput that twice the calls in flight must bring."""

WHOLE_GAIN = 0.85
"""Part of the growth in width that throughput must reach for the next try to be of four times as
many calls, above the first width: then no queue is near."""

SAMPLE, LARGE_SAMPLE = 16, 64
"""Answers over which throughput is measured: one for each slot within these bounds, or half of the
width, where that is more."""

REST, MAX_REST = 8.0, 64.0
"""Answers for each slot until more are tried again, and at most: each failed try doubles it."""


class ConcurrencySearch(AdaptiveConcurrency):
    """Slots of a server that queues silently what it cannot serve at once.

    The width begins at `FEW`, so that a server that refuses all calls refuses few. The first
    answers widen it to `OWN_SERVER_START`; a queue in the round after them narrows it again. Twice
    as many are tried as long as that pays, or four times as many where the last try paid whole.
    Once all places of the server are taken, calls only wait longer, and as many are answered. Then
    the width returns to the last one that paid, and a quarter more, so that a free place finds the
    next call waiting. (Gradient limiters, which go by latency alone, would keep servers that group
    at a few calls: each takes longer in company, and all together much less.) A call that passes
    its deadline narrows as an overload does, and ends the first round or a try of more calls.

    A server that states its load needs no trial: see `load_stated`.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self.width = float(FEW)
        self._base = self.width
        """The largest width that has raised throughput so far."""
        self._speed = 0.0
        """Answers a second at that width; 0 before it is known."""
        self._trying = False
        """Whether the width is twice the base just now."""
        self._rest = REST
        self._first: list[float] | None = []
        """Seconds that the first answers took, and the first round; None once it has ended."""
        self._skipped = FEW + OWN_SERVER_START
        """Answers that do not count: their calls left at another width, or it is time to rest."""
        self._answers = 0
        self._took = 0.0
        self._load_is_stated = False

    def load_stated(self, running: int, waiting: int) -> None:
        """The server serves `running` calls now, and `waiting` more are in its queue. A queue of a
        quarter of what it serves keeps all its places taken; a longer one only adds waiting. Of a
        server that others ask too, this process keeps its present share."""
        self._load_is_stated = True
        if waiting > QUEUE * running and running:
            share = min(self.busy / (running + waiting), 1.0)
            self.width = max((1 + QUEUE) * running * share, 1.0)
        elif not waiting and self.busy + 1 > self.width:
            self.width *= 2.0

    def load_unknown(self) -> None:
        """The server no longer states its load: go on by trial from the width reached so far."""
        if self._load_is_stated:
            self._load_is_stated = False
            self._base, self._speed, self._trying = self.width, 0.0, False
            self._begin(self.width)

    def answered(self, took: float = 0.0) -> None:
        """A call was answered after `took` s."""
        if self._load_is_stated or not self._widening:
            return
        self._widening -= 1
        if self._skipped:
            self._skipped -= 1
            if self._first is not None:
                self._first_round(took)
            return
        self._answers += 1
        self._took += took
        if self._answers >= max(SAMPLE, min(self.width, LARGE_SAMPLE), self.width / 2):
            self._weigh(self.width * self._answers / max(self._took, 1e-9))

    def overloaded(self, sent: float, now: float) -> None:
        if sent < self._cut_at:
            return
        super().overloaded(sent, now)
        if self._first is not None:
            self.width, self._first = min(self.width, float(FEW)), None
        if self._trying:
            self.width = min(self.width, self._base)
            self._rest = min(2.0 * self._rest, MAX_REST)
        self._base, self._speed, self._trying = self.width, 0.0, False
        self._settle(self.width)

    def refused(self) -> None:
        super().refused()
        self._first = None
        self._base, self._speed, self._trying = self.width, 0.0, False
        self._begin(self.width)

    def _first_round(self, took: float) -> None:
        """Note one of the first answers; after the first round, keep the width or go back."""
        assert self._first is not None
        self._first.append(took)
        if len(self._first) == FEW:
            self.width = self._base = float(OWN_SERVER_START)
        elif not self._skipped:
            first, self._first = self._first[FEW:], None
            mean = sum(first) / len(first)
            if sum(first[:FEW]) / FEW < QUEUE_SHOWS * mean:
                self._base = float(FEW)
                self._begin(self._base)
            else:
                self._weigh(self.width / max(mean, 1e-9))

    def _weigh(self, speed: float) -> None:
        """Go up, or back; by Little's law a width and a mean time are a speed."""
        if self._trying and speed < GAIN * self._speed:
            self._trying = False
            self._settle(self._base + max(self._base // 4, 1.0))
            self._rest = min(2.0 * self._rest, MAX_REST)
            return
        factor = 2.0
        if self._trying:
            growth = speed / self._speed
            paid_fully = growth >= WHOLE_GAIN * self.width / self._base
            factor = 4.0 if paid_fully and self.width > OWN_SERVER_START else 2.0
            self._base = min((1 + QUEUE) * growth * self._base, self.width)
            self._rest = REST
        self._speed = speed
        self._trying = True
        self._begin(factor * self._base)

    def _settle(self, width: float) -> None:
        self._begin(width)
        self._skipped += int(self._rest * width)

    def _begin(self, width: float) -> None:
        self.width = width
        self._skipped = max(int(width), self.busy) + 1
        self._answers, self._took, self._widening = 0, 0.0, self.busy


class Connections:
    """The connections of a provider, which its models share: each call in flight has one.

    Free ones go to the models in turn: first to the model whose call has waited longest.
    """

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.busy = 0
        """Calls in flight: callers raise it, and lower it once their call has ended."""
        self.line: list[AdmissionGate] = []
        """The gates whose first call waits for a connection, the longest wait first."""

    def free(self, gate: "AdmissionGate") -> bool:
        """Whether the first call of a gate may take a connection; if not, the gate is in line."""
        if gate not in self.line:
            self.line.append(gate)
        if self.busy + self.line.index(gate) >= self.most:
            return False
        self.line.remove(gate)
        return True

    def leave(self, gate: "AdmissionGate") -> None:
        """A gate waits for something else, or for nothing: the next gate in line may go on."""
        if gate in self.line:
            self.line.remove(gate)
            self.look()

    def look(self) -> None:
        """Let the first gates in line check again, one for each free connection."""
        for gate in self.line[: max(int(self.most) - self.busy, 0)]:
            gate.look()


class AdmissionGate:
    """Holds the first in line while the model pauses, fails or is full, or the budget is short.

    A call that waits here holds no slot and no dollars. Nothing is awaited between the last check
    of pause, breaker, slots and budget and the moment the call leaves.
    """

    def __init__(
        self,
        stop_token: StopToken,
        throttle: Throttle,
        breaker: Breaker,
        slots: AdaptiveConcurrency,
        model_budget: ModelBudget | None,
        connections: Connections,
    ) -> None:
        self.held_by: Resource | None = None
        """What the first in line waits for; None if nobody does, or if it waits for a bucket."""
        self.until = 0.0
        """When that ends (loop time, s); infinite if it ends with a call in flight."""
        self._stop_token = stop_token
        self._throttle = throttle
        self._breaker = breaker
        self._slots = slots
        self._model_budget = model_budget
        self._connections = connections
        self._line = asyncio.Lock()
        self._alarm: asyncio.Future[None] | None = None
        stop_token.listen(self.look)
        if model_budget is not None:
            model_budget.budget.listen(self.look)

    async def leave(self, estimate: TokenEstimate, requests: Bucket | None) -> float:
        """Wait for admission, then take a slot and reserve dollars for the worst case; how many.

        requests: the bucket to take one request from, if there is one. Raises the Halt of the stop
        token, or BudgetReached. A caller that is cancelled in line takes nothing.
        """
        async with self._line:
            paid = False
            try:
                while True:
                    self._stop_token.raise_if_stopped()
                    self.held_by, self.until = self._obstacle(estimate)
                    if self.held_by != "connections" and self._connections.line:
                        self._connections.leave(self)
                    if self.held_by is not None:
                        await self._wait()
                    elif requests is None or paid:
                        break
                    else:
                        await requests.take(1.0)
                        paid = True
            except BaseException:
                if requests is not None and paid:
                    requests.settle(1.0, 0.0)
                raise
            finally:
                self.held_by = None
                if self._connections.line:
                    self._connections.leave(self)
            self._slots.take()
            self._connections.busy += 1
            if not self._throttle.quiet:
                self._throttle.left(self._now())
            self._breaker.left()
            if (model_budget := self._model_budget) is None:
                return 0.0
            # As it is now: bills that come while a call waits may raise it.
            worst = model_budget.worst(estimate)
            model_budget.budget.reserve(worst)
            return worst

    def look(self) -> None:
        """Have the first in line check again: a call is back, money is free, or the run stops."""
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(None)

    def _obstacle(self, estimate: TokenEstimate) -> tuple[Resource | None, float]:
        """What stands in the way, and until when; (None, 0) if nothing does."""
        if not (self._throttle.quiet and self._breaker.closed):
            now = self._now()
            if (opens := self._throttle.opens_at(now)) > now:
                return ("pause" if self._throttle.until > now else "pace"), opens
            if self._breaker.state == "probing":
                return "outage", math.inf
            if self._breaker.state == "open" and self._breaker.probe_at > now:
                return "outage", self._breaker.probe_at
        if not self._slots.free:
            return "concurrency", math.inf
        model_budget = self._model_budget
        if model_budget is not None and not model_budget.budget.fits(
            worst := model_budget.worst(estimate)
        ):
            if not model_budget.budget.over:
                return "budget", math.inf
            if model_budget.budget.held:
                raise Pending("work that is out may leave room in the budget")
            halt = BudgetReached(model_budget.budget.reached(worst))
            self._stop_token.stop(halt)
            raise halt
        if not self._connections.free(self):
            return "connections", math.inf
        return None, 0.0

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._alarm = loop.create_future()
        timer = None if self.until == math.inf else loop.call_at(self.until, self.look)
        try:
            await self._alarm
        finally:
            self._alarm = None
            if timer is not None:
                timer.cancel()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
