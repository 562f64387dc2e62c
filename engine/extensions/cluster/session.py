"""A run on several processes: this one hands out problems and writes the run, and actors of Ray
run them, each with its part of every limit.

A worker lives in a process of its own, and holds nothing durable: replies are in the store, and
outcomes go back to the process that writes the run.
"""

import asyncio
import logging
import os
import pickle
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from ....cache.cache import CacheStatistics
from ....cache.extras import install_command
from ....protocols.transcript import Failure
from ...errors import BudgetReached, Halt, RunFolderError, StoreFailed, UsageError
from ...models.accounting.budget import Budget
from ...models.accounting.ledger import Accounting, UsageTotals, sum_usage
from ...run.cached_models import CachedModels
from ...run.events import add_event
from ...run.execution import RunSession, first_cells
from ...run.lanes import CRASH, attempt_noted, first_fault, run_lanes
from ...run.loaded_sweep import load_sweep
from ...run.mixed import MIXED, MixedReplies
from ...run.order import Order, Plain
from ...run.record.capture import Capture
from ...run.record.values import RecordedCell
from ...run.run import Run
from ...run.run_folder import QUARANTINE
from ...run.settings import RunSettings
from ...run.stores import open_store, store_name
from ...sweep.code import combined, row_codes
from ...sweep.own_code import CodeFile, code_files
from ...sweep.sweep import Cell, Sweep
from ...sweep.sweepfile import SweepFile

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


@dataclass(frozen=True, slots=True)
class Standing:
    """How a worker stands."""

    life: str
    """Differs each time that its process is started."""
    number: int
    """Rises from one to the next of a life."""
    accounts: Mapping[str, UsageTotals]
    calls: CacheStatistics
    lines: tuple[str, ...]
    in_flight: int
    cells: int
    """How many cells keep it busy."""
    halt: Halt | None
    spent: float = 0.0
    reserved: float = 0.0
    """Dollars that calls in flight may cost at most."""
    wants: float = 0.0
    """Dollars that the first call in line lacks room for; 0 if none does."""
    doubtful: float = 0.0
    """Dollars of those spent that are in doubt."""
    mixed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each time that a provider may have mixed up replies: its name, and the calls."""


class Share(Budget):
    """A worker's part of the dollars of a run; how far it reaches is told from time to time."""

    wants = 0.0

    def fits(self, worst: float) -> bool:
        fits = super().fits(worst)
        if not fits:
            self.wants = worst
        return fits

    @property
    def over(self) -> bool:
        return False  # others may give some back: whoever hands them out knows

    def extend(self, reach: float) -> None:
        """Spend no more than this in all, or than is spent and reserved already."""
        self.cap, self.wants = max(reach, self.spent + self.reserved), 0.0
        for listener in self._listeners:
            listener()


class Worker:
    """What Ray calls, on one event loop."""

    def __init__(self, code: tuple[CodeFile, ...], setup: bytes) -> None:
        """code: files of the user's classes, without which the setup cannot be unpickled. setup:
        what `_Opened` is made with, pickled."""
        self._code, self._setup = code, setup
        self._life, self._numbers = uuid4().hex, count()

    @cached_property
    def _opened(self) -> "_Opened":
        for file in self._code:
            file.load()
        return _Opened(*pickle.loads(self._setup))

    async def run(self, places: tuple[int, ...]) -> tuple[tuple[RecordedCell, ...], Standing]:
        """Run cells of one problem; those that a stop leaves out are not in the result.

        UsageError where this process runs other code, or its environment lacks a key.
        """
        opened = self._opened
        wanted, landed = frozenset(places), list[RecordedCell]()

        problem = opened.sweep.cells_of(opened.sweep.problem_at(places[0]))
        await run_lanes(
            Plain(cell for cell in problem if cell.place in wanted),
            opened.attempt,
            lambda cell, ended: landed.append(ended),
            lanes=opened.lanes,
            stop_token=opened.cached.models.stop_token,
            waits=lambda: opened.cached.cache.waits,
        )
        return tuple(landed), self._standing()

    async def stand(self, life: str, dollars: float | None, halt: Halt | None) -> Standing:
        """Obey, and tell how it stood. life: that which may spend so many dollars in all; one that
        was started anew may not. dollars: None without a cap."""
        opened, now = self._opened, self._standing()
        if halt is not None:
            opened.cached.models.stop_token.stop(halt)
        if life == self._life and dollars is not None:
            opened.share.extend(dollars)
        return now

    def _standing(self) -> Standing:
        by, share, number = self._opened.cached, self._opened.share, next(self._numbers)
        known = by.accounts(), by.statistics, by.lines(), by.in_flight, self._opened.lanes()
        dollars = share.spent, share.reserved, share.wants, share.doubtful
        mixed = tuple(self._opened.mixed)
        return Standing(self._life, number, *known, by.models.stop_token.halt, *dollars, mixed)


class _Opened:
    """A sweep with its models, behind a cache over the store of the run."""

    def __init__(
        self,
        file: SweepFile,
        code: str,
        settings: RunSettings,
        run_id: str,
        accounting: Accounting,
        quarantine: Path | None,
        workers: int,
    ) -> None:
        """code: as `code_of` gives it; other code is refused. accounting: the run's; orders tell
        how much may be spent. workers: how many share every limit. Keys are the worker's."""
        loaded = load_sweep(file)
        if code_of(loaded.sweep) != code:
            raise UsageError(
                "a worker runs other code than whoever started it: install the same version of "
                "oversight-bench, and of packages with protocols of your own, on all machines"
            )
        self.sweep, paid = loaded.sweep, set[str]()
        cap = accounting.budget
        self.share = Share(0.0, tokens=cap is not None and cap.tokens)
        loaded.models.sharers, loaded.models.give_up = workers, settings.give_up
        accounting = replace(accounting, budget=cap and self.share)
        roles = () if settings.cache == "replay" else loaded.sweep.roles
        loaded.models.prepare(roles, accounting, quarantine)
        store = open_store(store_name(settings.store))
        self.mixed: list[tuple[str, tuple[str, ...]]] = []
        loaded.models.on_mixed = lambda *mixed: self.mixed.append(mixed)
        self.cached = CachedModels(loaded.models, store, settings.cache, run_id, paid)
        models, token = loaded.models, self.cached.cache.token
        self._capture = Capture(loaded.sweep, models, models.accounting.prices, paid, token)
        self._first_cells = first_cells(loaded.sweep.rows)
        self._most = loaded.file.top.max_cells
        self._workers = workers

    async def attempt(self, cell: Cell) -> RecordedCell:
        cache = self.cached.cache
        noted = await attempt_noted(cell, cache, cache.shared_work)
        if self._first_cells is not None:
            noted = await self._first_cells.checked(cell, noted)
        return self._capture.cell(cell, *noted)

    def lanes(self) -> int:
        if self._most is not None:
            return max(self._most // self._workers, 1)
        return self.cached.models.cells_at_once(self.sweep.models)


def code_of(sweep: Sweep) -> str:
    """What workers must have in common: the sweep, and the code behind its rows."""
    return f"{sweep.identity} {combined(row_codes(sweep.rows))}"


@dataclass
class Hand:
    """A worker, as it is seen from here."""

    actor: Any
    life: str = ""
    """The life that stood last; empty before the first."""
    under_way: int = 0
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
        self._budget = cap = accounting.budget
        self._dollars = None if cap is None else cap.cap - cap.spent
        quarantine = None if address else run.folder.path / QUARANTINE
        self._workers, code = workers, code_of(loaded.sweep)
        # A folder is named as it is from here.
        settings = replace(settings, store=store_name(settings.store))
        setup = loaded.file, code, settings, run.folder.manifest.id, accounting, quarantine, workers
        try:
            self._packed = pickle.dumps(setup)
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
        # What the dead had in flight stays so until the ledger is closed: it may have been billed.
        every: dict[str, list[UsageTotals]] = {}
        for standing in self._standings.values():
            for model, account in standing.accounts.items():
                every.setdefault(model, []).append(account)
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
        workers = self._workers
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

    async def work(self, order: Order[Cell, RecordedCell]) -> None:
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

    async def _hand_out(self, order: Order[Cell, RecordedCell]) -> None:
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
        self, hand: Hand, cells: tuple[Cell, ...], order: Order[Cell, RecordedCell]
    ) -> None:
        try:
            landed, standing = await hand.actor.run.remote(tuple(cell.place for cell in cells))
        except RayActorError:
            died = Failure(CRASH, f"{LIVES + 1} workers died of its problem")
            for cell in cells:
                ended = self._capture.cell(cell, died)
                self.keep(cell, ended)
                order.ended(cell, ended)
            return
        except RayTaskError as fault:
            raise fault.cause from None
        finally:
            hand.under_way -= len(cells)
            self._changed.set()
        self._told(standing)
        try:
            self._run.folder.group.put(*landed)
            await self._run.folder.group.room()
        except RunFolderError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))
        ends = {each.place: each for each in landed}
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
            for provider, calls in standing.mixed[len(known.mixed) if known else 0 :]:
                # The next run asks for them again: by then every worker has forgotten them.
                add_event(self._run.folder.path, MIXED, MixedReplies(provider, calls))
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
        budget = self._budget
        if budget is None or not wants or any(each.reserved for each in alive):
            return
        dead = self._reach.keys() - {each.life for each in alive}
        lost = sum(self._reach[life] for life in dead)
        spent = budget.spent + lost + sum(each.spent for each in alive)
        if spent + wants > budget.cap:
            doubtful = budget.doubtful + lost + sum(each.doubtful for each in alive)
            used = Budget(budget.cap, spent, doubtful, tokens=budget.tokens)
            self._stop_token.stop(BudgetReached(used.reached(wants)))
