"""Messages between a fleet and its workers: small, frozen, picklable, and free of keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...cache.cache import CacheStatistics, Mode
from ..accounting.ledger import UsageTotals
from ..accounting.prices import PriceList
from ..errors import Halt
from ..providers.local_server import LocalServer
from ..runs.outcome import CompletedCell
from ..sweeps.sweepfile import SweepFile
from ..throughput import LimitStatistics


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """All that a worker needs to run cells of a sweep. Keys come from its own environment."""

    file: SweepFile
    identity: str
    """Digest of the sweep and its code: a worker with other code is refused."""
    store: str
    """A folder, or a URL."""
    mode: Mode
    run_id: str
    """See `Cache`."""
    lanes: int
    """Cells that this worker runs at a time."""
    prices: PriceList
    capped: bool
    """Whether the run has a cap: then dollars are leased."""
    quarantine: str
    """Folder for malformed bodies."""
    deferred: tuple[str, ...] = ()
    """Models that the fleet asks itself: a worker only reports their calls."""
    servers: Mapping[str, LocalServer] = field(default_factory=dict)
    """By model, what the user's servers said of themselves: the fleet asks for all workers."""


@dataclass(frozen=True, slots=True)
class Job:
    """The cells of one problem that have no outcome yet."""

    problem: int
    """Its index in the sweep, from 0."""
    cells: tuple[int, ...] | None = None
    """Indexes of the missing ones; None for all of the problem's cells."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one worker may use of one model's limits."""

    share: float
    """Part of every rate limit, in [0, 1]."""
    width: int | None
    """Calls in flight; None where the sweep sets no limit."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that a 429 at one worker imposes on all."""

    model: str
    seconds: float
    """Duration, from the moment the message is read."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker is to do now. Fields left out change nothing."""

    jobs: tuple[Job, ...] = ()
    low_water: int = 0
    """Backlog (cells) below which the worker reports at once to get more; 0: there are no more."""
    grants: Mapping[str, Grant] = field(default_factory=dict)
    lease_ttl: float = 0.0
    """Seconds for which the grants hold, from the moment the message is read."""
    dollars: float | None = None
    """All that this worker may ever spend, as decided so far; None: no cap, or no change."""
    pauses: tuple[Pause, ...] = ()
    halt: Halt | None = None
    faults: tuple[tuple[str, Exception], ...] = ()
    """(address, exception) of calls that the fleet asked in vain: a worker that asks one again
    gets its exception."""
    final: bool = False
    """No further jobs will come."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What a worker still holds just after it took its orders, and cannot give back at once."""

    used: float = 0.0
    """Dollars spent or reserved."""
    in_flight: Mapping[str, int] = field(default_factory=dict)
    """Calls by model."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker's results since its last report, and its state."""

    completed: tuple[CompletedCell, ...]
    finished: tuple[int, ...]
    """Problems whose every cell has ended, with an outcome or at a missing reply."""
    backlog: int
    """Cells not begun."""
    in_progress: int
    """Cells being run."""
    idle: bool
    """Nothing is left to do, and nothing is in flight."""
    limits: Mapping[str, LimitStatistics]
    simulating: int
    """Calls of simulated models in progress."""
    accounts: Mapping[str, UsageTotals]
    calls: CacheStatistics
    spent: float
    """Dollars."""
    reserved: float
    """Dollars that its calls in flight may cost at most."""
    wants: float
    """Dollars that the first call in line lacks; 0 if none does."""
    pauses: tuple[Pause, ...]
    halt: Halt | None
    pending: int = 0
    """Cells that ended at a missing reply."""
    deferred: tuple[tuple[int, bytes], ...] = ()
    """Calls without a reply of models that the fleet asks: the cell's place, and the call as
    canonical JSON."""
