"""Workers, processes that attempt the cells they are given, and dealing out cells to them.

A worker holds nothing durable: replies are in the store, and outcomes go back to the driver, the
process that writes the run. The two take turns: a `Turn` brings cells and orders, and its `Answer`
brings the events since. A turn that was not answered is repeated, which changes nothing.

The cells of a problem share calls. While many problems are left, a worker takes whole problems, so
that its cache asks each call once. Cells of the last problems, and of lost workers, go to all
workers with room; there, a worker claims each call before it asks it."""

import asyncio
import math
import pickle
from collections import Counter, deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ...cache.cache import CacheStatistics
from ...cache.call import Call
from ...cache.errors import StoreError
from ...cache.reply import Reply
from ..errors import Halt, UsageError
from ..models.accounting.budget import Budget
from ..models.accounting.ledger import Accounting, UsageTotals
from ..models.directory import Directory
from ..models.router import Router
from ..providers.catalogue import entry, provider_of
from ..providers.keys import missing_key
from ..providers.settings import Environment, environment
from ..providers.simulated import PREFIX
from ..sweep.code import CodeFile, combined, row_codes
from ..sweep.sweep import Cell, Sweep
from ..sweep.sweepfile import SweepFile
from .cached_models import CachedModels
from .execution import first_cells
from .lanes import attempt_noted, run_lanes
from .loaded_sweep import load_sweep
from .record.capture import Capture
from .record.values import RecordedCell
from .schedule import Schedule
from .settings import RunSettings, open_store, store_name

LIVES = 3
"""Workers that a cell may end before it fails; it was alone on the last one."""
LAST_PROBLEMS = 2
"""Problems per worker, at the end of a run, that all workers share."""


@dataclass(eq=False)
class Hand:
    """The cells and claims of one worker."""

    room: int = 0
    """Cells that keep it busy."""
    under_way: dict[int, Cell] = field(default_factory=dict)
    waiting: deque[Cell] = field(default_factory=deque)
    """Cells of problems that no other worker takes."""
    granted: list[tuple[str, bool]] = field(default_factory=list)
    """Calls that it may ask now, and whether another worker has paid for them."""


class Deal:
    """Deals out the cells of an order."""

    def __init__(
        self, schedule: Schedule[Cell, RecordedCell], sweep: Sweep, ended: bytearray, workers: int
    ) -> None:
        """ended: by place, not 0 for a cell that has an outcome."""
        self._schedule, self._sweep = schedule, sweep
        spans = map(sweep.span, range(len(sweep.problems)))
        open_ones = [n for n, span in enumerate(spans) if not all(ended[span.start : span.stop])]
        self._shared = {*open_ones[-LAST_PROBLEMS * workers :]}
        """Problems whose cells go to all workers."""
        self._left = ended.count(0)
        self._hands: list[Hand] = []
        self._ahead: Cell | None = None
        """The next cell of the order, if it was looked at."""
        self._exhausted = False
        self._returned: deque[Cell] = deque()
        """Cells of lost workers."""
        self._deaths: Counter[int] = Counter()
        """By place, workers that ended by themselves while the cell was under way."""
        self._claims: dict[str, deque[Hand]] = {}
        """By call, the worker that may ask it, and those that wait."""
        self._paid: set[str] = set()

    def join(self, hand: Hand) -> None:
        self._hands.append(hand)

    def is_shared(self, cell: Cell) -> bool:
        """Whether the worker must claim the calls of a cell."""
        return self._sweep.problem_at(cell.place) in self._shared

    @property
    def idle(self) -> bool:
        return not any(hand.under_way for hand in self._hands)

    @property
    def finished(self) -> bool:
        """Whether every cell of the order has ended."""
        waiting = self._returned or any(hand.waiting for hand in self._hands)
        return self._exhausted and not waiting and self.idle

    async def take(self, hand: Hand) -> list[Cell]:
        """The cells that a worker begins now: as many as it has room for, and at most its share of
        those that are left, so that all workers are busy to the end."""
        cells: list[Cell] = []
        rooms = sum(other.room for other in self._hands)
        room: float = min(hand.room, max(math.ceil(self._left * hand.room / rooms), 1))
        if self._deaths:
            room = min([room, *map(self._company, hand.under_way.values())])
        while len(hand.under_way) < room and (cell := await self._next(hand)) is not None:
            hand.under_way[cell.place] = cell
            room = min(room, self._company(cell))
            cells.append(cell)
        return cells

    def record_result(self, hand: Hand, place: int, result: RecordedCell | None) -> None:
        """Take note of how a cell ended; without a result at a stop."""
        self._left -= result is not None
        self._schedule.record_result(hand.under_way.pop(place), result)

    def lose(self, hand: Hand, *, by_itself: bool) -> Cell | None:
        """Give the cells of a lost worker to the others. by_itself: whether the worker ended, and
        not its machine. Then a cell under way may be the cause: it begins again with fewer others
        each time. Returns the cell that was alone on the last of `LIVES` workers, which stays under
        way until `ended`."""
        cells, guilty = [*hand.under_way.values()], None
        if by_itself:
            self._deaths.update(hand.under_way.keys())
            if len(cells) == 1 and self._deaths[cells[0].place] >= LIVES:
                guilty = cells.pop()
        self._hands.remove(hand)
        hand.under_way = {} if guilty is None else {guilty.place: guilty}
        cells += hand.waiting
        self._shared.update(self._sweep.problem_at(cell.place) for cell in cells)
        self._returned.extend(cells)
        for call in [call for call, hands in self._claims.items() if hand in hands]:
            self.release(hand, call, paid=False)
        return guilty

    def claim(self, hand: Hand, call: str) -> None:
        """A worker wants to ask a call: it may as soon as no other worker is asking it."""
        hands = self._claims.setdefault(call, deque())
        hands.append(hand)
        if hands[0] is hand:
            hand.granted.append((call, call in self._paid))

    def release(self, hand: Hand, call: str, paid: bool) -> None:
        """A worker has asked a call; paid: and paid for it."""
        if paid:
            self._paid.add(call)
        hands = self._claims[call]
        first = hands[0]
        hands.remove(hand)
        if not hands:
            del self._claims[call]
        elif hands[0] is not first:
            hands[0].granted.append((call, call in self._paid))

    def _company(self, cell: Cell) -> float:
        """Cells that may be under way on one worker with a cell that may have ended others."""
        deaths = self._deaths[cell.place]
        hand_room = max(other.room for other in self._hands)
        return max(hand_room >> 3 * deaths, 1) if deaths else math.inf

    async def _next(self, hand: Hand) -> Cell | None:
        if self._returned:
            # Where it must wait for others to end, none begins: else it would wait forever.
            if len(hand.under_way) < self._company(self._returned[0]):
                return self._returned.popleft()
            return None
        if hand.waiting:
            return hand.waiting.popleft()
        cell, self._ahead = self._ahead or await self._pull(), None
        if cell is not None and not self.is_shared(cell):
            number = self._sweep.problem_at(cell.place)
            while (after := await self._pull()) is not None:
                if self._sweep.problem_at(after.place) != number:
                    self._ahead = after
                    break
                hand.waiting.append(after)
        return cell

    async def _pull(self) -> Cell | None:
        cell = await anext(self._schedule, None)
        self._exhausted = cell is None
        return cell


Endpoint: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]
"""Address, identity in the store, and options."""


@dataclass(frozen=True)
class Reached:
    """Addresses and identities of the machine that starts a run, valid for all its workers."""

    variables: Mapping[str, str]
    """Environment variables with addresses, regions and the like."""
    beside: Collection[str]
    """Variables that come from `.env`: keys of a worker's environment are not sent to them."""
    endpoints: Mapping[str, Endpoint]
    """By model."""

    @classmethod
    def here(cls, models: Directory, names: Collection[str]) -> "Reached":
        """Addresses and identities of this machine. names: the models of the sweep."""
        real = [name for name in names if not name.startswith(PREFIX)]
        rows = [entry(provider) for provider in {provider_of(name) for name in real}]
        names_of = {row.base_url_variable for row in rows}
        names_of |= {variable for row in rows for _, variable, _ in row.options}
        present = environment(Path())
        variables = {name: present[name] for name in names_of if present.get(name)}
        endpoints = {name: _endpoint(models, name) for name in real}
        return cls(variables, present.beside & variables.keys(), endpoints)

    def environment(self) -> Environment:
        """The environment of this machine, with missing variables filled in."""
        present = environment(Path())
        lacking = {name: value for name, value in self.variables.items() if not present.get(name)}
        merged = Environment(present | lacking)
        merged.beside = (present.beside - lacking.keys()) | lacking.keys() & {*self.beside}
        return merged

    def check(self, models: Directory, variables: Environment) -> None:
        """Raise UsageError if this machine lacks a key, or reaches a model with other settings."""
        missing = sorted({missing_key(name, variables) for name in self.endpoints} - {""})
        if missing:
            raise UsageError(
                f"has no {' and no '.join(missing)}: set it in the environment of the workers "
                "there; keys do not travel"
            )
        for name, endpoint in self.endpoints.items():
            if (actual := _endpoint(models, name)) != endpoint:
                source = models.settings_of(name).address_from or "the default"
                raise UsageError(
                    f"reaches {name} by {_shown(actual)} ({source}), but the machine that started "
                    f"the run by {_shown(endpoint)}: unset it there, or use the same setting"
                )


def _endpoint(models: Directory, name: str) -> Endpoint:
    settings = models.settings_of(name)
    return settings.base_url, settings.identity, settings.options


def _shown(endpoint: Endpoint) -> str:
    url, identity, options = endpoint
    return ", ".join((url, identity, *(f"{name} {value}" for name, value in options if value)))


EVERY, SOON = 0.25, 0.03
"""Seconds until an answer without events; and while a call waits for its claim."""


class Ended(NamedTuple):
    """How a cell ended; without a result at a stop."""

    place: int
    result: RecordedCell | None


class Claim(NamedTuple):
    """A worker wants to ask a call, or has asked it and perhaps paid for it."""

    call: str
    over: bool = False
    paid: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    accounts: Mapping[str, UsageTotals]
    calls: CacheStatistics
    lines: tuple[str, ...]
    in_flight: int
    room: int
    """Number of cells that keep it busy."""
    halt: Halt | None
    spent: float = 0.0
    reserved: float = 0.0
    """Dollars that calls in flight may cost at most."""
    wants: float = 0.0
    """Dollars that the first call in line lacks room for; 0 if none does."""
    unconfirmed: float = 0.0
    """Dollars of those spent that are in doubt."""
    mixed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each time that a provider may have mixed up replies: its name, and the calls."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Cells and orders for a worker."""

    number: int
    """The same if the turn is repeated."""
    received: int
    """Number of events that have arrived."""
    cells: tuple[tuple[int, bool], ...]
    """Places in the sweep, and whether the calls of the cell are claimed."""
    granted: tuple[tuple[str, bool], ...]
    """Calls that the worker may ask now, and whether another one has paid for them."""
    stand: bool
    """Whether the answer holds the state."""
    dollars: float | None
    """All that the worker may spend; None for no change, and without a cap."""
    halt: Halt | None
    last: bool


class Answer(NamedTuple):
    """The events that have not arrived yet, and the state, if the turn asks for it: as it was
    before the orders, and after all events in the last turn."""

    events: tuple[Ended | Claim, ...]
    standing: Standing | None


class Share(Budget):
    """A worker's part of the dollars of a run, which each turn may change."""

    wants = 0.0

    def fits(self, worst: float) -> bool:
        fits = super().fits(worst)
        if not fits:
            self.wants = worst
        return fits

    @property
    def over(self) -> bool:
        return False  # other workers may give some back: only the driver knows

    def extend(self, reach: float) -> None:
        """Spend no more than this in all, or than is spent and reserved already."""
        self.cap, self.wants = max(reach, self.spent + self.reserved), 0.0
        for listener in self._listeners:
            listener()


@dataclass(eq=False)
class _Claimed:
    """A call that this worker claims, and the number of its cells that ask it."""

    granted: asyncio.Event = field(default_factory=asyncio.Event)
    users: int = 0
    paid: bool = False


class CellWorker(Schedule[Cell, RecordedCell]):
    """A worker, on one event loop; also the order of its cells: as they arrive."""

    def __init__(self, code: tuple[CodeFile, ...], setup: bytes) -> None:
        """code: files of the user's classes, without which the setup cannot be unpickled. setup:
        arguments of `_Opened`, pickled."""
        self._code, self._setup = code, setup
        self._turn = self._received = 0
        self._events: list[Ended | Claim] = []
        self._changed = asyncio.Event()
        self._cells: asyncio.Queue[Cell | None] = asyncio.Queue()
        self._shared = set[int]()
        """Places of the cells whose calls are claimed."""
        self._claims: dict[str, _Claimed] = {}

    async def open(self, node: str) -> Standing:
        """Make all that calls need. node: name of the machine, for the errors. UsageError for other
        code, another address, a missing key or module, and for a store that cannot be opened; it
        names the machine and the fix."""
        try:
            for file in self._code:
                file.load()
            self._opened = _Opened(*pickle.loads(self._setup))
        except ModuleNotFoundError as exc:
            raise UsageError(
                f"{node} cannot import {exc.name}: install it there, or name a file of yours as "
                "my_file.py:MyClass, which is sent along"
            ) from None
        except (UsageError, StoreError, AttributeError, ImportError) as exc:
            raise UsageError(f"{node} {' '.join(str(exc).split())}") from None
        opened = self._opened
        self._lanes = asyncio.create_task(
            run_lanes(
                *(self, self._attempt, lambda cell, ended: None),
                lanes=opened.room,
                stop_token=opened.cached.models.stop_token,
                waits=lambda: opened.cached.cache.waits,
            )
        )
        self._lanes.add_done_callback(lambda task: self._changed.set())
        return opened.standing()

    async def turn(self, turn: Turn) -> Answer:
        opened, stop_token = self._opened, self._opened.cached.models.stop_token
        del self._events[: max(turn.received - self._received, 0)]
        self._received = max(turn.received, self._received)
        standing = opened.standing() if turn.stand else None
        if turn.halt is not None:
            stop_token.stop(turn.halt)
        if turn.number > self._turn:
            self._turn = turn.number
            if turn.dollars is not None:
                opened.share.extend(turn.dollars)
            self._shared.update(place for place, shared in turn.cells if shared)
            for place, _ in turn.cells:
                self._cells.put_nowait(opened.cell(place))
            opened.paid.update(call for call, paid in turn.granted if paid)
            for call, _ in turn.granted:
                if call in self._claims:
                    self._claims[call].granted.set()
        if turn.last:
            self._cells.put_nowait(None)
            await asyncio.wait((self._lanes,))
            standing = opened.standing()
        elif not self._events and not self._lanes.done():
            self._changed.clear()
            waits = any(not claim.granted.is_set() for claim in self._claims.values())
            with suppress(TimeoutError):
                async with asyncio.timeout(SOON if waits else EVERY):
                    await self._changed.wait()
        if stop_token.halt is not None or self._lanes.done():
            self._end_early()
        if self._lanes.done():
            self._lanes.result()
        return Answer((*self._events,), standing)

    async def __anext__(self) -> Cell:
        cell = await self._cells.get()
        if cell is None:
            self._cells.put_nowait(None)  # for the other lanes
            raise StopAsyncIteration
        return cell

    def record_result(self, cell: Cell, result: RecordedCell | None) -> None:
        self._note(Ended(cell.place, result))

    def _note(self, event: Ended | Claim) -> None:
        self._events.append(event)
        self._changed.set()

    def _end_early(self) -> None:
        """At a stop no cell begins, and no call waits for its claim."""
        for claim in self._claims.values():
            claim.granted.set()
        while not self._cells.empty():
            if (cell := self._cells.get_nowait()) is not None:
                self.record_result(cell, None)
        self._cells.put_nowait(None)

    async def _attempt(self, cell: Cell) -> RecordedCell:
        opened, cache = self._opened, self._opened.cached.cache
        ask = self._claiming if cell.place in self._shared else cache
        noted = await attempt_noted(cell, ask, cache.shared_results)
        if opened.first_cells is not None:
            noted = await opened.first_cells.checked(cell, noted)
        return opened.capture.cell(cell, *noted)

    async def _claiming(self, call: Call) -> Reply:
        """The reply to a call that other workers may ask at the same moment."""
        cache, paid, address = self._opened.cached.cache, self._opened.paid, call.address
        if call.model.startswith(PREFIX):
            return await cache(call)
        if address not in self._claims:
            self._claims[address] = _Claimed()
            self._note(Claim(address))
        claim = self._claims[address]
        claim.users += 1
        try:
            await claim.granted.wait()
            reply = await cache(call)
            claim.paid = claim.paid or address in paid
            return reply
        finally:
            claim.users -= 1
            if not claim.users:
                del self._claims[address]
                self._note(Claim(address, over=True, paid=claim.paid))


class _Opened:
    """A sweep with its models, behind a cache over the store of the run."""

    def __init__(
        self,
        file: SweepFile,
        code: str,
        reached: Reached,
        settings: RunSettings,
        run_id: str,
        accounting: Accounting,
        quarantine: Path | None,
        workers: int,
    ) -> None:
        """code: as `code_of` gives it; other code is refused. accounting: the run's; turns say how
        much may be spent. workers: how many share every limit. Keys are the worker's."""
        variables = reached.environment()
        loaded = load_sweep(file, variables)
        self.sweep, self.paid = loaded.sweep, set[str]()
        roles = () if settings.cache == "replay" else loaded.sweep.roles
        if roles:
            reached.check(loaded.models, variables)
        if code_of(loaded.sweep) != code:
            raise UsageError(
                "has other code than the machine that started the run: install the same version of "
                "oversight-bench, and of packages with your protocols, on all machines"
            )
        cap = accounting.budget
        self.share = Share(0.0, tokens=cap is not None and cap.tokens)
        models = Router(
            *(loaded.models, roles, replace(accounting, budget=cap and self.share)),
            loaded.stop_token,
            quarantine=quarantine,
            give_up=settings.give_up,
            sharers=workers,
        )
        self._mixed: list[tuple[str, tuple[str, ...]]] = []
        models.on_mixed = lambda *mixed: self._mixed.append(mixed)
        store = open_store(store_name(settings.store))
        self.cached = CachedModels(models, store, settings.cache, run_id, self.paid)
        prices, token = models.accounting.prices, self.cached.cache.token
        self.capture = Capture(loaded.sweep, loaded.models, prices, self.paid, token)
        self.first_cells = first_cells(loaded.sweep.rows)
        self._most, self._workers = loaded.file.top.max_cells, workers
        self._cells_of = lru_cache(maxsize=64)(lambda number: [*self.sweep.cells_of(number)])

    def cell(self, place: int) -> Cell:
        number = self.sweep.problem_at(place)
        cells: list[Cell] = self._cells_of(number)
        return cells[place - self.sweep.span(number).start]

    def room(self) -> int:
        """Cells that keep its share of the limits in use: twice as many as the calls that may be in
        flight, since some cells wait for a call of another one."""
        if self._most is not None:
            return max(self._most // self._workers, 1)
        models = self.cached.models
        real = [name for name in self.sweep.models if not name.startswith(PREFIX)]
        widths = [models.limits_of(name).concurrency or 0 for name in real]
        return 2 * sum(widths) if real and all(widths) else models.cells_at_once(real)

    def standing(self) -> Standing:
        by, share = self.cached, self.share
        calls = by.accounts(), by.statistics, by.lines(), by.in_flight, self.room()
        dollars = share.spent, share.reserved, share.wants, share.unconfirmed
        return Standing(*calls, by.models.stop_token.halt, *dollars, (*self._mixed,))


def code_of(sweep: Sweep) -> str:
    """Digest of the sweep and of the code behind its rows, which all workers share."""
    return f"{sweep.identity} {combined(row_codes(sweep.rows))}"
