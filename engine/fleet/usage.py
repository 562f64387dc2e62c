"""What all workers of a fleet asked and paid, as of their last reports."""

from collections.abc import Mapping
from dataclasses import fields

from ...cache.cache import CacheStatistics
from ..accounting.ledger import UsageTotals, sum_usage
from ..throughput import LimitStatistics, clipped
from .messages import WorkerReport


class FleetUsage:
    """Adds up the last reports of the workers that run, and of those that are gone."""

    def __init__(self) -> None:
        self._reports: dict[int, WorkerReport] = {}
        self._departed: list[Mapping[str, UsageTotals]] = []
        self._departed_calls: list[CacheStatistics] = []

    def update(self, worker: int, report: WorkerReport) -> None:
        self._reports[worker] = report

    def last(self, worker: int) -> WorkerReport | None:
        return self._reports.get(worker)

    def leave(self, worker: int) -> None:
        """Keep the totals of a worker that is gone; what it had in flight was cut off."""
        if (report := self._reports.pop(worker, None)) is not None:
            self._departed.append({m: total.cut_off() for m, total in report.accounts.items()})
            self._departed_calls.append(report.calls)

    @property
    def calls(self) -> CacheStatistics:
        sides = [*(report.calls for report in self._reports.values()), *self._departed_calls]
        return CacheStatistics(
            *(sum(getattr(side, name.name) for side in sides) for name in fields(CacheStatistics))
        )

    def accounts(self) -> dict[str, UsageTotals]:
        """By model, what was asked of it and what came of that."""
        sides = [*self._departed, *(report.accounts for report in self._reports.values())]
        models = dict.fromkeys(model for side in sides for model in side)
        return {m: sum_usage([side[m] for side in sides if m in side]) for m in models}

    @property
    def in_flight(self) -> int:
        """Calls on the wire."""
        return sum(
            report.simulating + sum(now.in_flight for now in report.limits.values())
            for report in self._reports.values()
        )

    def lines(self) -> tuple[str, ...]:
        """A line a model: how fast it goes, and what holds it back."""
        sides: dict[str, list[LimitStatistics]] = {}
        for report in self._reports.values():
            for model, now in report.limits.items():
                sides.setdefault(model, []).append(now)
        names = {model: clipped(model) for model in sides}
        width = max(map(len, names.values()), default=0)
        return tuple(f"{names[model]:<{width}}  {combined(sides[model])}" for model in sides)


def combined(sides: list[LimitStatistics]) -> LimitStatistics:
    """One model at several workers: rates and calls added up; the bottleneck of the busiest."""
    busiest = max(sides, key=lambda side: side.waiting)
    return LimitStatistics(
        per_second=sum(side.per_second for side in sides),
        in_flight=sum(side.in_flight for side in sides),
        waiting=sum(side.waiting for side in sides),
        width=sum(side.width for side in sides),
        pace=sum(side.pace for side in sides),
        binding=busiest.binding,
        still=min(side.still for side in sides),
        oldest=max(side.oldest for side in sides),
        fault=busiest.fault,
    )
