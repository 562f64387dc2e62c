"""What each worker may use of a run's limits and dollars. Pure: it knows what it is told.

Everything handed out is bounded from above. A share counts for the worker that had it until that
worker has acknowledged less, or its process is gone. So what all of them may use never exceeds the
whole, in whatever order messages arrive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from oversight.engine.fleet.messages import Acknowledgement, Grant, WorkerReport
from oversight.engine.limits.limits import Limits
from oversight.engine.throughput import LimitStatistics

FLOOR = 0.01
"""Share that an idle worker keeps, so that its first call need not wait for a message."""
HORIZON = 1.0
"""Seconds in which those who wait are to be served, as a share is weighed."""
PORTION = 8
"""More dollars are handed out in parts of what is left: one such part of it for all workers."""


@dataclass(slots=True)
class _Side:
    """What is known of one worker."""

    share: dict[str, float] = field(default_factory=dict)
    """The most of each model's rates that it may be using."""
    granted: dict[str, int] = field(default_factory=dict)
    """The width that it acknowledged last, by model."""
    width: dict[str, int] = field(default_factory=dict)
    """The most calls that it may have in flight."""
    use: Mapping[str, LimitStatistics] = field(default_factory=dict)
    lease: float = 0.0
    """The most dollars that it may spend."""
    spent: float = 0.0
    reserved: float = 0.0
    wants: float = 0.0

    @property
    def used(self) -> float:
        return self.spent + self.reserved


class Governor:
    """Divides limits in proportion to who waits, and hands out dollars as they are asked for."""

    def __init__(self, limits: Mapping[str, Limits], cap: float | None, spent: float = 0.0) -> None:
        """limits: of every model that is not simulated; what servers tell is learnt by each worker,
        and multiplied by its share. cap: dollars for the whole run. spent: before it."""
        self.whole = dict.fromkeys(limits, 1.0)
        """The part of each model's limits that this run may use at all; less than 1 where others
        use them too."""
        self._limits = limits
        self._cap = cap
        self._before = spent
        self._sides: dict[int, _Side] = {}

    def learn(self, limits: Mapping[str, Limits]) -> None:
        """Take over limits that were not known when this was made. Nobody has joined yet."""
        self._limits = limits

    def joined(self, worker: int) -> None:
        self._sides[worker] = _Side()

    def left(self, worker: int) -> None:
        """It ended with nothing in flight: what it did not spend is free."""
        self._before += self._sides.pop(worker).used

    def lost(self, worker: int) -> float:
        """Its process is gone: its share is free. All of its dollars count as spent, since what it
        asked after its last report is not known; how many of them nobody can account for."""
        side = self._sides.pop(worker)
        self._before += side.lease
        return side.lease - side.used

    def heard(self, worker: int, report: WorkerReport) -> None:
        side = self._sides[worker]
        side.use, side.wants = report.use, report.wants
        side.spent, side.reserved = report.spent, report.reserved
        for model, granted in side.granted.items():
            flying = report.use[model].in_flight if model in report.use else 0
            side.width[model] = max(granted, flying)

    def grants(self, worker: int) -> dict[str, Grant]:
        """What to order it now. Whatever is more than it had counts from this moment."""
        return {model: self._grant(worker, model) for model in self._limits}

    def dollars(self, worker: int) -> float | None:
        """All that it may spend, as far as is decided now; None without a cap."""
        if self._cap is None:
            return None
        side = self._sides[worker]
        need = side.used + side.wants - side.lease
        if side.wants and need <= self.free:
            part = self.free / PORTION / len(self._sides)
            side.lease += max(min(self.free, max(need, part)), 0.0)
            return side.lease
        wanting = [n for n, each in self._sides.items() if each.wants]
        if not wanting:
            return side.lease
        # Money is short: all of it goes to the one that lacks least, and the others give back what
        # they do not use; it is free once they have acknowledged that.
        if worker != min(wanting, key=lambda n: (self._sides[n].wants, n)):
            return side.used
        side.lease += max(min(need, self.free), 0.0)
        return side.lease

    def acknowledged(
        self,
        worker: int,
        grants: Mapping[str, Grant],
        dollars: float | None,
        receipt: Acknowledgement,
    ) -> None:
        """It has taken these orders: what it gave back is free."""
        side = self._sides[worker]
        for model, grant in grants.items():
            side.share[model] = grant.share
            if grant.width is not None:
                side.granted[model] = grant.width
                side.width[model] = max(grant.width, receipt.in_flight.get(model, 0))
        if dollars is not None:
            side.lease = max(dollars, receipt.used)

    @property
    def free(self) -> float:
        """Dollars that nobody may spend yet."""
        assert self._cap is not None, "whoever asks has a cap"
        return self._cap - self._before - sum(side.lease for side in self._sides.values())

    @property
    def unspent(self) -> float:
        """Dollars that are leased and neither spent nor reserved, as far as is known."""
        return sum(max(side.lease - side.used, 0.0) for side in self._sides.values())

    @property
    def spent(self) -> float:
        return self._before + sum(side.spent for side in self._sides.values())

    @property
    def short(self) -> float | None:
        """The least that any worker lacks, if all that is left will never pay it."""
        wants = [side.wants for side in self._sides.values() if side.wants]
        if self._cap is None or not wants or any(s.reserved for s in self._sides.values()):
            return None
        return min(wants) if self._cap - self.spent < min(wants) else None

    def held(self, model: str) -> float:
        """The most of a model's rates that all workers together may be using."""
        return sum(side.share.get(model, 0.0) for side in self._sides.values())

    def using(self, model: str) -> float:
        """The most of a model's limits that is in use, be it of its rates or of its width."""
        most = self._limits[model].concurrency
        if most is None:
            return self.held(model)
        width = sum(side.width.get(model, 0) for side in self._sides.values())
        return max(self.held(model), width / most)

    def wanted(self, model: str) -> float:
        """How much all of them want of it: replies a second, with those who wait."""
        return sum(_weight(side.use.get(model)) for side in self._sides.values())

    def _grant(self, worker: int, model: str) -> Grant:
        side, whole = self._sides[worker], self.whole[model]
        share = self._target(worker, model) * whole
        had = side.share.get(model, 0.0)
        if share > had:
            share = side.share[model] = had + max(min(share - had, whole - self.held(model)), 0.0)
        if (most := self._limits[model].concurrency) is None:
            return Grant(share, None)
        width, wide = self._width(worker, model, int(most * whole)), side.width.get(model, 0)
        if width > wide:
            taken = sum(each.width.get(model, 0) for each in self._sides.values())
            width = side.width[model] = wide + max(min(width - wide, int(most * whole) - taken), 0)
        return Grant(share, width)

    def _target(self, worker: int, model: str) -> float:
        """In proportion to who waits: everyone then waits equally long, as in one line."""
        weights = {n: _weight(side.use.get(model)) for n, side in self._sides.items()}
        whole = sum(weights.values())
        floor = min(FLOOR, 0.5 / len(weights))
        part = weights[worker] / whole if whole else 1.0 / len(weights)
        return floor + (1.0 - floor * len(weights)) * part

    def _width(self, worker: int, model: str, most: int) -> int:
        """Whole calls, none left over: the largest remainders get one more."""
        targets = {n: most * self._target(n, model) for n in self._sides}
        over = most - sum(map(int, targets.values()))
        first = sorted(targets, key=lambda n: (int(targets[n]) - targets[n], n))[:over]
        return int(targets[worker]) + (worker in first)


def _weight(use: LimitStatistics | None) -> float:
    return 0.0 if use is None else use.per_second + use.waiting / HORIZON
