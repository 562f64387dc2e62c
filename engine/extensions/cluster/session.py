"""A run on several processes: this one hands out problems and writes the run, and actors of Ray
run them."""

import asyncio
import logging
import os
import pickle
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import astuple, replace
from typing import Any

from ....cache.cache import CacheStatistics
from ....cache.extras import install_command
from ....protocols.transcript import NOT_RUN, Failure
from ...errors import BudgetReached, Halt, RunFolderError, StoreFailed, UsageError
from ...models.accounting.budget import Budget
from ...models.accounting.ledger import UsageTotals, sum_usage
from ...run.execution import RunSession
from ...run.lanes import CRASH, first_fault
from ...run.order import Order
from ...run.record.values import NotRun, RecordedCell
from ...run.run import Run
from ...run.scheduler import NotedOutcome
from ...run.stores import store_name
from ...sweep.own_code import code_files
from ...sweep.sweep import Cell
from .worker import Setup, Standing, Worker, code_of

try:
    import ray
    from ray.exceptions import RayActorError, RayTaskError
except ImportError as exc:
    raise UsageError(f"several workers need Ray: {install_command('ray')}") from exc

EVERY = 0.25
"""Seconds between two orders to a worker, and two looks at how it stands."""
LIVES = 3
"""How often a problem is begun anew whose worker died."""
OBJECTS = 2**27
"""Bytes of shared memory for Ray's objects, of which a run has few."""


class Hand:
    """A worker, as it is seen from here."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.life = ""
        """The life that stood last; empty before the first."""
        self.under_way = 0
        """Cells that it was given and that have not come back."""


class RaySession(RunSession):
    """The problems of a run on Ray's actors, each of which has an equal part of every limit.

    Ray starts an actor anew that died, and gives it the problems that it had: their replies are in
    the store, and what was in flight is asked again.
    """

    holds_back = False  # a problem goes to its worker as a whole

    def __init__(self, run: Run, before: Mapping[str, UsageTotals], workers: int) -> None:
        """UsageError for a sweep that no other process can make."""
        super().__init__(run, before)
        loaded, accounting, settings = run.loaded, run.accounting(before), run.settings
        self._address = address = settings.ray
        self._budget, store = accounting.budget, store_name(settings.store)
        self._dollars = None if self._budget is None else self._budget.cap - self._budget.spent
        if address:
            accounting = replace(accounting, quarantine=None)
        code, mode, run_id = code_of(loaded.sweep), settings.cache, run.folder.id
        self._setup = Setup(loaded.file, code, store, mode, run_id, accounting, workers)
        try:
            self._packed = pickle.dumps(self._setup)
        except (AttributeError, ModuleNotFoundError, pickle.PicklingError, TypeError) as exc:
            raise UsageError(
                f"a worker cannot make this sweep: {exc}. With several workers, protocols and "
                "settings of your own must lie in a module that can be imported"
            ) from exc
        self._hands: list[Hand] = []
        self._standings: dict[str, Standing] = {}
        """The last of each life of each worker."""
        self._reach: dict[str, float] = {}
        """Dollars that each life may have spent at most; the dead keep theirs."""
        self._changed, self._stopping = asyncio.Event(), asyncio.Event()
        """Set when a worker may have room, and at a stop."""
        self._over, self._stack = False, ExitStack()

    async def run(self) -> Halt | None:
        # What Ray prints goes to stderr: stdout is for the result, which comes later.
        sys.stdout.flush()
        self._stack.callback(os.close, kept := os.dup(1))
        self._stack.callback(os.dup2, kept, 1)
        self._stack.callback(sys.stdout.flush)
        os.dup2(2, 1)
        # In a thread of its own: Ray would take the place of our handlers of signals.
        await asyncio.to_thread(self._connect)
        self._stop_token.listen(self._stopped)
        return await super().run()

    async def close(self) -> None:
        for hand in self._hands:
            ray.kill(hand.actor)
        await asyncio.to_thread(ray.shutdown)
        self._stack.close()
        await super().close()

    @property
    def statistics(self) -> CacheStatistics:
        every = [astuple(each.calls) for each in self._standings.values()]
        return CacheStatistics(*map(sum, zip((0, 0, 0, 0, 0), *every, strict=True)))

    def accounts(self) -> dict[str, UsageTotals]:
        alive = {hand.life for hand in self._hands}
        every: dict[str, list[UsageTotals]] = {}
        for life, standing in self._standings.items():
            for model, account in standing.accounts.items():
                # What the dead had in flight may have been billed.
                told = account if life in alive else account.cut_off()
                every.setdefault(model, []).append(told)
        return {model: sum_usage(accounts) for model, accounts in every.items()}

    @property
    def in_flight(self) -> int:
        return sum(each.in_flight for each in self._alive())

    def lines(self) -> tuple[str, ...]:
        every = enumerate(self._alive(), 1)
        return tuple(f"worker {number}  {line}" for number, each in every for line in each.lines)

    def _alive(self) -> list[Standing]:
        return [self._standings[hand.life] for hand in self._hands if hand.life]

    def _connect(self) -> None:
        # Ray reports usage statistics to its vendor unless it is told not to.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        workers = self._setup.workers
        here: dict[str, Any] = {"num_cpus": workers, "object_store_memory": OBJECTS}
        try:
            ray.init(
                self._address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=None if self._address else False,
                **({} if self._address else here),
            )
        except (ConnectionError, ValueError, RuntimeError) as exc:
            raise UsageError(f"--ray {self._address}: {exc}") from exc
        lives = {"max_restarts": -1, "max_task_retries": LIVES, "max_concurrency": 10_000}
        actor = ray.remote(Worker).options(num_cpus=1, scheduling_strategy="SPREAD", **lives)
        given = code_files(), self._packed
        self._hands = [Hand(actor.remote(*given)) for _ in range(workers)]

    async def work(self, order: Order[Cell, NotedOutcome]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                hearing = [group.create_task(self._hear(hand)) for hand in self._hands]
                await self._hand_out(order)
                self._over = True
                self._stopping.set()
                for hand, each in zip(self._hands, hearing, strict=True):
                    if not hand.life:
                        each.cancel()  # Ray never had a place for it
        except BaseExceptionGroup as faults:
            raise first_fault(faults) from None

    async def _hand_out(self, order: Order[Cell, NotedOutcome]) -> None:
        """Give each problem to the worker that has least to do, as soon as it has room."""
        problem_at, cells = self._run.loaded.sweep.problem_at, list[Cell]()
        async with asyncio.TaskGroup() as group:
            while True:
                cell = await anext(order, None)
                if cells and (cell is None or problem_at(cell.place) != problem_at(cells[0].place)):
                    hand = await self._free(len(cells))
                    if hand is None:
                        return
                    hand.under_way += len(cells)
                    group.create_task(self._problem(hand, tuple(cells), order))
                    cells = []
                if cell is None:
                    return
                cells.append(cell)

    async def _free(self, cells: int) -> Hand | None:
        """A worker with room for so many cells; None at a stop."""
        while self._stop_token.halt is None:
            free = [
                hand
                for hand in self._hands
                if hand.life
                and (
                    not hand.under_way or hand.under_way + cells <= self._standings[hand.life].cells
                )
            ]
            if free:
                return min(free, key=lambda hand: hand.under_way)
            self._changed.clear()
            await self._changed.wait()
        return None

    async def _problem(
        self, hand: Hand, cells: tuple[Cell, ...], order: Order[Cell, NotedOutcome]
    ) -> None:
        try:
            landed, standing = await hand.actor.run.remote(tuple(cell.place for cell in cells))
        except RayActorError:
            died = NotedOutcome(Failure(CRASH, f"{LIVES + 1} workers died of its problem"), [])
            for cell in cells:
                self.keep(cell, died)
                order.ended(cell, died)
            return
        except RayTaskError as fault:
            raise fault.cause from None
        finally:
            hand.under_way -= len(cells)
            self._changed.set()
        self._told(standing)
        try:
            self._run.folder.group.put(landed)
            await self._run.folder.group.room()
        except RunFolderError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))
        ends = {each.place: _end(each) for each in landed}
        for cell in cells:
            self._ended[cell.place] = cell.place in ends
            order.ended(cell, ends.get(cell.place))

    async def _hear(self, hand: Hand) -> None:
        """Give orders, and hear how the worker stands, again and again."""
        while not self._over:
            dollars, halt = self._dollars_for(hand), self._stop_token.halt
            try:
                standing = await hand.actor.stand.remote(hand.life, dollars, halt)
            except RayTaskError as fault:
                raise fault.cause from None
            except RayActorError:
                pass  # it is started anew
            else:
                if standing.life == hand.life and dollars is not None:
                    self._reach[hand.life] = dollars
                hand.life = standing.life
                self._told(standing)
                self._stop_at_the_cap()
            if self._stop_token.halt is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY):
                        await self._stopping.wait()
            else:
                await asyncio.sleep(EVERY)

    def _told(self, standing: Standing) -> None:
        known = self._standings.get(standing.life)
        if known is None or known.number < standing.number:
            self._standings[standing.life] = standing
        if standing.halt is not None:
            self._stop_token.stop(standing.halt)
        self._changed.set()

    def _stopped(self) -> None:
        self._stopping.set()
        self._changed.set()

    def _dollars_for(self, hand: Hand) -> float | None:
        """All that a worker may spend: what it has spent, and an equal part of what is left; more
        or less of it where a call lacks room. Until it stands again, what it had counts too."""
        standing = self._standings.get(hand.life)
        if self._dollars is None or standing is None:
            return None
        used = standing.spent + standing.reserved
        elsewhere = [life for life in self._reach if life != hand.life]
        left = self._dollars - used - sum(self._reach[life] for life in elsewhere)
        lacking = any(each.wants for each in self._alive())
        part = 0.0 if lacking and not standing.wants else left / len(self._hands)
        dollars = used + max(part, min(standing.wants, left), 0.0)
        self._reach[hand.life] = max(dollars, self._reach.get(hand.life, 0.0))
        return dollars

    def _stop_at_the_cap(self) -> None:
        """Stop where a call does not fit that no other in flight can make room for."""
        alive = self._alive()
        wants = min((each.wants for each in alive if each.wants), default=0.0)
        before = self._budget
        if before is None or not wants or any(each.reserved for each in alive):
            return
        dead = self._reach.keys() - {each.life for each in alive}
        spent = sum(each.spent for each in alive) + sum(self._reach[life] for life in dead)
        if before.spent + spent + wants > before.cap:
            budget = Budget(before.cap, spent + before.spent, tokens=before.tokens)
            self._stop_token.stop(BudgetReached(budget.reached(wants)))


def _end(cell: RecordedCell) -> NotedOutcome:
    """How a cell ended, for the order."""
    outcome = cell.outcome
    return NotedOutcome(
        Failure(NOT_RUN, outcome.reason) if isinstance(outcome, NotRun) else outcome, []
    )
