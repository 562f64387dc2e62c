"""A worker: an event loop that runs cells of the problems that it is given, under leases.

It has connections, lanes and a single flight of its own, and holds nothing durable. If it dies,
what it had acknowledged is in the store, and its problems are given to another.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from oversight.cache.cache import Cache
from oversight.engine.accounting.budget import LeasedBudget
from oversight.engine.errors import UsageError
from oversight.engine.fleet.messages import (
    Acknowledgement,
    Grant,
    Job,
    Orders,
    Pause,
    WorkerReport,
    WorkerSetup,
)
from oversight.engine.models.router import RunPolicy
from oversight.engine.runs.loaded_sweep import load_sweep
from oversight.engine.runs.outcome import LandedCell, line
from oversight.engine.runs.scheduler import CellOutcome, run_cells
from oversight.engine.runs.stores import open_store
from oversight.engine.simulation.model import PREFIX
from oversight.engine.sweeps.sweep import Cell, Sweep
from oversight.engine.system.garbage import gc_relaxed
from oversight.protocols.transcript import Failure

MAX_UNREPORTED = 512
"""Outcomes after which a report goes out before its time."""


class Worker:
    """Opened once, then given orders and asked for reports until it is closed.

    What fails for a reason that lies in this program, and not in a cell, is raised by `report`.
    """

    def __init__(self, opening: WorkerSetup) -> None:
        """UsageError if this process runs other code than the fleet's, or a key is missing in its
        environment; StoreError if the store cannot be opened."""
        ready = load_sweep(opening.file)
        if ready.sweep.identity != opening.identity:
            raise UsageError(
                "a worker runs other code than whoever started it, so that its outcomes would be "
                "of another sweep: install the same version of oversight-bench, and of packages "
                "with protocols of your own, wherever workers run"
            )
        self.stop_token = ready.stop_token
        self._sweep, self._models, self._lanes = ready.sweep, ready.models, opening.lanes
        policy = RunPolicy(
            opening.prices,
            0.0 if opening.capped else None,
            quarantine=Path(opening.quarantine),
            leased=True,
        )
        self._models.servers.update(opening.servers)
        self._models.prepare(ready.sweep.roles, policy)
        self._store = open_store(opening.store)
        self._cache = Cache(
            self._store,
            self._models,
            identity=self._models.identity_in(self._store),
            mode=opening.mode,
            refreshed_since=opening.refreshed_since,
        )
        self._budget = self._models.budget
        self._queue = _CellQueue(ready.sweep, self._begun)
        self._left: dict[int, int] = {}
        """Cells without an outcome, by problem under way."""
        self._backlog = self._under_way = self._low = 0
        self._landed: list[LandedCell] = []
        self._finished: list[int] = []
        self._pauses: dict[str, float] = {}
        """Ends of pauses that are still to be told, by model."""
        self._told_wants = 0.0
        self._told_halt = self._last = False
        self._closing = 0
        """How many wait for the end."""
        self._work, self._news = asyncio.Event(), asyncio.Event()
        self._real = [model for model in ready.sweep.models if not model.startswith(PREFIX)]
        for model in self._real:
            self._models.limiter(model).listen(partial(self._paused, model))
        if isinstance(self._budget, LeasedBudget):
            self._budget.on_lacking(self._look)
        self.stop_token.listen(self._look)
        self.stop_token.listen(self._work.set)
        self._running = asyncio.create_task(self._run())

    def order(self, orders: Orders) -> Acknowledgement:
        now = asyncio.get_running_loop().time()
        for job in orders.jobs:
            places = self._sweep.span(job.problem) if job.places is None else job.places
            self._queue.add(job)
            self._left[job.problem] = len(places)
            self._backlog += len(places)
        self._low = orders.low
        for model, grant in orders.grants.items():
            self._obey(model, grant, now + orders.lease_ttl)
        for pause in orders.pauses:
            self._models.limiter(pause.model).pause(pause.seconds)
        if isinstance(self._budget, LeasedBudget) and orders.dollars is not None:
            self._budget.lease(orders.dollars)
        if orders.halt is not None:
            self._told_halt = True
            self.stop_token.stop(orders.halt)
        if orders.last:
            self._last = True
        self._work.set()
        use = self._models.statistics()
        used = self._budget.used if isinstance(self._budget, LeasedBudget) else 0.0
        return Acknowledgement(used, {model: use[model].in_flight for model in use})

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
        """Let what is in flight land, or abandon it; the last report. A second call may abandon
        what the first one waits for."""
        self._last = True
        self._work.set()
        self._closing += 1
        if abandon:
            self._running.cancel()
        await asyncio.wait([self._running])
        if abandon:
            await self._cache.abandon()
        self._closing -= 1
        report = self._report()
        if not self._closing:
            await self._models.close()
            self._store.close()
        return report

    def _report(self) -> WorkerReport:
        now = asyncio.get_running_loop().time()
        landed, self._landed = tuple(self._landed), []
        finished, self._finished = tuple(self._finished), []
        pauses, self._pauses = self._pauses, {}
        told, self._told_halt = self._told_halt, self.stop_token.halt is not None
        budget = self._budget if isinstance(self._budget, LeasedBudget) else LeasedBudget()
        self._told_wants = budget.wants
        return WorkerReport(
            landed,
            finished,
            self._backlog,
            self._under_way,
            not self._left or self._running.done(),
            self._models.statistics(),
            self._models.simulating,
            self._models.accounts(),
            self._cache.statistics,
            budget.spent,
            budget.reserved,
            budget.wants,
            tuple(Pause(model, max(until - now, 0.0)) for model, until in pauses.items()),
            None if told else self.stop_token.halt,
        )

    @property
    def _urgent(self) -> bool:
        budget = self._budget
        return bool(
            len(self._landed) >= MAX_UNREPORTED
            or self._pauses
            or self._backlog < self._low
            or (self._finished and not self._left)
            or self._running.done()
            or (self.stop_token.halt is not None and not self._told_halt)
            or (isinstance(budget, LeasedBudget) and budget.wants not in (0.0, self._told_wants))
        )

    def _look(self) -> None:
        if self._urgent:
            self._news.set()

    async def _run(self) -> None:
        """Run what there is, and wait for more, until there is none or all is to stop."""
        try:
            with gc_relaxed():
                await run_cells(
                    self._queue,
                    self._cache,
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
        while not (self._queue or self._last or self.stop_token.halt):
            self._work.clear()
            await self._work.wait()
        return bool(self._queue) and self.stop_token.halt is None

    def _begun(self) -> None:
        self._backlog -= 1
        self._under_way += 1
        if self._backlog == self._low - 1:
            self._news.set()

    def _keep(self, cell: Cell, outcome: CellOutcome) -> None:
        failed = isinstance(outcome, Failure)
        self._landed.append(LandedCell(cell.place, line(cell, outcome), failed))
        self._under_way -= 1
        problem = self._sweep.problem_at(cell.place)
        self._left[problem] -= 1
        if not self._left[problem]:
            del self._left[problem]
            self._finished.append(problem)
        if len(self._landed) >= MAX_UNREPORTED or not self._left:
            self._news.set()

    def _obey(self, model: str, grant: Grant, until: float) -> None:
        self._models.limiter(model).lease.renew(grant.share, grant.width, until)

    def _paused(self, model: str, seconds: float) -> None:
        self._pauses[model] = asyncio.get_running_loop().time() + seconds
        self._news.set()


class _CellQueue(Iterator[Cell]):
    """The cells of the jobs that are there. It ends when they do, and goes on when more come."""

    def __init__(self, sweep: Sweep, begun: Callable[[], None]) -> None:
        """begun: called with each cell that is handed out."""
        self._sweep = sweep
        self._begun = begun
        self._jobs: deque[Job] = deque()
        self._cells: Iterator[Cell] = iter(())
        self._next: Cell | None = None

    def add(self, job: Job) -> None:
        self._jobs.append(job)
        self._next = self._next or self._found()

    def __bool__(self) -> bool:
        return self._next is not None

    def __next__(self) -> Cell:
        if (cell := self._next) is None:
            raise StopIteration
        self._next = self._found()
        self._begun()
        return cell

    def _found(self) -> Cell | None:
        while (cell := next(self._cells, None)) is None and self._jobs:
            job = self._jobs.popleft()
            self._cells = self._sweep.cells_of(job.problem)
            if job.places is not None:
                wanted = frozenset(job.places)
                self._cells = (cell for cell in self._cells if cell.place in wanted)
        return cell
