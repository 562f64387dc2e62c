"""Failures of a model that end the run, since no reasonable number of retries would help."""

import re
from datetime import datetime, timedelta

from ...errors import AllRefused, Halt, ProviderDown, TransientError

MAX_DELAY = 900.0
"""Seconds: a server that asks for a longer wait stops the run, which can be resumed."""

MAX_DATED_DELAY = 366 * 86_400.0
"""Seconds: a longer wait is not given a date, as a server may send any number."""

MAX_ALIKE = 20
"""The run stops after this many permanent failures of one cause before any answer."""

_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))


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
    message = f"{exc}; it asks to wait"
    if exc.delay > MAX_DATED_DELAY:
        return ProviderDown(f"{message} for more than a year: ask those who run it, then resume")
    end = datetime.now().astimezone() + timedelta(seconds=exc.delay)
    unit, seconds = next((each for each in _UNITS if exc.delay >= 2 * each[1]), _UNITS[-1])
    return ProviderDown(
        f"{message} {exc.delay / seconds:,.0f} {unit}: go on at {end:%H:%M on %d %B %Y}"
    )
