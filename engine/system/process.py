"""This process: its event loop, its garbage collector, and how many files it may open."""

import gc
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    import asyncio

YOUNG = 50_000
"""Net allocations between two collections of the youngest generation. Python's default of 700 cost
a sixth of all time, because every call in flight is traversed again and again."""

LOADING = 3 * YOUNG
"""The same while a command is loaded and prepared: some 60,000 objects are made that stay, and
looking through them once is a twentieth of the time to the first request."""

KEPT = 32
"""Descriptors that connections never take: those of the store and its threads (a database has
three for each), ledger, outcomes and quarantine, the lookup of names, and modules still to come."""

_MOST = 2**16
"""More are never needed, and some systems refuse a request for more, or for no limit at all."""


def event_loop() -> "Callable[[], asyncio.AbstractEventLoop]":
    """The factory of event loops: uvloop's; asyncio's own where that is not installed."""
    if find_spec("uvloop") is None:
        import asyncio

        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


@contextmanager
def gc_relaxed(young: int = YOUNG) -> Iterator[None]:
    """While the body runs, freeze the objects made before it, and collect the others rarely.

    young: net allocations between two collections of the youngest generation.

    The collector belongs to the whole process: its settings are restored when the body ends.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def raise_limit() -> None:
    """Raise the limit of open files as far as the system permits; macOS shells start with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    # macOS may enforce a lower limit of its own; then the current one has to do.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def require_room() -> None:
    """UsageError where too few descriptors are left to both ask models and store their replies."""
    if _room() < 1:
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        raise UsageError(
            f"this process may have {allowed} open files, which is too few to ask models and store "
            "what they answer: allow more, as with ulimit -n 256. Nothing was sent."
        )


def left() -> int:
    """How many connections may be opened beside all that is open now; at least one."""
    return max(_room(), 1)


def _room() -> int:
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return _MOST
    return allowed - len(os.listdir("/dev/fd")) - KEPT
