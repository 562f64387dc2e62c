"""File descriptors: how many this process may open, and how many are left for connections."""

import logging
import os
import resource

from ..errors import UsageError

log = logging.getLogger(__name__)

KEPT = 32
"""Descriptors that connections never take: those of the store and its threads (a database has
three for each), ledger, outcomes and quarantine, the lookup of names, and modules still to come."""

FEW = 256
"""A provider that gets fewer connections than these, and fewer than were set, is named in a
warning."""

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


class Room:
    """The descriptors that are left for connections, divided among the providers of a run: a reply
    that no file is left to store would be paid for and lost."""

    def __init__(self, sharing: int = 0) -> None:
        """sharing: providers that will ask; any other gets half of what is left."""
        self._left = max(_room(), 1)
        self._sharing = sharing

    def part(self, provider: str, wanted: int) -> int:
        """Connections that a provider may open, at least one; `wanted` at most."""
        share = max(self._left // (self._sharing or 2), 1)
        self._sharing = max(self._sharing - 1, 0)
        given = min(wanted, share)
        self._left -= given
        if given < min(wanted, FEW):
            log.warning(
                "%s gets %d connections at most, since this process may have few files open; "
                "for more: ulimit -n 4096",
                provider,
                given,
            )
        return given


def _room() -> int:
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return _MOST
    return allowed - len(os.listdir("/dev/fd")) - KEPT
