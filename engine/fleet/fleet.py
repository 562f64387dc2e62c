"""A run on several workers: hands out problems, divides limits, and writes the run folder.

It asks no model itself. Lines are made by workers from cells and their outcomes, and appended here
alone, so that the run folder of a fleet ends with the same bytes as that of one process.
"""

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

from oversight.cache.cache import CacheStatistics
from oversight.cache.errors import StoreError
from oversight.engine.accounting.budget import Budget
from oversight.engine.accounting.ledger import UsageTotals, sum_usage
from oversight.engine.errors import (
    BudgetReached,
    Halt,
    ProviderDown,
    RunFolderError,
    StoreFailed,
    UsageError,
)
from oversight.engine.fleet.crash_bisection import CellIndexes, CrashBisection
from oversight.engine.fleet.governor import Governor
from oversight.engine.fleet.messages import Job, Orders, WorkerReport, WorkerSetup
from oversight.engine.fleet.process_worker import ProcessWorker
from oversight.engine.fleet.quota import Quota, QuotaAccount, renew_forever
from oversight.engine.fleet.worker_handle import SpawnWorker, WorkerHandle, WorkerLost
from oversight.engine.limits.limits import Limits
from oversight.engine.runs.executor import Assignment, Executor
from oversight.engine.runs.outcome import LandedCell, line
from oversight.engine.runs.workers import CRASH
from oversight.engine.simulation.model import PREFIX
from oversight.engine.throughput import LimitStatistics, clipped
from oversight.protocols.transcript import Failure

log = logging.getLogger(__name__)

REPORT_INTERVAL = 0.2
"""Seconds between two reports of a worker that has nothing urgent."""
LEASE_TTL = 2.0
"""Seconds for which a grant holds that nobody renews."""
PREFETCH = 1.0
"""Seconds of work that a worker has before it, beside what is under way."""
MIN_LANES = 64
"""Of one worker: with fewer, its waits are not hidden."""
MAX_FRUITLESS_DEATHS = 4
"""Workers that may die in a row without an outcome of any in between."""
ABANDON_TIMEOUT = 5.0
"""Seconds that a worker has to say what it abandoned."""


@dataclass(slots=True)
class _WorkerState:
    """What is known of one worker."""

    hand: WorkerHandle
    began: float = field(default_factory=time.monotonic)
    jobs: dict[int, Job] = field(default_factory=dict)
    """In hand, by problem."""
    apart: CellIndexes = ()
    """Suspects: if there are any, nothing else is in hand."""
    ordered: int = 0
    """Cells, of all jobs so far."""
    landed: int = 0
    report: WorkerReport | None = None


class Fleet(Executor):
    """Carries out an assignment with workers, as a `RunSession` does in one process."""

    def __init__(
        self,
        assignment: Assignment,
        *,
        workers: int,
        store: str,
        quota: bool = False,
        spawn: SpawnWorker = ProcessWorker.spawn,
    ) -> None:
        """workers: how many. store: its folder or URL, as workers are to open it. quota: whether
        limits are shared with other runs of this store, which then is a database."""
        loaded, policy = assignment.loaded, assignment.policy
        if assignment.mode == "replay":
            raise UsageError("a replay runs in one process: leave out --workers")
        # What a worker would find missing is found here, before any is started.
        loaded.models.prepare(loaded.sweep.roles, policy)
        self.lost = 0
        """Workers that died."""
        self._assignment = assignment
        self._sweep, self._folder = loaded.sweep, assignment.folder
        self._stop_token = loaded.stop_token
        self._models = tuple(m for m in loaded.sweep.models if not m.startswith(PREFIX))
        self._cap = policy.max_cost
        limits = {model: loaded.models.limits.get(model, Limits()) for model in self._models}
        self.governor = Governor(limits, policy.max_cost, policy.spent)
        self._quota = (
            Quota(store, self._accounts(limits), self._folder.path.name) if quota else None
        )
        refreshed = assignment.refreshed_since
        if assignment.mode == "refresh" and refreshed is None:
            # What one worker has asked again is not asked a third time by another in its place.
            refreshed = int(time.time())
        self._opening = WorkerSetup(
            loaded.file,
            loaded.sweep.identity,
            store,
            assignment.mode,
            refreshed,
            max(assignment.lanes // workers, min(assignment.lanes, MIN_LANES)),
            policy.prices,
            policy.max_cost is not None,
            str(policy.quarantine.resolve()) if policy.quarantine else "",
        )
        self._spawn = spawn
        self._workers = workers
        self._desks: dict[int, _WorkerState] = {}
        self._numbers = itertools.count()
        self._batches = iter(assignment.batches(self._folder)) if assignment.batches else None
        self._fresh = self._missing_jobs() if self._batches is None else iter(())
        self._again: deque[Job] = deque()
        """Jobs that come before all others: of workers that died, and of the batch that is run."""
        self._bisection = CrashBisection()
        self._exhausted = False
        """Whether no job is left that nobody has had."""
        self._gone: list[Mapping[str, UsageTotals]] = []
        self._gone_calls: list[CacheStatistics] = []
        self._unknown = 0.0
        """Dollars that workers may have spent who died."""
        self._fruitless_deaths = 0
        """Workers that died in a row without an outcome of any in between."""
        self._seen = assignment.folder.finished
        """Outcomes when a worker died last."""
        self._background: set[asyncio.Task[None]] = set()

    async def run(self) -> Halt | None:
        self._stop_token.listen(self._halted)
        await self._query_servers()
        self._next_batch()
        tending = [asyncio.create_task(self._supervise()) for _ in range(self._workers)]
        sharing = self._quota and asyncio.create_task(self._share(self._quota))
        try:
            await asyncio.wait(tending, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            if sharing:
                sharing.cancel()
                await asyncio.wait([sharing])
            for task in tending:
                task.cancel()
            await asyncio.wait(tending)
            if self._background:
                await asyncio.wait(self._background)
        for fault in [task.exception() for task in tending if not task.cancelled()]:
            if fault is not None:
                raise fault
        return None if self._folder.complete else self._stop_token.halt

    async def close(self) -> None:
        if self._quota is not None:
            await asyncio.to_thread(self._quota.close)
        await self._assignment.loaded.models.close()

    @property
    def statistics(self) -> CacheStatistics:
        sides = [*(r.calls for r in self._reports()), *self._gone_calls]
        return CacheStatistics(
            *(sum(getattr(side, name.name) for side in sides) for name in fields(CacheStatistics))
        )

    def accounts(self) -> dict[str, UsageTotals]:
        """What was asked of each model. Dollars that are leased and not yet spent are at risk: if
        this process dies, nobody else knows whether they were spent."""
        sides = [*self._gone, *(report.accounts for report in self._reports())]
        accounts = {
            model: sum_usage([side[model] for side in sides if model in side])
            for model in self._models
            if any(model in side for side in sides)
        }
        if (leased := self.governor.unspent) or self._unknown:
            first = self._models[0]
            account = accounts.get(first, sum_usage([]))
            accounts[first] = replace(
                account,
                at_risk=account.at_risk + leased,
                doubtful=account.doubtful + self._unknown,
            )
        return accounts

    def lines(self) -> tuple[str, ...]:
        """How fast each model goes, and what holds it back; and how many workers there are."""
        uses: dict[str, list[LimitStatistics]] = {}
        for report in self._reports():
            for model, now in report.use.items():
                uses.setdefault(model, []).append(now)
        names = {model: clipped(model) for model in uses}
        width = max(map(len, names.values()), default=0)
        told = [f"{names[model]:<{width}}  {combined(uses[model])}" for model in uses]
        lost = f", {self.lost} lost" if self.lost else ""
        return (*told, f"{len(self._desks)} workers{lost}")

    @property
    def in_flight(self) -> int:
        """How many calls were on the wire at the last reports."""
        return sum(
            report.simulating + sum(now.in_flight for now in report.use.values())
            for report in self._reports()
        )

    async def _query_servers(self) -> None:
        """Ask the user's servers what they have, so that all workers together keep within it."""
        models = self._assignment.loaded.models
        for model in self._models:
            await models.inquire(model)
        self._opening = replace(self._opening, servers=dict(models.servers))
        self.governor.learn({model: models.limits_of(model) for model in self._models})

    def _accounts(self, limits: Mapping[str, Limits]) -> dict[str, QuotaAccount]:
        """What other runs may share with this one."""
        models = self._assignment.loaded.models
        told = {}
        for model, each in limits.items():
            parts = (models.model_identity(model), model, models.account(model))
            known = [f"{f.name} {v:g}" for f in fields(each) if (v := getattr(each, f.name))]
            told[model] = QuotaAccount(" · ".join(filter(None, parts)), ", ".join(known))
        return told

    async def _share(self, quota: Quota) -> None:
        try:
            await renew_forever(quota, self._needs)
        except StoreError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))

    def _needs(self) -> dict[str, tuple[float, float]]:
        governor = self.governor
        return {model: (governor.wanted(model), governor.using(model)) for model in self._models}

    async def _supervise(self) -> None:
        """Keep one worker at work, and another one in its place if it dies."""
        while not (self._done or self._stop_token.halt):
            try:
                hand = await self._spawn()
            except WorkerLost as lost:
                self._stop_token.stop(ProviderDown(str(lost)))
                return
            number, desk = next(self._numbers), _WorkerState(hand)
            try:
                await hand.open(self._opening)
                self._desks[number] = desk
                self.governor.joined(number)
                await self._drive(number, desk)
                self._hear(number, desk, await hand.close(abandon=False))
                self._retire(number)
                self.governor.left(number)
                return
            except WorkerLost as lost:
                await hand.lose()
                self.lost += 1
                log.warning("%s; what it had in hand is run again by another", lost)
                if not desk.apart:
                    finished = self._folder.finished
                    self._fruitless_deaths = (
                        0 if finished > self._seen else self._fruitless_deaths + 1
                    )
                    self._seen = finished
                self._lose(number, desk)
                if self._fruitless_deaths > MAX_FRUITLESS_DEATHS:
                    self._stop_token.stop(
                        ProviderDown(
                            f"{lost}, as {MAX_FRUITLESS_DEATHS} before it; meanwhile no cell ended"
                        )
                    )
            except BaseException:
                await self._abandon(number, desk)
                raise

    async def _drive(self, number: int, desk: _WorkerState) -> None:
        """Order, hear, order …, until there is nothing left to do."""
        await self._order(number, desk)
        while True:
            report = await desk.hand.report(REPORT_INTERVAL)
            self._hear(number, desk, report)
            if self._done:
                # Whoever waits for work hears that there is none any more.
                self._broadcast(number, Orders(last=True))
            if report.idle and (self._done or self._stop_token.halt is not None):
                return
            await self._order(number, desk)

    def _hear(self, number: int, desk: _WorkerState, report: WorkerReport) -> None:
        desk.report = report
        desk.landed += len(report.landed)
        self.governor.heard(number, report)
        try:
            if report.landed:
                self._assignment.keep(report.landed)
        except RunFolderError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))
        for problem in report.finished:
            desk.jobs.pop(problem, None)
        if not desk.jobs:
            desk.apart = ()
        self._next_batch()
        if report.pauses:
            self._broadcast(number, Orders(pauses=report.pauses))
        if report.halt is not None:
            self._stop_token.stop(report.halt)
        if self._cap is not None and (needed := self.governor.short) is not None:
            budget = Budget(self._cap, self.governor.spent)
            self._stop_token.stop(BudgetReached(budget.reached(needed)))

    async def _order(self, number: int, desk: _WorkerState) -> None:
        if self._quota is not None:
            for model in self._models:
                self.governor.whole[model] = self._quota.share(model)
        grants, dollars = self.governor.grants(number), self.governor.dollars(number)
        jobs, low = self._jobs_for(desk)
        receipt = await desk.hand.order(
            Orders(jobs, low, grants, LEASE_TTL, dollars, halt=self._stop_token.halt)
        )
        self.governor.acknowledged(number, grants, dollars, receipt)

    def _jobs_for(self, desk: _WorkerState) -> tuple[tuple[Job, ...], int]:
        """What to do next, and how little of it may be left before more is called for."""
        if self._stop_token.halt is not None or desk.apart:
            return (), 0
        if self._bisection and not desk.jobs:
            desk.apart = self._bisection.take()
            jobs = self._by_problem(desk.apart)
            self._take(desk, jobs)
            return tuple(jobs), 0
        backlog = desk.report.backlog if desk.report else 0
        under_way = desk.report.under_way if desk.report else 0
        speed = desk.landed / max(time.monotonic() - desk.began, REPORT_INTERVAL)
        # As much as keeps it busy for a second, but no more than its part of what is left, so that
        # all end together.
        part = self._left // (2 * self._workers)
        lanes = self._opening.lanes
        want = max(lanes - under_way, 0) + min(lanes + int(PREFETCH * speed), part)
        taken: list[Job] = []
        while backlog < want or not (backlog or taken):
            job = self._again.popleft() if self._again else next(self._fresh, None)
            if job is None:
                break
            taken.append(job)
            backlog += len(self._places(job))
        self._take(desk, taken)
        # Where nothing is left to hand out, nobody calls for it.
        none = not self._again and (self._exhausted or self._batches is not None)
        return tuple(taken), 0 if none else max(backlog // 2, 1)

    def _take(self, desk: _WorkerState, jobs: list[Job]) -> None:
        desk.jobs.update((job.problem, job) for job in jobs)
        desk.ordered += sum(len(self._places(job)) for job in jobs)

    def _missing_jobs(self) -> Iterator[Job]:
        """Every problem with a cell that has no outcome, in the order of the sweep."""
        for problem in range(len(self._sweep.problems)):
            span = self._sweep.span(problem)
            if missing := self._folder.missing(span):
                yield Job(problem, None if len(missing) == len(span) else missing)
        self._exhausted = True

    def _next_batch(self) -> None:
        """Where cells come in batches: the next one, once all of those before have landed."""
        while self._batches is not None and not self._exhausted and self._all_landed:
            if (cells := next(self._batches, None)) is None:
                self._exhausted = True
            else:
                self._again.extend(self._by_problem(tuple(cell.place for cell in cells)))

    def _by_problem(self, places: CellIndexes) -> list[Job]:
        grouped = itertools.groupby(places, self._sweep.problem_at)
        return [Job(problem, tuple(among)) for problem, among in grouped]

    def _places(self, job: Job) -> range | CellIndexes:
        return self._sweep.span(job.problem) if job.places is None else job.places

    def _open_places(self, job: Job) -> CellIndexes:
        return self._folder.missing(self._places(job))

    @property
    def _left(self) -> int:
        """Cells that nobody has in hand."""
        in_hand = sum(desk.ordered - desk.landed for desk in self._desks.values())
        return max(len(self._folder) - self._folder.finished - in_hand, 0)

    @property
    def _done(self) -> bool:
        return self._exhausted and self._all_landed

    @property
    def _all_landed(self) -> bool:
        """Whether nobody has a job in hand, and none of a dead worker is left."""
        waiting = self._again or self._bisection
        return not (waiting or any(desk.jobs for desk in self._desks.values()))

    def _retire(self, number: int) -> None:
        """Keep what is to be kept of a worker that is gone."""
        report = self._desks.pop(number).report
        if report is not None:
            self._gone.append({m: account.cut_off() for m, account in report.accounts.items()})
            self._gone_calls.append(report.calls)

    def _lose(self, number: int, desk: _WorkerState) -> None:
        """Take over what a dead worker had in hand."""
        if number not in self._desks:
            return
        self._retire(number)
        self._unknown += self.governor.lost(number)
        jobs = list(desk.jobs.values())
        if not desk.apart:
            self._again.extendleft(reversed(self._bisection.died_with(jobs, self._open_places)))
            return
        guilty = self._bisection.died_apart(self._folder.missing(desk.apart))
        if guilty is not None:
            self._fail(guilty)

    def _fail(self, place: int) -> None:
        """The outcome of a cell of which workers die."""
        cells = self._sweep.cells_of(self._sweep.problem_at(place))
        cell = next(cell for cell in cells if cell.place == place)
        outcome = Failure(CRASH, "the worker that ran it died, each time it was run")
        try:
            self._assignment.keep([LandedCell(place, line(cell, outcome), True)])
        except RunFolderError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))

    async def _abandon(self, number: int, desk: _WorkerState) -> None:
        """End a worker now: what had landed is saved, and what is in flight counts as such."""
        try:
            if number in self._desks:
                async with asyncio.timeout(ABANDON_TIMEOUT):
                    self._hear(number, desk, await desk.hand.close(abandon=True))
        except (WorkerLost, TimeoutError):
            pass  # its last report says what it had in flight
        await desk.hand.lose()
        if number in self._desks:
            self._retire(number)
            self._unknown += self.governor.lost(number)

    def _halted(self) -> None:
        self._broadcast(-1, Orders(halt=self._stop_token.halt))

    def _broadcast(self, number: int, orders: Orders) -> None:
        for other, desk in self._desks.items():
            if other != number:
                self._in_background(desk.hand.order(orders))

    def _in_background(self, order: Coroutine[Any, Any, object]) -> None:
        async def quietly() -> None:
            # A worker that is lost is noticed by whoever tends it.
            with suppress(WorkerLost):
                await order

        task = asyncio.create_task(quietly())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _reports(self) -> list[WorkerReport]:
        return [desk.report for desk in self._desks.values() if desk.report is not None]


def combined(sides: list[LimitStatistics]) -> LimitStatistics:
    """One model at several workers: rates and calls added up; what holds most of them back."""
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
