"""The door to a run folder for everything that reads: tables, pages, figures and exports.

A run is data. Nothing that a folder names is imported, opened or asked: no protocol of the user's,
no store, no address. Links within a folder are not followed, and what is read of it is bounded."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from ...cache.call import Call, store_key
from ...cache.entry import read_entry
from ...cache.reply import Reply
from ...cache.sqlite import STORE_FILE
from ...cache.store import Reader
from ...protocols.question import Problem
from ...protocols.scores import applicable
from ..errors import RunFolderError, UsageError
from ..providers.catalogue import entry, provider_of, same_model
from ..providers.simulated import PREFIX
from ..sweep.grid import MAX_CELLS, Grid, read_grid
from ..system.files import refuse_links_within
from .events import EVENTS, mixed_lines
from .folders import Manifest, manifest_in, remembered_store
from .outcome import OutcomeRecord, Outcomes
from .record.schema import RUN_DB, RunDamaged
from .record.tables import RunTables, damage_named
from .record.values import RecordedCall, RecordedCell
from .settings import is_url, open_for_reading, store_name
from .sides import SIDES, SidesRead, read_sides, with_sides

if TYPE_CHECKING:
    from ..models.accounting.prices import PriceList


Made = TypeVar("Made")

LARGE = 20_000
"""Cells of a run that takes more than a second to read."""


@dataclass(frozen=True, slots=True)
class Place:
    """One problem under one row, in one repeat: the unit that `show` prints."""

    row: int
    """Number of the row in the sweep, from 0."""
    problem: int
    """Number of the problem in the sweep, from 0."""
    draw: int = 0


@dataclass
class RunReader:
    """A run folder, opened for reading. Opening reads nothing; each part is read when it is first
    needed, so that the first page of a large run does not wait for the rest. A context manager,
    which closes database and store.

    Every attribute raises RunFolderError, with the next step, for a folder that is damaged or no
    run folder, and DatasetError for problems that cannot be read."""

    folder: Path
    store: Path | str | None = None
    """A store of replies, for requests, which are in no record; None for the user's own store. A
    store that the run itself names is not opened."""
    _tables: "tuple[object, RunTables] | None" = field(default=None, init=False, repr=False)
    _kept: dict[object, Any] = field(default_factory=dict, init=False, repr=False)
    _held: ExitStack = field(default_factory=ExitStack, init=False, repr=False)
    _opening: RLock = field(default_factory=RLock, init=False, repr=False)

    def __enter__(self) -> "RunReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        if self._tables is not None:
            self._tables[1].db.close()
            self._tables = None

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @cached_property
    def manifest(self) -> Manifest:
        refuse_links_within(self.folder)
        return manifest_in(self.tables)

    @cached_property
    def notice(self) -> str:
        """A line for users who wait until a large run is read; empty for others."""
        cells = self.manifest.cells
        return f"reading {cells:,} cells of {self.folder}" * (cells > LARGE)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        return self.tables.problems

    @cached_property
    def sweep(self) -> Grid:
        """Its sweep as data: problems, rows with their settings, draws."""
        try:
            grid = read_grid(self.tables.grid(), self.problems)
        except ValueError as exc:
            raise RunDamaged(self.folder / RUN_DB, str(exc)) from exc
        if not 0 < grid.size == self.manifest.cells <= MAX_CELLS:
            raise RunDamaged(
                self.folder / RUN_DB,
                f"its manifest counts {self.manifest.cells} cells, and its problems and rows make "
                f"{grid.size:,}; at most {MAX_CELLS:,} are read",
            )
        return grid

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """The scores that every problem admits."""
        return tuple(applicable(max(len(problem.values) for problem in self.problems)))

    @property
    def stamp(self) -> object:
        """A value that changes whenever a cell lands."""
        file = self.folder / RUN_DB
        return _stamp(file), _stamp(file.with_name(f"{RUN_DB}-wal"))

    @property
    def sides(self) -> Mapping[int, SidesRead]:
        """By place, what checkers found after the run in the speeches of a cell. RunFolderError."""
        stamp, entry = _stamp(self.folder / EVENTS), self._kept.get(SIDES)
        if entry is None or entry[0] != stamp:
            entry = self._kept[SIDES] = stamp, read_sides(self.folder)
        sides: Mapping[int, SidesRead] = entry[1]
        return sides

    def outcomes(self) -> Iterator[OutcomeRecord]:
        """Every outcome that has completed, in the order of the sweep, with `sides`."""
        sides = self.sides
        records = self.recorded_outcomes()
        return (with_sides(record, sides) for record in records) if sides else records

    def recorded_outcomes(self) -> Iterator[OutcomeRecord]:
        """`outcomes` as the run recorded them."""
        size = len(self.sweep)
        for record in Outcomes(self.tables).all():
            if not 0 <= record.place < size:
                raise RunDamaged(
                    self.folder / RUN_DB, f"cell {record.cell} is none of this sweep's {size:,}"
                )
            yield record

    def records(self, places: Iterable[int]) -> dict[int, OutcomeRecord]:
        """The outcomes of a few cells, by place in the sweep, without a look at the others."""
        outcomes, sides = Outcomes(self.tables).at(places), self.sides
        return {place: with_sides(record, sides) for place, record in outcomes.items()}

    @property
    def tables(self) -> RunTables:
        """The database in its current state. RunFolderError if it is missing."""
        with self._opening:
            stamp = self.stamp
            if self._tables is None or self._tables[0] != stamp:
                tables = RunTables.open(self.folder)
                if "problems" in self.__dict__:
                    tables.problems = self.problems
                # An earlier one may be in use by another thread, and is closed with its last user.
                self._tables = stamp, tables
            return self._tables[1]

    def cells(self, places: Iterable[int]) -> dict[int, RecordedCell]:
        """Return the records of some cells, by place in the sweep. RunFolderError."""
        sides = self.sides
        cells = {cell.place: cell for cell in self.tables.cells(places)}
        return {at: sides[at].shown_in(cell) if at in sides else cell for at, cell in cells.items()}

    def keys(self) -> set[str]:
        """The store's keys of every call of a cell that has ended. RunFolderError."""
        tables = self.tables
        numbers = {row[2] for stored in tables.ended(None, "asked") for row in stored.asked}
        with damage_named(tables.file):
            return {
                store_key(address.hex(), tables.endpoint(endpoint)[1])
                for _, address, endpoint, *_ in tables.stored_calls(numbers)
            }

    def stored(self, call: RecordedCall) -> tuple[Call, Reply] | None:
        """A call and its reply as the store has them; None where no store is at hand, or it lacks
        that call."""
        if self._store is None:
            return None
        key = store_key(call.address, call.cost.identity)
        value = self._store.get(key)
        if value is None:
            return None
        stored = read_entry(key, value)
        return (stored.call(), stored.reply()) if stored.call_size else None

    @cached_property
    def _store(self) -> "Reader | None":
        """The user's store. The folder may come from a stranger, so its store is not opened."""
        name = str(self.store) if self.store else store_name(None)
        if not self.store and not _is_there(name):
            return None
        return self._held.enter_context(closing(open_for_reading(name)))

    @property
    def prices(self) -> "PriceList":
        """The listed prices, also under the names that the sweep gives to public models."""
        from ..models.accounting.prices import listed

        return listed().named(self.sweep.meanings)

    def kept(self, make: "Callable[[RunReader], Made]") -> Made:
        """Return `make(self)`, computed once while the run is open. Threads may call this."""
        with self._opening:
            if make not in self._kept:
                self._kept[make] = make(self)
            value: Made = self._kept[make]
            return value

    def where(self, at: int) -> tuple[Place, int]:
        """The reading, and the side, of the cell at a place in the sweep."""
        problem = self.sweep.problem_at(at)
        answers = len(self.sweep.problems[problem].values)
        before, side = divmod(at - self.sweep.span(problem).start, answers)
        draw, row = divmod(before, len(self.sweep.rows))
        return Place(row, problem, draw), side

    def worlds(self, place: Place) -> range:
        """The places of all worlds of a reading."""
        answers = len(self.sweep.problems[place.problem].values)
        before = place.draw * len(self.sweep.rows) + place.row
        first = self.sweep.span(place.problem).start + before * answers
        return range(first, first + answers)


class Follower:
    """Follows the outcomes of a run as they land: each once."""

    def __init__(self, run: RunReader, again: Callable[[], None]) -> None:
        """again: called before the outcomes are read from the first on: cells that had ended were
        run again, or a checker has read speeches since."""
        self._run = run
        self._again = again
        self._landed = 0
        self._state: object = None

    def new(self) -> Iterator[OutcomeRecord]:
        """The outcomes since they were last read to the end, in the order in which they landed; at
        first all, in the order of the sweep. RunFolderError."""
        tables = self._run.tables
        sides = self._run.sides
        state = tables.setting("forgotten"), sides
        if state != self._state and self._landed:
            self._landed = 0
            self._again()
        self._state = state
        landed = self._landed
        for number, record in Outcomes(tables).since(landed):
            landed = max(landed, number)
            yield with_sides(record, sides) if sides else record
        self._landed = landed


def _stamp(file: Path) -> object:
    """Return a value that changes with a file; None if it does not exist."""
    try:
        stat = file.lstat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


_log = logging.getLogger(__name__)

REPLIES = "replies"
"""In the folder of a run that came in a pack, the store of its replies."""


@contextmanager
def recorded(run: Path, chosen: Path | str | None) -> Iterator[Reader]:
    """The store given, else the one that the run was made with on this machine, or the replies that
    came with it, else the user's; read-only. A store that a folder names is not opened.
    RunFolderError, with the next step, if the store is missing."""
    wanted_name = str(chosen or _named_by(run))
    name = wanted_name if chosen or _is_there(wanted_name) else store_name(None)
    if not _is_there(name):
        raise RunFolderError(
            f"{name}: no store found; name the store that has the replies of {run} with --store"
        )
    if not chosen and name != wanted_name:
        why = "its store is not there" if wanted_name else "it was not made on this machine"
        _log.warning(
            "%s: %s; replies are looked for in your store, %s (--store names another)",
            run,
            why,
            name,
        )
    with closing(open_for_reading(name)) as store:
        yield store


def _is_there(name: str) -> bool:
    """Whether something has that name; a database tells only when it is opened."""
    return bool(name) and (is_url(name) or Path(name).expanduser().exists())


def _named_by(run: Path) -> str:
    """Where the replies of a run are; empty if that is not known."""
    file = run / REPLIES / STORE_FILE
    with_it = str(file.parent) if file.is_file() and not file.is_symlink() else ""
    store = remembered_store(run)
    return store if _is_there(store) else with_it or store


@dataclass(frozen=True)
class ReplySource:
    """Replies to one model that came the same way."""

    asked: str
    served: str
    """The model that the server says answered; empty if it does not say."""
    origin: str
    """`live ADDRESS`, `batch ADDRESS`, `imported` or `unknown`."""
    elsewhere: bool
    """Whether that is not the address that the run itself asks, or is not known."""
    replies: int

    @property
    def foreign(self) -> bool:
        """Whether they come from elsewhere, or from an address that is not the provider's own. The
        user names the address of a self-hosted server, so replies from it are never foreign, even
        after it moved. Imported replies are, whoever gave them."""
        try:
            provider = entry(provider_of(self.asked))
        except UsageError:
            return True
        kind, _, address = self.origin.partition(" ")
        if provider.own and kind in ("live", "batch"):
            return False
        # The address of a cloud contains the name of a region.
        start, _, _end = provider.base_url.partition("{")
        is_known = bool(start) and address.startswith(start)
        return self.elsewhere or not (is_known and address.endswith(_end.rpartition("}")[2]))


def origins(sweep: Grid, folder: Path, *, addresses: bool = True) -> tuple[str, ...]:
    """Return a line for each fact about the origin of replies that a reader of figures must know.
    The facts: simulated models, replies from another address than the provider's own, and other
    models that answered. addresses: whether to name addresses; captions leave them out. Raises
    RunFolderError."""
    made_up = [model for model in sweep.models if model.startswith(PREFIX)]
    simulated = [f"SIMULATED models: {', '.join(made_up)}"] if made_up else []
    lines = source_lines(read_sources(folder), addresses=addresses)
    return (*simulated, *mixed_lines(folder), *lines)


def read_sources(folder: Path) -> list[ReplySource]:
    """Every call counts once; calls of simulated models not at all. RunFolderError."""
    counts = Counter[tuple[str, str, str, bool]]()
    with RunTables.open(folder) as tables:
        sources = {
            number: (model, served, came, bool(elsewhere))
            for number, model, _, served, _, came, elsewhere in tables.table("endpoints")
            if came
        }
        by_endpoint = "SELECT endpoint, count(*) FROM calls GROUP BY endpoint"
        for number, count in tables.fetched(by_endpoint) if sources else ():
            if number in sources:
                counts[sources[number]] += count
    return [ReplySource(*source, count) for source, count in sorted(counts.items())]


def source_lines(sources: list[ReplySource], *, addresses: bool = True) -> list[str]:
    """Return the lines of `origins` about replies of real models."""
    lines = []
    for model in dict.fromkeys(source.asked for source in sources):
        ours = [source for source in sources if source.asked == model]
        total = sum(source.replies for source in ours)
        others: Counter[str] = Counter()
        elsewhere: Counter[str] = Counter()
        for source in ours:
            if source.served and not same_model(model.rpartition("/")[2], source.served):
                others[source.served] += source.replies
            if source.foreign:
                elsewhere[source.origin] += source.replies
        for served, replies in others.most_common():
            lines.append(f"{model}: {replies:,} of {total:,} replies were given by {served}")
        if elsewhere:
            names = ", ".join(f"{count:,} {origin}" for origin, count in elsewhere.most_common())
            lines.append(
                f"{model}: {elsewhere.total():,} of {total:,} replies came from a different address"
                + (f": {names}" if addresses else "")
            )
    return lines
