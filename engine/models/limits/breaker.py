"""Circuit breaker: when to stop asking a server that fails, to probe it, and to end the run.

Also the tries of one call: failures by kind of fault, and the wait until the next try."""

import re
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from ...errors import (
    AllRefused,
    AuthenticationFailed,
    EngineError,
    Halt,
    OutcomeUnknown,
    Overloaded,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    ServerBusy,
    TransientError,
    UnknownFault,
    Unreachable,
)

MAX_IN_A_ROW, MAX_UNKNOWN = 10, 5
WINDOW = 20
"""Failures in a row that open the breaker, and unknown faults in a row. More than half of the last
`WINDOW` calls open it too."""

FIRST_PROBE = 5.0
MAX_PROBE_WAIT = 300.0
GIVE_UP = 1800.0
"""Seconds to the first probe; maximum seconds between probes (each wait doubles); default seconds
without any answer until the run gives up."""

State: TypeAlias = Literal["closed", "open", "probing"]


class Breaker:
    """Closed while a model answers; open when it fails; then one probe at a time.

    Reads no clock: callers pass the loop time (s). The time at which a call was sent distinguishes
    the probe from calls that were in flight when the breaker opened."""

    def __init__(self, give_up: float = GIVE_UP) -> None:
        """give_up: seconds without any answer until the run gives up."""
        self.state: State = "closed"
        self.give_up = give_up
        self.probe_at = 0.0
        """When the next probe may leave, while open."""
        self.key_in_doubt = False
        """Whether the key was refused: one probe decides."""
        self.wait = FIRST_PROBE
        """Seconds from the last failed probe to the next one."""
        self._opened = 0.0
        self._row = 0
        self._last: deque[bool] = deque(maxlen=WINDOW)
        self._silent_since: float | None = None
        """Time of the first fault since the last answer."""

    @property
    def closed(self) -> bool:
        return self.state == "closed"

    def left(self) -> None:
        """A call is sent. While open it is the probe, and no other is sent until it completes."""
        if self.state == "open":
            self.state = "probing"

    def answered(self, sent: float) -> None:
        """The server answered, possibly by refusing this call."""
        self._silent_since = None
        if self.state == "closed":
            self._row = 0
            self._last.append(True)
        elif sent >= self._opened:
            self._close()

    def failed(self, sent: float, now: float, delay: float = 0.0, most: int = MAX_IN_A_ROW) -> None:
        """A call failed: no connection, an overload, a broken or missing body. delay: seconds that
        the server asks to wait before the next probe. most: failures in a row that open the
        breaker."""
        self._mark_silence(now)
        if self.state != "closed":
            if self._is_probe(sent):
                self.wait = min(2 * self.wait, MAX_PROBE_WAIT)
                self._open(now, delay)
            return
        self._row += 1
        self._last.append(False)
        full = len(self._last) == WINDOW
        if self._row >= most or (full and 2 * self._last.count(False) > WINDOW):
            self._open(now, delay)

    def refused(self, sent: float, now: float) -> None:
        """A 429: not a success, but the server works and says how long to wait."""
        self._mark_silence(now)
        if self._is_probe(sent) and not self.key_in_doubt:
            self._close()
        else:
            self.abandoned(sent, now)

    def doubt_key(self, sent: float, now: float) -> bool:
        """A 401 came. True if it is final, since the call was the probe."""
        if self.key_in_doubt and self._is_probe(sent):
            return True
        if not self.key_in_doubt:
            self.key_in_doubt = True
            self.wait = FIRST_PROBE
            self._open(now)
        return False

    def abandoned(self, sent: float, now: float) -> None:
        """A call was cancelled: if it was the probe, another may go."""
        if self._is_probe(sent):
            self.state = "open"
            self.probe_at = now

    def silence(self, now: float) -> float:
        """Seconds since the first fault without a later answer; 0 if all is well."""
        return 0.0 if self._silent_since is None else now - self._silent_since

    def _mark_silence(self, now: float) -> None:
        if self._silent_since is None:
            self._silent_since = now

    def _is_probe(self, sent: float) -> bool:
        return self.state == "probing" and sent >= self._opened

    def _close(self) -> None:
        self.state = "closed"
        self.key_in_doubt = False
        self.wait = FIRST_PROBE
        self._row = 0
        self._last.clear()

    def _open(self, now: float, delay: float = 0.0) -> None:
        self.state = "open"
        self._opened = now
        self.probe_at = now + max(self.wait, delay)
        if self._silent_since is not None:
            # The last probe is due when time is up, not up to five minutes later.
            self.probe_at = max(min(self.probe_at, self._silent_since + self.give_up), now)


MAX_DELAY = 900.0
"""Seconds. A server that asks for a longer wait stops the run, which can be resumed."""

MAX_DATED_DELAY = 366 * 86_400.0
"""Seconds. Longer waits get no date, since a server may send any number."""

MAX_ALIKE = 20
"""Permanent failures with the same cause, before any answer, that stop the run."""

_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


class EqualFailures:
    """Counts consecutive permanent failures with the same cause before any answer."""

    def __init__(self) -> None:
        self._cause = ""
        self._count = 0

    def add(self, message: str) -> Halt | None:
        """Count a failure; returns a Halt after `MAX_ALIKE` in a row."""
        cause = re.sub(r"\d+", "0", message)
        self._count = self._count + 1 if cause == self._cause else 1
        self._cause = cause
        if self._count < MAX_ALIKE:
            return None
        return AllRefused(
            f"{message}; the first {MAX_ALIKE} calls all failed like this, and none was answered. "
            "Fix the cause in the sweep file or at the server; failed cells are run again"
        )


def overlong_delay(exc: TransientError) -> Halt | None:
    """The Halt for a server that asks for too long a wait."""
    if exc.delay <= MAX_DELAY:
        return None
    return ProviderDown(f"{exc}; it asks to wait {_until(exc.delay)}")


def with_return(exc: QuotaExhausted) -> QuotaExhausted:
    """The Halt with the time at which the quota is available again, if the server states it."""
    return QuotaExhausted(f"{exc}; available again in {_until(exc.delay)}") if exc.delay else exc


def spoken(seconds: float) -> str:
    """`30 minutes`; in the larger unit from two of them on."""
    unit, size = next(
        (candidate for candidate in _UNITS if seconds >= 2 * candidate[1]), _UNITS[-1]
    )
    return f"{seconds / size:,.0f} {unit}"


def _until(delay: float) -> str:
    if delay > MAX_DATED_DELAY:
        return "more than a year: ask its operator, then resume"
    end = datetime.now().astimezone() + timedelta(seconds=delay)
    return f"{spoken(delay)}: resume at {end:%H:%M on %d %B %Y}"


MAX_UNBILLED = 6
"""Retries after unbilled faults."""

MAX_ALONE = 5
"""Unbilled failures of a call while others are answered."""

MAX_BILLED = 2
"""Retries after faults that may have been billed: sent, but not fully answered."""

MAX_CROWDED = 8
"""Retries of a call that a busy self-hosted server did not answer: unbilled, and fewer calls are in
flight each time."""

MAX_RETRY_WAIT = 60.0
"""Maximum seconds between two tries. They are 1, 2, 4 … s, times a draw from [0.5, 1)."""


class Tries:
    """Failures of one call, by kind of fault."""

    def __init__(self, jitter: Callable[[], float], answers: int) -> None:
        """jitter: draws from [0, 1). answers: of the model to other calls, before the first
        failure."""
        self.answers = answers
        self.failures = 0
        """Failures that may lie with this call alone, and not with the server."""
        self.alone = False
        """Whether they do: since the first one, many more calls were answered than are failing."""
        self.given_up = False
        """Whether it was given up after too long without any answer."""
        self._jitter = jitter
        self._unbilled = self._billed = self._crowded = 0

    def wait(self, fault: EngineError, closed: bool, running: bool) -> float | None:
        """Seconds until the next try; None if there should be none. closed: whether the breaker is.
        running: whether the run goes on."""
        match fault:
            case RateLimited():
                # The limiter delays the next try as long as the server asks.
                return 0.0
            case AuthenticationFailed():
                # The limiter sends one probe; the run stops if the key is refused again.
                return 0.0 if running else None
            case ServerBusy():
                self._crowded += 1
                return self._backoff(1) if self._crowded <= MAX_CROWDED else None
            case OutcomeUnknown():
                self._billed += 1
                return self._backoff(self._billed) if self._billed <= MAX_BILLED else None
            case Unreachable() | Overloaded() | UnknownFault():
                alone = self.alone and not isinstance(fault, Unreachable)
                if self.given_up or (alone and self.failures >= MAX_ALONE):
                    return None
                if not (closed or alone):
                    return 0.0
                self._unbilled += 1
                if self._unbilled <= MAX_UNBILLED:
                    delay = fault.delay if isinstance(fault, TransientError) else 0.0
                    return self._backoff(self._unbilled, delay)
        return None

    def _backoff(self, tries: int, delay: float = 0.0) -> float:
        """Seconds to wait after this many tries of a kind. delay: as the server asks (s)."""
        draw = self._jitter()
        return max(
            min(MAX_RETRY_WAIT, 2.0 ** (tries - 1)) * (1 + draw) / 2, delay * (1 + draw / 10)
        )
