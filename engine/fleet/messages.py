"""What a fleet and its workers say to each other. Small, frozen, picklable; no key is in any."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from oversight.cache.cache import CacheStatistics, Mode
from oversight.engine.accounting.ledger import UsageTotals
from oversight.engine.accounting.prices import PriceList
from oversight.engine.errors import Halt
from oversight.engine.providers.local_server import LocalServer
from oversight.engine.runs.outcome import LandedCell
from oversight.engine.sweeps.sweepfile import SweepFile
from oversight.engine.throughput import LimitStatistics


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """All that a worker must know to run cells of a sweep. Keys come from its own environment."""

    file: SweepFile
    identity: str
    """Of the sweep: a worker with other code computes another one, and is refused."""
    store: str
    """A folder, or a URL."""
    mode: Mode
    refreshed_since: int | None
    """Of a refresh that goes on after a stop; see `Cache`."""
    lanes: int
    """Cells that this worker has under way."""
    prices: PriceList
    capped: bool
    """Whether the run has a cap: then dollars are leased."""
    quarantine: str
    """Folder for malformed bodies."""
    servers: Mapping[str, LocalServer] = field(default_factory=dict)
    """By model, what the user's servers said of themselves: one asks for all."""


@dataclass(frozen=True, slots=True)
class Job:
    """The cells of one problem that have no outcome yet."""

    problem: int
    """Its number in the sweep, from 0."""
    places: tuple[int, ...] | None = None
    """Those of them that are missing; None for all."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one worker may use of one model's limits."""

    share: float
    """Part of every told rate, in [0, 1]."""
    width: int | None
    """Calls in flight; None where the sweep sets no limit."""


@dataclass(frozen=True, slots=True)
class Pause:
    """What a 429 at one worker asks of all."""

    model: str
    seconds: float
    """From the moment at which it is told."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker is to do now. What is left out stays as it is."""

    jobs: tuple[Job, ...] = ()
    low: int = 0
    """Cells not begun below which the worker calls for more at once; 0: there are no more."""
    grants: Mapping[str, Grant] = field(default_factory=dict)
    lease_ttl: float = 0.0
    """Seconds for which the grants hold, from the moment at which they are read."""
    dollars: float | None = None
    """All that this worker may ever spend, as far as is known; None: no cap, or no change."""
    pauses: tuple[Pause, ...] = ()
    halt: Halt | None = None
    last: bool = False
    """No jobs come any more."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """How a worker stands just after it took its orders: what it cannot give back at once."""

    used: float = 0.0
    """Dollars that are spent or reserved."""
    in_flight: Mapping[str, int] = field(default_factory=dict)
    """Calls by model."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What came of a worker's work since its last report, and how it stands."""

    landed: tuple[LandedCell, ...]
    finished: tuple[int, ...]
    """Problems whose every cell has landed."""
    backlog: int
    """Cells that nobody has begun."""
    under_way: int
    idle: bool
    """Nothing is left to do, and nothing is in flight."""
    use: Mapping[str, LimitStatistics]
    simulating: int
    """Calls of simulated models that are under way."""
    accounts: Mapping[str, UsageTotals]
    calls: CacheStatistics
    spent: float
    """Dollars."""
    reserved: float
    """Dollars that its calls in flight may cost at most."""
    wants: float
    """Dollars that the first in line lacks; 0 if nobody does."""
    pauses: tuple[Pause, ...]
    halt: Halt | None
