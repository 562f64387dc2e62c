"""A worker of a run: it runs the cells of whole problems with its part of every limit.

It lives in a process of its own, as an actor of Ray, and holds nothing durable: replies are in the
store, and outcomes go back to the process that writes the run.
"""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from uuid import uuid4

from ....cache.cache import CacheStatistics, Mode
from ...errors import Halt, UsageError
from ...models.accounting.budget import Budget
from ...models.accounting.ledger import Accounting, UsageTotals
from ...run.cached_models import CachedModels
from ...run.lanes import run_lanes
from ...run.loaded_sweep import load_sweep
from ...run.order import Plain
from ...run.record.capture import Capture
from ...run.record.values import RecordedCell
from ...run.scheduler import NotedOutcome, attempt_noted
from ...run.stores import open_store
from ...sweep.code import combined, row_codes
from ...sweep.own_code import CodeFile
from ...sweep.sweep import Cell, Sweep
from ...sweep.sweepfile import SweepFile


@dataclass(frozen=True, slots=True)
class Setup:
    """All that a worker needs. Keys come from its own environment."""

    file: SweepFile
    code: str
    """As `code_of` gives it: a worker with other code is refused."""
    store: str
    mode: Mode
    run_id: str
    accounting: Accounting
    """That of the run: of a cap, what a worker may spend is told in orders."""
    workers: int
    """How many share every limit."""


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
        """code: files of the user's classes, without which the setup cannot be unpickled."""
        self._given = code, setup
        self._life, self._numbers = uuid4().hex, count()
        self._opened: _Opened | None = None

    async def run(self, places: tuple[int, ...]) -> tuple[tuple[RecordedCell, ...], Standing]:
        """Run cells of one problem; those that a stop leaves out are not in the result.

        UsageError where this process runs other code, or its environment lacks a key.
        """
        opened = self._open()
        wanted, landed = frozenset(places), list[RecordedCell]()

        def keep(cell: Cell, end: NotedOutcome) -> None:
            landed.append(opened.capture.cell(cell, end.outcome, end.notes))

        problem = opened.sweep.cells_of(opened.sweep.problem_at(places[0]))
        await run_lanes(
            Plain(cell for cell in problem if cell.place in wanted),
            opened.attempt,
            keep,
            lanes=opened.lanes,
            stop_token=opened.cached.models.stop_token,
            waits=lambda: opened.cached.cache.waits,
        )
        return tuple(landed), self._standing(opened)

    async def stand(self, life: str, dollars: float | None, halt: Halt | None) -> Standing:
        """Obey, and tell how it stood. life: that which may spend so many dollars in all; one that
        was started anew may not. dollars: None without a cap."""
        opened = self._open()
        now = self._standing(opened)
        if halt is not None:
            opened.cached.models.stop_token.stop(halt)
        if life == self._life and dollars is not None:
            opened.share.extend(dollars)
        return now

    def _standing(self, opened: "_Opened") -> Standing:
        by, share, number = opened.cached, opened.share, next(self._numbers)
        known = by.accounts(), by.statistics, by.lines(), by.in_flight, opened.lanes()
        halt, dollars = by.models.stop_token.halt, (share.spent, share.reserved, share.wants)
        return Standing(self._life, number, *known, halt, *dollars)

    def _open(self) -> "_Opened":
        if self._opened is None:
            code, setup = self._given
            for file in code:
                file.load()
            self._opened = _Opened(pickle.loads(setup))
        return self._opened


class _Opened:
    """A sweep with its models, behind a cache over the store of the run."""

    def __init__(self, setup: Setup) -> None:
        loaded = load_sweep(setup.file)
        if code_of(loaded.sweep) != setup.code:
            raise UsageError(
                "a worker runs other code than whoever started it: install the same version of "
                "oversight-bench, and of packages with protocols of your own, on all machines"
            )
        self.sweep, paid = loaded.sweep, set[str]()
        cap = setup.accounting.budget
        self.share = Share(0.0, tokens=cap is not None and cap.tokens)
        loaded.models.sharers = setup.workers
        accounting = replace(setup.accounting, budget=cap and self.share)
        loaded.models.prepare(loaded.sweep.roles, accounting)
        store = open_store(setup.store)
        self.cached = CachedModels(loaded.models, store, setup.mode, setup.run_id, paid)
        cache = self.cached.cache
        self.attempt = partial(attempt_noted, ask=cache, shared=cache.shared_work)
        models = loaded.models
        self.capture = Capture(loaded.sweep, models, models.accounting.prices, paid, cache.token)
        self._most = loaded.file.top.max_cells
        self._workers = setup.workers

    def lanes(self) -> int:
        if self._most is not None:
            return max(self._most // self._workers, 1)
        return self.cached.models.cells_at_once(self.sweep.models)


def code_of(sweep: Sweep) -> str:
    """What workers must have in common: the sweep, and the code behind its rows."""
    return f"{sweep.identity} {combined(row_codes(sweep.rows))}"
