"""Retries of requests about batches, all of which are safe to repeat."""

import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ...errors import ProviderDown, TransientError
from ...models.limits.breaker import GIVE_UP
from ...stop import StopToken

MAX_WAIT = 60.0
"""Seconds between two tries at most."""
INCONCLUSIVE = (TransientError, LookupError, TypeError, ValueError, AttributeError)
"""Faults that may pass, and answers that cannot be read."""

T = TypeVar("T")


async def retried(
    stop_token: StopToken, request: Callable[..., Coroutine[Any, Any, T]], *args: Any
) -> T:
    """The result of a request; ProviderDown once it has failed for `GIVE_UP` seconds.

    InvalidRequest and any Halt pass; a stop ends the request at once.
    """
    waited, tries = 0.0, 0
    while True:
        try:
            return await stop_token.until_stopped(request(*args))
        except INCONCLUSIVE as exc:
            fault = exc
        tries += 1
        wait = backoff(tries, fault)
        waited += wait
        if waited > GIVE_UP:
            raise ProviderDown(f"no answer for {GIVE_UP / 60:.0f} minutes; last: {fault!r}")
        await stop_token.sleep(wait)


def backoff(tries: int, fault: Exception | None = None) -> float:
    """Seconds before the next try, after so many that failed."""
    asked = fault.delay if isinstance(fault, TransientError) else 0.0
    return max(min(MAX_WAIT, 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0), asked)
