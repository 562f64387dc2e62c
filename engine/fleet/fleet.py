"""A run on several workers: divides problems and limits among them, and writes the run folder.

It asks no model itself. Workers make the lines of outcomes, and only the fleet appends them, so
that its run folder ends with the same bytes as that of one process.
"""

import asyncio
import itertools
import logging
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from ...cache.cache import ABANDON_SECONDS, Cache, CacheStatistics
from ...cache.call import Call
from ...cache.codec import read_call
from ...cache.errors import StoreError
from ...protocols.transcript import Failure
from ..accounting.budget import Budget
from ..accounting.ledger import UsageTotals, sum_usage
from ..errors import (
    BudgetReached,
    Halt,
    Pending,
    ProviderDown,
    RunFolderError,
    StoreFailed,
)
from ..limits.limits import Limits
from ..providers.prompt_cache import shared_beginning
from ..record.capture import Capture
from ..runs.executor import Assignment, Executor
from ..runs.lanes import CRASH
from ..runs.outcome import CompletedCell, completed
from ..runs.scheduler import NotedOutcome
from ..simulation.model import PREFIX
from ..sweeps.code import combined, row_codes
from .job_queue import JobQueue
from .limit_allocator import LimitAllocator
from .messages import Orders, WorkerReport, WorkerSetup
from .process_worker import ProcessWorker
from .quota import Quota, quota_accounts, renew_forever
from .usage import FleetUsage
from .worker_handle import SpawnWorker, WorkerHandle, WorkerLost

log = logging.getLogger(__name__)

REPORT_INTERVAL = 0.2
"""Seconds between two reports of a worker that has nothing urgent."""
LEASE_TTL = 2.0
"""Seconds for which a grant holds that is not renewed."""
MIN_LANES = 64
"""Minimum number of lanes per worker; with fewer, it idles while requests are in flight."""
MAX_FRUITLESS_DEATHS = 4
"""Workers that may die in a row while no cell gets its outcome; one more stops the run."""
ABANDON_TIMEOUT = 5.0
"""Seconds that a worker has to report what it abandoned."""


SILENT_AFTER_STOP = 10
"""Seconds without a report after which a worker is given up in a run that is to stop."""


class Fleet(Executor):
    """Carries out an assignment with workers, as a `RunSession` does in one process."""

    def __init__(
        self,
        assignment: Assignment,
        *,
        workers: int,
        store: str,
        quota: float = 0.0,
        spawn: SpawnWorker = ProcessWorker.spawn,
    ) -> None:
        """store: its folder or URL, as workers are to open it. quota: its weight where limits are
        shared with other runs of this store, which then is a database; else 0."""
        loaded, policy = assignment.loaded, assignment.policy
        # What a worker would find missing is found here, before any is started.
        loaded.models.prepare(loaded.sweep.roles, policy)
        self._cache = Cache(
            assignment.store,
            loaded.models,
            identity=loaded.models.identity_in(assignment.store),
            mode=assignment.mode,
            origin=loaded.models.origin,
            run_id=assignment.run_id,
            shared=shared_beginning,
        )
        self._rounds = assignment.rounds(self._cache)
        self._asks: set[asyncio.Task[None]] = set()
        """Calls that workers have left to the fleet in this round."""
        self._faults: list[tuple[str, Exception]] = []
        self._faults_sent: dict[int, int] = {}
        """By worker, how many of the faults it has been sent."""
        self._lost = 0
        """Workers that died."""
        self._apart = 0
        """Workers that could not open the store."""
        self._assignment = assignment
        self._sweep, self._folder = loaded.sweep, assignment.folder
        self._stop_token = loaded.stop_token
        self._models = tuple(m for m in loaded.sweep.models if not m.startswith(PREFIX))
        self._cap = policy.max_cost
        limits = {model: loaded.models.limits.get(model, Limits()) for model in self._models}
        self._allocator = LimitAllocator(limits, policy.max_cost, policy.spent)
        self._quota = (
            Quota(store, quota_accounts(loaded.models, limits), self._folder.path.name, quota)
            if quota
            else None
        )
        lanes = max(assignment.lanes // workers, min(assignment.lanes, MIN_LANES))
        self._setup = WorkerSetup(
            loaded.file,
            f"{loaded.sweep.identity} {combined(row_codes(loaded.sweep.rows))}",
            store,
            assignment.mode,
            assignment.run_id,
            lanes,
            policy.prices,
            policy.max_cost is not None,
            str(policy.quarantine.resolve()) if policy.quarantine else "",
            self._rounds.deferred,
        )
        self._spawn = spawn
        self._count = workers
        self._workers: dict[int, WorkerHandle] = {}
        self._numbers = itertools.count()
        self._queue = JobQueue(assignment, workers, lanes)
        self._usage = FleetUsage()
        self._unknown = 0.0
        """Dollars that dead workers may have spent after their last reports."""
        self._fruitless_deaths = 0
        self._finished_at_last_death = assignment.folder.finished
        self._background: set[asyncio.Task[None]] = set()

    async def run(self) -> Halt | None:
        self._stop_token.listen(self._halted)
        await self._query_servers()
        feeding = asyncio.create_task(self._feed())
        supervisors = [asyncio.create_task(self._supervise()) for _ in range(self._count)]
        renewal = self._quota and asyncio.create_task(self._renew(self._quota))
        try:
            await asyncio.wait((feeding, *supervisors), return_when=asyncio.FIRST_EXCEPTION)
        finally:
            if renewal:
                renewal.cancel()
                await asyncio.wait([renewal])
            for task in (feeding, *supervisors):
                task.cancel()
            await asyncio.wait((feeding, *supervisors))
            while self._background:
                await asyncio.wait(self._background)
        ended = [task for task in (feeding, *supervisors) if not task.cancelled()]
        for fault in [task.exception() for task in ended]:
            if fault is not None:
                raise fault
        return None if self._folder.complete else self._stop_token.halt

    async def close(self) -> None:
        if self._quota is not None:
            await asyncio.to_thread(self._quota.close)
        await self._rounds.close()
        await self._assignment.loaded.models.close()

    @property
    def statistics(self) -> CacheStatistics:
        ours, theirs = self._cache.statistics, self._usage.calls
        if not self._rounds.deferred:
            return theirs
        return self._rounds.counted(
            replace(theirs, new=theirs.new + ours.new, unsaved=theirs.unsaved + ours.unsaved)
        )

    def accounts(self) -> dict[str, UsageTotals]:
        """What was asked of each model. Dollars leased and not yet spent are at risk: if this
        process dies, nobody else knows whether they were spent."""
        accounts = self._usage.accounts()
        for model, ours in self._assignment.loaded.models.accounts().items():
            accounts[model] = sum_usage([ours, *filter(None, (accounts.get(model),))])
        if (leased := self._allocator.unspent) or self._unknown:
            first = self._models[0]
            account = accounts.get(first, sum_usage([]))
            accounts[first] = replace(
                account,
                at_risk=account.at_risk + leased,
                doubtful=account.doubtful + self._unknown,
            )
        return accounts

    def lines(self) -> tuple[str, ...]:
        """A line a model, and how many workers there are."""
        lost = f", {self._lost} lost" if self._lost else ""
        return (*self._rounds.lines(self._usage.lines()), f"{len(self._workers)} workers{lost}")

    @property
    def awaited(self) -> str:
        return self._rounds.awaited

    @property
    def in_flight(self) -> int:
        return self._usage.in_flight + self._assignment.loaded.models.in_flight

    async def _feed(self) -> None:
        """Queue the cells of each round, and between two rounds ask what workers have left."""
        async with self._cache:
            for missing in self._assignment.to_run():
                async with aclosing(self._rounds.of(missing)) as rounds:
                    async for cells in rounds:
                        self._queue.put(cells)
                        await self._queue.ended(self._stop_token)
                        if self._asks:
                            await asyncio.wait(self._asks)
                        await self._call_back_dollars()
                if self._stop_token.halt is not None:
                    return
            if self._stop_token.halt is not None:
                return
            await self._rounds.finish()
        self._queue.finish()
        # Workers that wait for jobs learn that there are none any more.
        self._broadcast(Orders(final=True))

    async def _call_back_dollars(self) -> None:
        """Have idle workers give back what they have not spent, for batches."""
        budget = self._assignment.loaded.models.budget
        if budget is None or not self._rounds.deferred:
            return
        for number, worker in [*self._workers.items()]:
            used = self._allocator.recalled(number)
            with suppress(WorkerLost):
                acknowledgement = await worker.order(Orders(dollars=used))
                self._allocator.acknowledged(number, {}, used, acknowledgement)
        budget.elsewhere = self._allocator.leased

    async def _ask(self, place: int, call: Call) -> None:
        """Ask a call that a worker has left to the fleet; its reply is in the store then."""
        later, ask = self._assignment.later, self._cache
        try:
            if later is None:
                await ask(call)
            else:
                problem = self._sweep.problem_at(place)
                cells = self._sweep.cells_of(problem)
                await later.ask_of(next(c for c in cells if c.place == place), ask)(call)
        except Pending:
            pass  # the next round asks it again
        except Halt as halt:
            self._stop_token.stop(halt)
        except StoreError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))
        except Exception as fault:
            self._faults.append((call.address, fault))

    async def _query_servers(self) -> None:
        """Ask the user's servers for their limits, so that all workers together keep them."""
        models = self._assignment.loaded.models
        for model in self._models:
            await models.inquire(model)
        self._setup = replace(self._setup, servers=dict(models.servers))
        self._allocator.learn({model: models.limits_of(model) for model in self._models})

    async def _renew(self, quota: Quota) -> None:
        try:
            await renew_forever(quota, self._allocator.needs)
        except StoreError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))

    async def _supervise(self) -> None:
        """Keep one worker running, and replace it if it dies."""
        while not (self._queue.done or self._stop_token.halt):
            try:
                worker = await self._spawned()
            except WorkerLost as lost:
                self._stop_token.stop(ProviderDown(str(lost)))
                return
            number = next(self._numbers)
            try:
                if not await self._opened(worker):
                    return
                self._workers[number] = worker
                self._queue.join(number)
                self._allocator.joined(number)
                await self._drive(number, worker)
                await self._receive(number, await worker.close(abandon=False))
                self._queue.leave(number)
                self._allocator.left(number)
                self._forget(number)
                return
            except WorkerLost as lost:
                await asyncio.shield(self._in_background(worker.kill()))
                await self._died(number, lost)
            except BaseException:
                # Whose own worker failed is cancelled too once another's has: that must not cut
                # off what ends the process.
                self._in_background(self._abandon(number, worker))
                raise

    async def _spawned(self) -> WorkerHandle:
        """A new worker. Cancelled meanwhile, it is ended once it is there: half a process cannot
        be."""
        spawning = asyncio.ensure_future(self._spawn())

        async def end() -> None:
            await (await spawning).kill()

        try:
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:
            self._in_background(end())
            raise

    async def _opened(self, worker: WorkerHandle) -> bool:
        """Whether a worker is ready. One that cannot reach the store is done without, as long as
        there are others."""
        try:
            await worker.open(self._setup)
        except StoreError as fault:
            self._apart += 1
            if self._apart >= self._count:
                raise
            log.warning(
                "%d of %d workers cannot reach the store, and the others do their work: %s",
                self._apart,
                self._count,
                fault,
            )
            await worker.kill()
            return False
        return True

    async def _drive(self, number: int, worker: WorkerHandle) -> None:
        """Send orders and receive reports in turn, until there is nothing left to do."""
        await self._order(number, worker)
        while True:
            report = await self._heard(worker)
            await self._receive(number, report)
            if report.idle and (self._queue.done or self._stop_token.halt is not None):
                return
            await self._order(number, worker)

    async def _heard(self, worker: WorkerHandle) -> WorkerReport:
        """The next report. Once the run is to stop, a silent worker is not waited for long."""
        asked, silent = asyncio.create_task(worker.report(REPORT_INTERVAL)), 0
        try:
            while not asked.done():
                await asyncio.wait((asked,), timeout=1.0)
                silent = 0 if self._stop_token.halt is None else silent + 1
                if silent > SILENT_AFTER_STOP and not asked.done():
                    raise WorkerLost("a worker said nothing more when the run was to stop")
            return asked.result()
        finally:
            if asked.cancel():
                await asyncio.wait((asked,))

    async def _order(self, number: int, worker: WorkerHandle) -> None:
        if self._quota is not None:
            for model in self._models:
                self._allocator.whole[model] = self._quota.share(model)
        if (budget := self._assignment.loaded.models.budget) is not None:
            self._allocator.own = budget.spent + budget.reserved - self._assignment.policy.spent
        grants, dollars = self._allocator.grants(number), self._allocator.dollars(number)
        sent = self._faults_sent.get(number, 0)
        orders = Orders(
            grants=grants,
            lease_ttl=LEASE_TTL,
            dollars=dollars,
            halt=self._stop_token.halt,
            faults=tuple(self._faults[sent:]),
        )
        self._faults_sent[number] = sent + len(orders.faults)
        if self._stop_token.halt is None:
            last = self._usage.last(number)
            state = (last.backlog, last.in_progress) if last else (0, 0)
            jobs, low_water = self._queue.take(number, *state)
            orders = replace(orders, jobs=jobs, low_water=low_water)
        acknowledgement = await worker.order(orders)
        self._allocator.acknowledged(number, grants, dollars, acknowledgement)

    async def _receive(self, number: int, report: WorkerReport) -> None:
        self._usage.update(number, report)
        self._allocator.reported(number, report)
        if report.completed:
            await self._keep(report.completed)
        for place, canonical in report.deferred:
            task = asyncio.create_task(self._ask(place, read_call("", canonical)))
            self._asks.add(task)
            task.add_done_callback(self._asks.discard)
        self._queue.completed(number, report)
        if report.pauses:
            self._broadcast(Orders(pauses=report.pauses), but=number)
        if report.halt is not None:
            self._stop_token.stop(report.halt)
        if self._cap is not None and (needed := self._allocator.short) is not None:
            budget = Budget(self._cap, self._allocator.spent)
            self._stop_token.stop(BudgetReached(budget.reached(needed)))

    async def _keep(self, completed: tuple[CompletedCell, ...]) -> None:
        try:
            self._assignment.keep(completed)
            # Which cells are missing, and which batch comes next, is read off the folder.
            await self._assignment.flush()
        except RunFolderError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))

    async def _died(self, number: int, lost: WorkerLost) -> None:
        """Take back the jobs of a dead worker; stop if workers keep dying."""
        self._lost += 1
        log.warning("%s; what it had in hand is run again by another", lost)
        if number not in self._workers or not self._queue.bisecting(number):
            finished, before = self._folder.finished, self._finished_at_last_death
            self._fruitless_deaths = 0 if finished > before else self._fruitless_deaths + 1
            self._finished_at_last_death = finished
        if number in self._workers:
            guilty = self._queue.lost(number)
            self._unknown += self._allocator.lost(number)
            self._forget(number)
            if guilty is not None:
                await self._fail(guilty)
        if self._fruitless_deaths > MAX_FRUITLESS_DEATHS:
            self._stop_token.stop(
                ProviderDown(
                    f"{lost}, as {MAX_FRUITLESS_DEATHS} before it; meanwhile no cell ended"
                )
            )

    async def _fail(self, index: int) -> None:
        """Give a cell that kills workers its outcome."""
        cells = self._sweep.cells_of(self._sweep.problem_at(index))
        cell = next(cell for cell in cells if cell.place == index)
        died = Failure(CRASH, "the worker that ran it died, each time it was run")
        # It asks nothing of which anything is known.
        unasked = Capture(self._sweep, lambda call: "", self._setup.prices, set())
        await self._keep((completed(cell, NotedOutcome(died, []), unasked),))

    async def _abandon(self, number: int, worker: WorkerHandle) -> None:
        """End a worker now: what had completed is saved, and calls in flight count as cut off."""
        # The driver's own looks at a store that hangs end with those of its workers, not after.
        self._assignment.store.hurry(ABANDON_SECONDS)
        if number in self._workers:
            # If it does not answer, its last report says what it had in flight.
            with suppress(WorkerLost, TimeoutError):
                async with asyncio.timeout(ABANDON_TIMEOUT):
                    await self._receive(number, await worker.close(abandon=True))
        await worker.kill()
        if number in self._workers:
            self._queue.leave(number)
            self._unknown += self._allocator.lost(number)
            self._forget(number)

    def _forget(self, number: int) -> None:
        del self._workers[number]
        self._usage.leave(number)

    def _halted(self) -> None:
        self._queue.notify()
        self._broadcast(Orders(halt=self._stop_token.halt))

    def _broadcast(self, orders: Orders, *, but: int = -1) -> None:
        for number, worker in self._workers.items():
            if number != but:
                self._in_background(worker.order(orders))

    def _in_background(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        """Work that has its end before `run` has."""

        async def quietly() -> None:
            # The supervisor of a worker notices that it is lost.
            with suppress(WorkerLost):
                await work

        task = asyncio.create_task(quietly())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task
