"""When vendors stop serving a model: a table of days, and what it says of one name."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files

NOTICE = 60
"""Days before a model is retired from which on users are told."""


@dataclass(frozen=True, slots=True)
class Retirement:
    """The end of one model."""

    model: str
    """As the user writes it, `provider/name`."""
    day: date
    """The first day on which its vendor no longer answers for it."""

    def past(self, today: date) -> bool:
        return today >= self.day

    def near(self, today: date) -> bool:
        """Whether it comes within `NOTICE` days, and is not past."""
        return 0 < (self.day - today).days <= NOTICE

    def __str__(self) -> str:
        return f"{self.model}: its vendor stops serving it on {self.day}"


def today() -> date:
    """The day by this machine's clock; of a clock beyond all calendars, one before every end."""
    try:
        return date.today()
    except (ValueError, OverflowError):
        return date.min


@lru_cache(maxsize=1024)
def retirement(model: str) -> Retirement | None:
    """When `provider/name` ends, as far as its vendor has said; None if nothing is known.

    Only the vendors' own endpoints are judged: clouds that resell a model keep days of their own.
    """
    vendor, _, name = model.partition("/")
    days = [day for day, pattern in _table().get(vendor, ()) if fnmatchcase(name, pattern)]
    return Retirement(model, min(days)) if days else None


def announced() -> Iterator[tuple[str, str, date]]:
    """(vendor, name or pattern, day) of every entry of the table."""
    for vendor, entries in _table().items():
        for day, pattern in entries:
            yield vendor, pattern, day


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[tuple[date, str], ...]]:
    source = (
        files("oversight.engine.providers").joinpath("retirements.toml").read_text(encoding="utf-8")
    )
    vendors: dict[str, dict[str, list[str]]] = tomllib.loads(source)
    return {
        vendor: tuple(
            (date.fromisoformat(day), name) for day, names in days.items() for name in names
        )
        for vendor, days in vendors.items()
    }
