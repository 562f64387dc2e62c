"""The tries of one call: failures by kind of fault, and the wait until the next try."""

from collections.abc import Callable

from ...errors import (
    AuthenticationFailed,
    EngineError,
    OutcomeUnknown,
    Overloaded,
    RateLimited,
    ServerBusy,
    TransientError,
    UnknownFault,
    Unreachable,
)

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
