"""FIFO admission gate: the last wait before a request is sent."""

import asyncio
import math

from ...errors import BudgetReached, Pending
from ...stop import StopToken
from ...throughput import Resource
from ...tokens import TokenEstimate
from ..accounting.budget import ModelBudget
from .breaker import Breaker
from .bucket import Bucket
from .concurrency import AdaptiveConcurrency
from .throttle import Throttle


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
            if (own := self._model_budget) is None:
                return 0.0
            # As it is now: bills that come while a call waits may raise it.
            worst = own.worst(estimate)
            own.budget.reserve(worst)
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
        own = self._model_budget
        if own is not None and not own.budget.fits(worst := own.worst(estimate)):
            if not own.budget.over:
                return "budget", math.inf
            if own.budget.held:
                raise Pending("a batch that is out may leave room in the budget")
            halt = BudgetReached(own.budget.reached(worst))
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
