"""A worker: an event loop that runs cells of the jobs it is given, under leases.

It has connections, lanes and a single flight of its own, and holds nothing durable. If it dies,
the replies it had acknowledged are in the store, and its jobs go to another.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from ...cache.cache import ABANDON_SECONDS, Cache
from ...cache.call import Call
from ...cache.reply import Reply
from ..accounting.budget import LeasedBudget
from ..errors import Pending, UsageError
from ..models.router import RunPolicy
from ..providers.prompt_cache import shared_beginning
from ..record.capture import Capture
from ..runs.lanes import run_lanes
from ..runs.loaded_sweep import load_sweep
from ..runs.outcome import CompletedCell, completed
from ..runs.scheduler import NotedOutcome, attempt_noted
from ..runs.stores import hurry_when_interrupted, open_store
from ..simulation.model import PREFIX
from ..sweeps.code import combined, row_codes
from ..sweeps.sweep import Cell, Sweep
from ..system.garbage import gc_relaxed
from .messages import (
    Acknowledgement,
    Job,
    Orders,
    Pause,
    WorkerReport,
    WorkerSetup,
)

MAX_UNREPORTED = 512
"""Outcomes after which a report goes out before its time."""


class Worker:
    """Opened once, then given orders and asked for reports until it is closed.

    `report` raises whatever fails for a reason that lies in this program, and not in a cell.
    """

    def __init__(self, setup: WorkerSetup) -> None:
        """UsageError if this process runs other code than the fleet's, or its environment lacks a
        key; StoreError if the store cannot be opened."""
        loaded = load_sweep(setup.file)
        if f"{loaded.sweep.identity} {combined(row_codes(loaded.sweep.rows))}" != setup.identity:
            raise UsageError(
                "a worker runs other code than whoever started it, so that its outcomes would be "
                "of another sweep: install the same version of oversight-bench, and of packages "
                "with protocols of your own, wherever workers run"
            )
        self.stop_token = loaded.stop_token
        self._sweep, self._models, self._lanes = loaded.sweep, loaded.models, setup.lanes
        policy = RunPolicy(
            setup.prices,
            0.0 if setup.capped else None,
            quarantine=Path(setup.quarantine),
            leased=True,
        )
        self._models.servers.update(setup.servers)
        self._models.prepare(loaded.sweep.roles, policy)
        self._store = open_store(setup.store)
        identity, paid = self._models.identity_in(self._store), set[str]()
        self._cache = Cache(
            self._store,
            self._models,
            identity=identity,
            mode=setup.mode,
            origin=self._models.origin,
            run_id=setup.run_id,
            paid=paid,
            shared=shared_beginning,
        )
        prices = self._models.priced(setup.prices)
        live, run = self._models.origin, self._cache.token
        self._capture = Capture(loaded.sweep, identity, prices, paid, live=live, run=run)
        self._reported: dict[int, set[str]] = {}
        """By problem, addresses of the calls whose replies were reported with a cell of it."""
        self._budget = self._models.budget
        self._cells = _CellQueue(loaded.sweep, self._begun)
        self._unfinished: dict[int, int] = {}
        """Cells without an outcome, by problem."""
        self._backlog = self._in_progress = self._low_water = 0
        self._landed: list[CompletedCell] = []
        self._finished: list[int] = []
        self._pending = 0
        self._deferred: list[tuple[int, bytes]] = []
        self._faults: dict[str, Exception] = {}
        """By address, what the fleet's own call raised."""
        self._models.diverted.update(dict.fromkeys(setup.deferred, self._defer))
        self._pauses: dict[str, float] = {}
        """Ends (loop time) of pauses not yet reported, by model."""
        self._reported_wants = 0.0
        self._halt_reported = self._final = False
        self._closers = 0
        """How many calls of `close` are waiting."""
        self._work, self._news = asyncio.Event(), asyncio.Event()
        for model in loaded.sweep.models:
            if not model.startswith(PREFIX):
                self._models.limiter(model).listen(partial(self._paused, model))
        if isinstance(self._budget, LeasedBudget):
            self._budget.on_lacking(self._report_if_urgent)
        self.stop_token.listen(self._report_if_urgent)
        self.stop_token.listen(self._work.set)
        hurry_when_interrupted(self._store, self.stop_token)
        self._running = asyncio.create_task(self._run())

    def order(self, orders: Orders) -> Acknowledgement:
        now = asyncio.get_running_loop().time()
        for job in orders.jobs:
            count = len(self._sweep.span(job.problem) if job.cells is None else job.cells)
            self._cells.add(job)
            self._unfinished[job.problem] = count
            self._backlog += count
        self._low_water = orders.low_water
        for model, grant in orders.grants.items():
            lease = self._models.limiter(model).lease
            lease.renew(grant.share, grant.width, now + orders.lease_ttl)
        for pause in orders.pauses:
            self._models.limiter(pause.model).pause(pause.seconds)
        if isinstance(self._budget, LeasedBudget) and orders.dollars is not None:
            self._budget.lease(orders.dollars)
        self._faults.update(orders.faults)
        if orders.halt is not None:
            self._halt_reported = True
            self.stop_token.stop(orders.halt)
        if orders.final:
            self._final = True
        self._work.set()
        used = self._budget.used if isinstance(self._budget, LeasedBudget) else 0.0
        limits = self._models.statistics()
        return Acknowledgement(used, {model: limits[model].in_flight for model in limits})

    async def report(self, hold: float) -> WorkerReport:
        if not self._urgent:
            self._news.clear()
            try:
                async with asyncio.timeout(hold):
                    await self._news.wait()
            except TimeoutError:
                pass  # nothing urgent: that is what the hold is for
        if self._running.done():
            self._running.result()
        return self._report()

    async def close(self, *, abandon: bool) -> WorkerReport:
        """Let calls in flight land, or abandon them; the last report. A second call may abandon
        what the first one waits for."""
        self._final = True
        self._work.set()
        self._closers += 1
        if abandon:
            # Before the wait: what the cells wait for may be the store.
            self._store.hurry(ABANDON_SECONDS)
            self._running.cancel()
        await asyncio.wait([self._running])
        if not self._running.cancelled():
            self._running.exception()  # known to the fleet, which ends all workers for one's fault
        if abandon:
            await self._cache.abandon()
        self._closers -= 1
        report = self._report()
        if not self._closers:
            await self._models.close()
            self._store.close()
        return report

    def _report(self) -> WorkerReport:
        now = asyncio.get_running_loop().time()
        completed, self._landed = tuple(self._landed), []
        finished, self._finished = tuple(self._finished), []
        pending, self._pending = self._pending, 0
        deferred, self._deferred = tuple(self._deferred), []
        pauses, self._pauses = self._pauses, {}
        reported, self._halt_reported = self._halt_reported, self.stop_token.halt is not None
        budget = self._budget if isinstance(self._budget, LeasedBudget) else LeasedBudget()
        self._reported_wants = budget.wants
        return WorkerReport(
            completed,
            finished,
            self._backlog,
            self._in_progress,
            not self._unfinished or self._running.done(),
            self._models.statistics(),
            self._models.simulating,
            self._models.accounts(),
            self._cache.statistics,
            budget.spent,
            budget.reserved,
            budget.wants,
            tuple(Pause(model, max(until - now, 0.0)) for model, until in pauses.items()),
            None if reported else self.stop_token.halt,
            pending,
            deferred,
        )

    @property
    def _urgent(self) -> bool:
        budget = self._budget
        return bool(
            len(self._landed) >= MAX_UNREPORTED
            or self._pauses
            or self._backlog < self._low_water
            or (self._finished and not self._unfinished)
            or self._running.done()
            or (self.stop_token.halt is not None and not self._halt_reported)
            or (isinstance(budget, LeasedBudget) and budget.wants not in (0, self._reported_wants))
        )

    def _report_if_urgent(self) -> None:
        if self._urgent:
            self._news.set()

    async def _run(self) -> None:
        """Run jobs as they come, until no more will come or everything is to stop."""
        try:
            with gc_relaxed():
                await run_lanes(
                    self._cells,
                    self._attempt,
                    self._keep,
                    lanes=self._lanes,
                    stop_token=self.stop_token,
                    waits=lambda: self._cache.waits,
                    more=self._more,
                )
            await self._cache.close()
        finally:
            self._news.set()

    async def _more(self) -> bool:
        while not (self._cells or self._final or self.stop_token.halt):
            self._work.clear()
            await self._work.wait()
        return bool(self._cells) and self.stop_token.halt is None

    def _begun(self) -> None:
        self._backlog -= 1
        self._in_progress += 1
        if self._backlog == self._low_water - 1:
            self._news.set()

    async def _attempt(self, cell: Cell) -> NotedOutcome:
        if not self._models.diverted:
            return await attempt_noted(cell, self._cache, self._cache.shared_work)

        async def noting(call: Call) -> Reply:
            try:
                return await self._cache(call)
            except Pending:
                self._deferred.append((cell.place, call.canonical))
                raise

        try:
            return await attempt_noted(cell, noting)
        except Pending:
            self._pending += 1
            self._ended(self._sweep.problem_at(cell.place))
            raise

    async def _defer(self, call: Call) -> Reply:
        if (fault := self._faults.get(call.address)) is not None:
            raise fault
        raise Pending(call.address)

    def _keep(self, cell: Cell, end: NotedOutcome) -> None:
        problem = self._sweep.problem_at(cell.place)
        known = self._reported.setdefault(problem, set())
        recorded = self._capture.cell(cell, end.outcome, end.notes).recorded(known)
        known.update([call.address for call in recorded.calls])
        self._landed.append(completed(cell, end, self._capture)._replace(recorded=recorded))
        self._ended(problem)

    def _ended(self, problem: int) -> None:
        self._in_progress -= 1
        self._unfinished[problem] -= 1
        if not self._unfinished[problem]:
            del self._unfinished[problem]
            self._reported.pop(problem, None)
            self._finished.append(problem)
        if len(self._landed) >= MAX_UNREPORTED or not self._unfinished:
            self._news.set()

    def _paused(self, model: str, seconds: float) -> None:
        self._pauses[model] = asyncio.get_running_loop().time() + seconds
        self._news.set()


class _CellQueue(Iterator[Cell]):
    """The cells of the jobs so far. It ends when they do, and goes on when more jobs come."""

    def __init__(self, sweep: Sweep, begun: Callable[[], None]) -> None:
        """begun: called with each cell that is handed out."""
        self._sweep = sweep
        self._begun = begun
        self._jobs: deque[Job] = deque()
        self._cells: Iterator[Cell] = iter(())
        self._next: Cell | None = None

    def add(self, job: Job) -> None:
        self._jobs.append(job)
        self._next = self._next or self._following()

    def __bool__(self) -> bool:
        return self._next is not None

    def __next__(self) -> Cell:
        if (cell := self._next) is None:
            raise StopIteration
        self._next = self._following()
        self._begun()
        return cell

    def _following(self) -> Cell | None:
        while (cell := next(self._cells, None)) is None and self._jobs:
            job = self._jobs.popleft()
            self._cells = self._sweep.cells_of(job.problem)
            if job.cells is not None:
                wanted = frozenset(job.cells)
                self._cells = (cell for cell in self._cells if cell.place in wanted)
        return cell
