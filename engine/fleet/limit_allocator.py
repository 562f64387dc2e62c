"""Divides a run's limits and dollars among its workers. Pure: no clock, no I/O.

A share counts for the worker that had it until that worker has acknowledged less, or its process
is gone. So what all workers may use together never exceeds the whole, in whatever order messages
arrive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..limits.limits import Limits
from ..throughput import LimitStatistics
from .messages import Acknowledgement, Grant, WorkerReport

MIN_WORKER_SHARE = 0.01
"""Minimum share of an idle worker, so that its first call need not wait for a message."""
HORIZON = 1.0
"""Seconds within which waiting calls should be served: each weighs 1/HORIZON."""
PORTION = 8
"""Dollars are leased in portions: 1/PORTION of what is left, divided by the number of workers."""


@dataclass(slots=True)
class _Holding:
    """What one worker may be using."""

    share: dict[str, float] = field(default_factory=dict)
    """Upper bound of its part of each model's rates."""
    granted: dict[str, int] = field(default_factory=dict)
    """Width it last acknowledged, by model."""
    width: dict[str, int] = field(default_factory=dict)
    """Upper bound of its calls in flight, by model."""
    limits: Mapping[str, LimitStatistics] = field(default_factory=dict)
    lease: float = 0.0
    """Upper bound of the dollars it may spend."""
    spent: float = 0.0
    reserved: float = 0.0
    wants: float = 0.0

    @property
    def used(self) -> float:
        return self.spent + self.reserved


class LimitAllocator:
    """Divides limits in proportion to who waits, and hands out dollars as they are asked for."""

    def __init__(self, limits: Mapping[str, Limits], cap: float | None, spent: float = 0.0) -> None:
        """limits: of every model that is not simulated; workers learn those in response headers
        themselves, times their share. cap: dollars for the whole run. spent: before it."""
        self.whole = dict.fromkeys(limits, 1.0)
        """The part of each model's limits that this run may use, in [0, 1]: less than 1 where
        other runs share them."""
        self._limits = limits
        self._cap = cap
        self._before = spent
        self._at_first = spent
        self.own = 0.0
        """Dollars that the fleet itself holds or has spent, for batches."""
        self._holdings: dict[int, _Holding] = {}

    def learn(self, limits: Mapping[str, Limits]) -> None:
        """Replace the limits, before any worker has joined."""
        self._limits = limits

    def joined(self, worker: int) -> None:
        self._holdings[worker] = _Holding()

    def left(self, worker: int) -> None:
        """A worker ended with nothing in flight: what it did not spend is free."""
        self._before += self._holdings.pop(worker).used

    def lost(self, worker: int) -> float:
        """A worker died: its share is free. All of its dollars count as spent, since what it asked
        after its last report is unknown; returns that unknown part."""
        holding = self._holdings.pop(worker)
        self._before += holding.lease
        return holding.lease - holding.used

    def reported(self, worker: int, report: WorkerReport) -> None:
        holding = self._holdings[worker]
        holding.limits, holding.wants = report.limits, report.wants
        holding.spent, holding.reserved = report.spent, report.reserved
        for model, granted in holding.granted.items():
            in_flight = report.limits[model].in_flight if model in report.limits else 0
            holding.width[model] = max(granted, in_flight)

    def grants(self, worker: int) -> dict[str, Grant]:
        """What a worker may use now. An increase counts from this moment."""
        return {model: self._grant(worker, model) for model in self._limits}

    def dollars(self, worker: int) -> float | None:
        """All that a worker may spend, as decided so far; None without a cap."""
        if self._cap is None:
            return None
        holding = self._holdings[worker]
        need = holding.used + holding.wants - holding.lease
        if holding.wants and need <= self.free:
            part = self.free / PORTION / len(self._holdings)
            holding.lease += max(min(self.free, max(need, part)), 0.0)
            return holding.lease
        wanting = [n for n, each in self._holdings.items() if each.wants]
        if not wanting:
            return holding.lease
        # Money is short: all of it goes to the worker that lacks least, and the others give back
        # what they do not use, which is free once they have acknowledged that.
        if worker != min(wanting, key=lambda n: (self._holdings[n].wants, n)):
            return holding.used
        holding.lease += max(min(need, self.free), 0.0)
        return holding.lease

    def acknowledged(
        self,
        worker: int,
        grants: Mapping[str, Grant],
        dollars: float | None,
        acknowledgement: Acknowledgement,
    ) -> None:
        """A worker has taken these orders: what it gave back is free."""
        holding = self._holdings[worker]
        for model, grant in grants.items():
            holding.share[model] = grant.share
            if grant.width is not None:
                holding.granted[model] = grant.width
                holding.width[model] = max(grant.width, acknowledgement.in_flight.get(model, 0))
        if dollars is not None:
            holding.lease = max(dollars, acknowledgement.used)

    def recalled(self, worker: int) -> float:
        """All that an idle worker may spend from now on: what it has spent or reserved."""
        holding = self._holdings[worker]
        holding.lease = holding.used
        return holding.lease

    @property
    def free(self) -> float:
        """Dollars that are not leased."""
        assert self._cap is not None, "only asked where there is a cap"
        return self._cap - self._at_first - self.own - self.leased

    @property
    def leased(self) -> float:
        """Dollars that workers have spent since the run began, or may spend."""
        leases = sum(holding.lease for holding in self._holdings.values())
        return self._before - self._at_first + leases

    @property
    def unspent(self) -> float:
        """Dollars leased that were neither spent nor reserved at the last reports."""
        return sum(max(holding.lease - holding.used, 0.0) for holding in self._holdings.values())

    @property
    def spent(self) -> float:
        return self._before + self.own + sum(each.spent for each in self._holdings.values())

    @property
    def short(self) -> float | None:
        """The smallest amount that any worker lacks, if what is left can never pay it."""
        wants = [holding.wants for holding in self._holdings.values() if holding.wants]
        if self._cap is None or not wants or any(s.reserved for s in self._holdings.values()):
            return None
        return min(wants) if self._cap - self.spent < min(wants) else None

    def held(self, model: str) -> float:
        """Upper bound of the part of a model's rates that all workers together use."""
        return sum(holding.share.get(model, 0.0) for holding in self._holdings.values())

    def using(self, model: str) -> float:
        """Upper bound of the part of a model's limits in use, whether of its rates or its width."""
        most = self._limits[model].concurrency
        if most is None:
            return self.held(model)
        width = sum(holding.width.get(model, 0) for holding in self._holdings.values())
        return max(self.held(model), width / most)

    def needs(self) -> dict[str, tuple[float, float, float]]:
        """Demand and replies a second, and the part in use, of each model, for `Quota.renew`."""
        every = self._holdings.values()
        return {
            model: (
                sum(self._demands(model).values()),
                sum(each.limits[model].per_second for each in every if model in each.limits),
                self.using(model),
            )
            for model in self._limits
        }

    def _demands(self, model: str) -> dict[int, float]:
        """Demand of each worker for a model (calls a second): replies, and calls waiting."""
        return {n: _weight(holding.limits.get(model)) for n, holding in self._holdings.items()}

    def _grant(self, worker: int, model: str) -> Grant:
        holding, whole = self._holdings[worker], self.whole[model]
        share = self._target(worker, model) * whole
        had = holding.share.get(model, 0.0)
        if share > had:
            share = holding.share[model] = had + max(
                min(share - had, whole - self.held(model)), 0.0
            )
        if (most := self._limits[model].concurrency) is None:
            return Grant(share, None)
        width, wide = self._width(worker, model, int(most * whole)), holding.width.get(model, 0)
        if width > wide:
            taken = sum(each.width.get(model, 0) for each in self._holdings.values())
            width = holding.width[model] = wide + max(
                min(width - wide, int(most * whole) - taken), 0
            )
        return Grant(share, width)

    def _target(self, worker: int, model: str) -> float:
        """A worker's share, in proportion to demand: every call then waits equally long."""
        weights = self._demands(model)
        whole = sum(weights.values())
        floor = min(MIN_WORKER_SHARE, 0.5 / len(weights))
        part = weights[worker] / whole if whole else 1.0 / len(weights)
        return floor + (1.0 - floor * len(weights)) * part

    def _width(self, worker: int, model: str, most: int) -> int:
        """A worker's width in whole calls; the largest remainders get one more."""
        targets = {n: most * self._target(n, model) for n in self._holdings}
        over = most - sum(map(int, targets.values()))
        first = sorted(targets, key=lambda n: (int(targets[n]) - targets[n], n))[:over]
        return int(targets[worker]) + (worker in first)


def _weight(now: LimitStatistics | None) -> float:
    return 0.0 if now is None else now.per_second + now.waiting / HORIZON
