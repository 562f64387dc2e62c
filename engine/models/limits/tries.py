"""The tries of one call: how often it failed, by the kind of fault, and when it is tried again."""

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
"""Retries after faults for which nothing was billed."""

MAX_ALONE = 5
"""Failures of a call, for which nothing was billed, while others are answered."""

MAX_BILLED = 2
"""Retries after faults that may have been billed: sent, but no whole answer came."""

MAX_CROWDED = 8
"""Retries of a call that the user's own server was too crowded to answer: nothing is billed, and
each time fewer are in flight."""

MAX_RETRY_WAIT = 60.0
"""Seconds between two tries at most: they wait 1, 2, 4 … s, times a draw from [0.5, 1)."""


class Tries:
    """How often one call has failed, by the kind of fault."""

    def __init__(self, jitter: Callable[[], float], answers: int) -> None:
        """jitter: draws from [0, 1). answers: of the model to other calls, before the first
        failure."""
        self.answers = answers
        self.failures = 0
        """Failures that may lie with this call alone, and not with the server."""
        self.alone = False
        """Whether they do: since the first one, many more calls were answered than fail."""
        self.given_up = False
        """Whether nothing was answered for so long that the call is not tried again."""
        self._jitter = jitter
        self._unbilled = self._billed = self._crowded = 0

    def wait(self, fault: EngineError, closed: bool, running: bool) -> float | None:
        """Seconds to wait before the call is tried again; None if it is not.

        closed: whether the breaker is. running: whether the run goes on.
        """
        match fault:
            case RateLimited():
                # The limiter holds the next try back for as long as the server asks.
                return 0.0
            case AuthenticationFailed():
                # The limiter lets one probe out; the run stops if the key is refused again.
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
        """Seconds to wait after so many tries of one kind. delay: what the server asks for (s)."""
        draw = self._jitter()
        return max(
            min(MAX_RETRY_WAIT, 2.0 ** (tries - 1)) * (1 + draw) / 2, delay * (1 + draw / 10)
        )
