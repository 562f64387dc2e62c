"""Calls in flight: the width for vendors and self-hosted servers, and the admission gate."""

import asyncio
import math

from ...display.throughput import Resource
from ...errors import BudgetReached, Pending
from ...stop import StopToken
from ...tokens import TokenEstimate
from ..accounting.budget import ModelBudget
from .breaker import Breaker
from .buckets import Bucket
from .throttle import Throttle

START = 16
"""Initial calls in flight; each round of answers doubles them, until the first fault."""

CUT = 0.7
"""Factor by which a fault reduces the width."""

WIDENING_STEP = 0.025
"""Relative growth of the width per round of answers after a fault; at least one call."""

MIN_VENDOR_WIDTH = 4.0
"""Minimum width for vendors: with one, a single hanging request would delay all others until its
deadline."""


class AdaptiveConcurrency:
    """Slots of one model: additive increase, multiplicative decrease, up to a ceiling.

    Held only around the wire. Without a ceiling the width is unlimited until a fault, and again
    once twice as many calls were in flight without another."""

    def __init__(
        self, ceiling: int | None, least: float = 1.0, start: float = float(START)
    ) -> None:
        """least: minimum width after faults; refusals narrow it down to one. start: initial width
        under a ceiling."""
        self._least = least
        self._ceiling = math.inf if ceiling is None else float(ceiling)
        self.width = math.inf if ceiling is None else min(self._ceiling, start)
        """Maximum calls in flight now."""
        self.busy = 0
        """Calls in flight; lowered by the callers after their calls."""
        self._goal = self._ceiling
        self._cut_at = -1.0
        self._regain = 0.0
        """The width before refusals narrowed it; below it, each round doubles the width."""
        self._widening = 0
        """Answers that may still widen: one per slot since all slots were taken."""

    @property
    def unlimited(self) -> bool:
        return self.width == math.inf

    @property
    def free(self) -> bool:
        return self.busy + 1 <= self.width

    def take(self) -> None:
        """Take a slot, after `free` was checked."""
        self.busy += 1
        if self.busy + 1 > self.width:
            self._widening = self.busy

    def answered(self, took: float = 0.0) -> None:
        """A call was answered after `took` s: widen if the whole width was in use."""
        if not self._widening or self.width >= self._goal:
            return
        self._widening -= 1
        careful = self._cut_at >= 0.0 and self.width >= self._regain
        self.width += max(1.0 / self.width, WIDENING_STEP) if careful else 1.0
        if self.width >= self._goal:
            self.width = self._goal = self._ceiling

    def overloaded(self, sent: float, now: float) -> None:
        """A call sent at `sent` (loop time, s) met an overloaded server: narrow once per round."""
        if sent < self._cut_at:
            return
        self._narrow(CUT, self._least)
        self._cut_at = now
        self._regain = 0.0

    def refused(self) -> None:
        """The server refuses most calls: halve. The first answers after it widen as fast."""
        self._regain = max(self._regain, min(self.width, float(self.busy)))
        self._narrow(0.5, 1.0)

    def _narrow(self, part: float, least: float) -> None:
        if self.unlimited:
            self._goal = 2.0 * self.busy
        self.width = min(max(min(self.width, float(self.busy)) * part, least), self._ceiling)
        self._widening = 0


FEW, OWN_SERVER_START = 4, 16
"""Initial calls in flight, and calls in flight in the first round, once that many are answered. The
width returns to the first one if the first round shows a queue: most such servers have few
slots."""

QUEUE_SHOWS = 0.5
"""A server queues if the mean time of the first `FEW` answers is less than this fraction of the
mean time of the first round."""

QUEUE = 0.25
"""Waiting calls per served call at a server that states its load."""

GAIN = 1.25
"""Growth of throughput that doubling the calls in flight must bring."""

WHOLE_GAIN = 0.85
"""Fraction of the growth in width that throughput must reach to try four times as many calls next,
above the first width: then no queue is near."""

SAMPLE, LARGE_SAMPLE = 16, 64
"""Answers over which throughput is measured: one per slot within these bounds, or half of the width
if that is more."""

REST, MAX_REST = 8.0, 64.0
"""Answers per slot until a larger width is tried again: initial and maximum; each failed try
doubles it."""


class ConcurrencySearch(AdaptiveConcurrency):
    """Finds the width for a server that silently queues the calls above its slots.

    The width starts at `FEW`, so that a server that refuses all calls refuses few. The first
    answers widen it to `OWN_SERVER_START`; a queue in the next round narrows it again. Then twice
    as many calls are tried as long as throughput grows, or four times as many if it grew in
    proportion. Once all slots are taken, calls only wait longer. Then the width returns to the last
    useful one plus a quarter, so that a free slot finds the next call waiting. (Limiters that rely
    on latency alone would keep servers that group at a few calls: each call takes longer, but all
    together take much less.) A missed deadline narrows like an overload, and ends the first round
    or a try.

    If a server states its load, no trial is needed: see `load_stated`."""

    def __init__(self) -> None:
        super().__init__(None)
        self.width = float(FEW)
        self._base = self.width
        """Largest width so far that has raised throughput."""
        self._speed = 0.0
        """Answers per second at that width; 0 if unknown."""
        self._trying = False
        """Whether a larger width is being tried."""
        self._rest = REST
        self._first: list[float] | None = []
        """Seconds of the first answers and of the first round; None after it."""
        self._skipped = FEW + OWN_SERVER_START
        """Answers that do not count: their calls were sent at another width, or it is time to
        rest."""
        self._answers = 0
        self._took = 0.0
        self._load_is_stated = False

    def load_stated(self, running: int, waiting: int) -> None:
        """The server serves `running` calls, and `waiting` more are queued. A queue of a quarter of
        the served calls keeps all slots busy; a longer one only adds waiting. If others use the
        server too, this process keeps its present share."""
        self._load_is_stated = True
        if waiting > QUEUE * running and running:
            share = min(self.busy / (running + waiting), 1.0)
            self.width = max((1 + QUEUE) * running * share, 1.0)
        elif not waiting and self.busy + 1 > self.width:
            self.width *= 2.0

    def load_unknown(self) -> None:
        """The server no longer states its load: continue by trial from the present width."""
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
        """Record one of the first answers; after the first round, keep the width or go back."""
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
        """Widen or go back. speed: answers per second, by Little's law from width and mean time."""
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
    """The connections of a provider: one per call in flight, shared by its models.

    Free ones go to the model whose call has waited longest."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.busy = 0
        """Calls in flight; raised and lowered by callers."""
        self.line: list[AdmissionGate] = []
        """Gates whose first call waits for a connection, the longest wait first."""

    def free(self, gate: "AdmissionGate") -> bool:
        """Whether the first call of a gate may take a connection; otherwise the gate joins the
        line."""
        if gate not in self.line:
            self.line.append(gate)
        if self.busy + self.line.index(gate) >= self.most:
            return False
        self.line.remove(gate)
        return True

    def leave(self, gate: "AdmissionGate") -> None:
        """A gate waits for something else, or for nothing: let the next gate check."""
        if gate in self.line:
            self.line.remove(gate)
            self.look()

    def look(self) -> None:
        """Let the first gates check again, one per free connection."""
        for gate in self.line[: max(int(self.most) - self.busy, 0)]:
            gate.look()


class AdmissionGate:
    """Holds the first call in line while the model pauses, fails or is full, or the budget is
    short.

    A waiting call holds no slot and no dollars. Nothing is awaited between the last check and the
    moment the call is sent."""

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
        """Resource that the first in line waits for; None if nobody waits, or if it waits for a
        bucket."""
        self.until = 0.0
        """Time at which that ends (loop time, s); infinite if it ends with a call in flight."""
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
        """Wait for admission, then take a slot and reserve dollars for the worst case; returns
        them. requests: bucket to take one request from; may be None. Raises the Halt of the stop
        token, or BudgetReached. A caller that is cancelled in line takes nothing."""
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
            # The current worst case: bills that came meanwhile may have raised it.
            worst = model_budget.worst(estimate)
            model_budget.budget.reserve(worst)
            return worst

    def look(self) -> None:
        """Let the first in line check again: a call completed, money is free, or the run stops."""
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(None)

    def _obstacle(self, estimate: TokenEstimate) -> tuple[Resource | None, float]:
        """The obstacle and its end; (None, 0) if the way is free."""
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
