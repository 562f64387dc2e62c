"""File descriptors: how many this process may open, and how many are left for connections."""

import os
import resource

from ..errors import UsageError

KEPT = 32
"""Descriptors that connections never take: those of the store and its threads (a database has
three for each), ledger, outcomes and quarantine, the lookup of names, and modules still to come."""

_MOST = 2**16
"""More are never needed, and some systems refuse a request for more, or for no limit at all."""


def raise_limit() -> None:
    """Raise the limit of open files as far as the system permits; macOS shells start with 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        # macOS may enforce a lower limit of its own; then the current one has to do.
        return


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
