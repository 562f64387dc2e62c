"""Failures of a model that end the run, since no reasonable number of retries would help."""

import re
from datetime import datetime, timedelta

from ...errors import AllRefused, Halt, ProviderDown, QuotaExhausted, TransientError

MAX_DELAY = 900.0
"""Seconds: a server that asks for a longer wait stops the run, which can be resumed."""

MAX_DATED_DELAY = 366 * 86_400.0
"""Seconds: a longer wait is not given a date, as a server may send any number."""

MAX_ALIKE = 20
"""The run stops after this many permanent failures of one cause before any answer."""

_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


class EqualFailures:
    """Counts consecutive permanent failures of one cause before any call was answered."""

    def __init__(self) -> None:
        self._cause = ""
        self._count = 0

    def add(self, message: str) -> Halt | None:
        """Count one failure; returns a Halt once there are `MAX_ALIKE` in a row."""
        cause = re.sub(r"\d+", "0", message)
        self._count = self._count + 1 if cause == self._cause else 1
        self._cause = cause
        if self._count < MAX_ALIKE:
            return None
        return AllRefused(
            f"{message}; the first {MAX_ALIKE} calls all ended so, and none was answered. Fix what "
            "it names in the sweep file or at the server; the cells that failed of it are run again"
        )


def overlong_delay(exc: TransientError) -> Halt | None:
    """The Halt for a server that asks for a longer wait than a run should sit out."""
    if exc.delay <= MAX_DELAY:
        return None
    return ProviderDown(f"{exc}; it asks to wait {_until(exc.delay)}")


def with_return(exc: QuotaExhausted) -> QuotaExhausted:
    """The Halt with the time at which the quota is back, where the server states it."""
    return QuotaExhausted(f"{exc}; it is back in {_until(exc.delay)}") if exc.delay else exc


def spoken(seconds: float) -> str:
    """`30 minutes`; from two units on in the larger one."""
    unit, size = next((each for each in _UNITS if seconds >= 2 * each[1]), _UNITS[-1])
    return f"{seconds / size:,.0f} {unit}"


def _until(delay: float) -> str:
    if delay > MAX_DATED_DELAY:
        return "more than a year: ask those who run it, then resume"
    end = datetime.now().astimezone() + timedelta(seconds=delay)
    return f"{spoken(delay)}: go on at {end:%H:%M on %d %B %Y}"
