"""Retirement dates of models: the table of days on which vendors stop serving them."""

import tomllib
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files

NOTICE = 60
"""Users are warned from this many days before a retirement."""


@dataclass(frozen=True, slots=True)
class Retirement:
    """The retirement date of one model."""

    model: str
    """As the user writes it, `provider/name`."""
    day: date
    """The first day on which its vendor no longer serves it."""

    def past(self, today: date) -> bool:
        return today >= self.day

    def near(self, today: date) -> bool:
        """Whether the day is still to come, within `NOTICE` days."""
        return 0 < (self.day - today).days <= NOTICE

    def __str__(self) -> str:
        stops = "stopped" if self.past(today()) else "stops"
        return f"{self.model}: its vendor {stops} serving it on {self.day}"


def today() -> date:
    """Today by this machine's clock; date.min if the clock is outside the calendar's range."""
    try:
        return date.today()
    except (ValueError, OverflowError):
        return date.min


@lru_cache(maxsize=1024)
def retirement(model: str) -> Retirement | None:
    """The retirement of `provider/name`; None if its vendor has announced none.

    Covers vendors' own endpoints only: clouds that resell a model set their own dates.
    """
    vendor, _, name = model.partition("/")
    days = [day for day, pattern in _table().get(vendor, ()) if fnmatchcase(name, pattern)]
    return Retirement(model, min(days)) if days else None


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[tuple[date, str], ...]]:
    source = files(__package__).joinpath("retirements.toml").read_text(encoding="utf-8")
    vendors: dict[str, dict[str, list[str]]] = tomllib.loads(source)
    return {
        vendor: tuple(
            (date.fromisoformat(day), name) for day, names in days.items() for name in names
        )
        for vendor, days in vendors.items()
    }
