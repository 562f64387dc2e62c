"""Results of a bench: a table, compared with the targets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from oversight.engine.display.table import Table
from tools.bench import machine


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure to reach."""

    what: str
    target: str
    measured: str
    met: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """One bench, done."""

    name: str
    table: Table
    goals: tuple[Goal, ...]
    load: float = field(default_factory=machine.load)
    """Of the machine, when it was done; see `machine.load`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One run of one client."""

    cpu: float
    """Seconds of the client's process, all its threads, user and system."""
    wall: float
    """Seconds."""
    answered: int
    """Calls, or asks."""
    peak: float
    """Megabytes."""


def at_most(what: str, value: float, limit: float, unit: str = "", digits: int = 2) -> Goal:
    target = f"at most {round(limit, 3):,g}{unit}"
    return Goal(what, target, f"{value:.{digits}f}{unit}", value <= limit)


def at_least(what: str, value: float, limit: float, unit: str = "", digits: int = 0) -> Goal:
    return Goal(what, f"at least {limit:,g}{unit}", f"{value:,.{digits}f}{unit}", value >= limit)


def cpu_ms(readings: Sequence[Reading]) -> float:
    """Milliseconds of CPU for a call: the median over the rounds."""
    return median(reading.cpu / reading.answered for reading in readings) * 1000


def wall(readings: Sequence[Reading]) -> float:
    return median(reading.wall for reading in readings)
