"""When to ask again: one policy for every kind of fault."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply
from oversight.engine.errors import (
    AuthenticationFailed,
    Crowded,
    OutcomeUnknown,
    Overloaded,
    RateLimited,
    Unreachable,
)
from oversight.engine.limits.breaker import Breaker
from oversight.engine.stop import StopToken

PASSING = 6
"""Retries of a call that met a passing fault: nothing was billed."""

COSTLY = 2
"""Retries of a call that may have been billed each time: sent, but no whole answer came."""

CROWDED = 8
"""Retries of a call that a server of one's own was too crowded to answer: nothing is billed, and
each time fewer go at once."""

MAX_RETRY_WAIT = 60.0
"""Seconds between two tries at most: they wait 1, 2, 4 … s, times a draw from [0.5, 1)."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Asks `inner`, a `RateLimiter`, again while there is hope.

    | fault                    | retries                                                    |
    |--------------------------|------------------------------------------------------------|
    | Unreachable, Overloaded  | 6, with backoff; none counted while the breaker holds back |
    | Ambiguous, Malformed     | 2, with backoff: each try may cost money                   |
    | Crowded                  | 8, after a second: fewer are in flight each time           |
    | RateLimited              | any number: `RateLimiter` makes everyone wait as the server says |
    | AuthenticationFailed               | until the latch confirms it: `RateLimiter` sends one
    probe      |
    | all others               | none                                                       |

    Where the server asks for a longer wait than the backoff, that is waited, and up to a tenth
    more. The counts are kept apart, so that one kind of fault does not use up the tries of another.
    Nothing is held while it waits, and a Halt ends the wait at once.
    """

    inner: Ask
    stop_token: StopToken
    breaker: Breaker
    jitter: Callable[[], float] = random.random
    """Draws from [0, 1)."""

    async def __call__(self, call: Call) -> Reply:
        passing = costly = crowded = 0
        while True:
            try:
                return await self.inner(call)
            except RateLimited:
                continue
            except AuthenticationFailed:
                if self.stop_token.halt is not None:
                    raise
                continue
            except Crowded:
                crowded += 1
                if crowded > CROWDED:
                    raise
                wait = self._backoff(1)
            except OutcomeUnknown:
                costly += 1
                if costly > COSTLY:
                    raise
                wait = self._backoff(costly)
            except (Unreachable, Overloaded) as exc:
                if not self.breaker.closed:
                    continue
                passing += 1
                if passing > PASSING:
                    raise
                wait = self._backoff(passing, exc.delay)
            await self.stop_token.sleep(wait)

    def _backoff(self, tries: int, delay: float = 0.0) -> float:
        """Seconds to wait after so many tries of one kind. delay: what the server asks for (s)."""
        draw = self.jitter()
        return max(
            min(MAX_RETRY_WAIT, 2.0 ** (tries - 1)) * (1 + draw) / 2, delay * (1 + draw / 10)
        )
