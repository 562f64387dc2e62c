"""A pool of workers: which faults fail one piece of work, and which stop the run."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ...cache.errors import DamagedEntry, ReplayMiss, StoreError, StoreGone
from ...protocols.errors import Declined, Unreadable
from ...protocols.transcript import Failure
from ..errors import (
    Halt,
    NeverAnswered,
    OutOfMemory,
    Pending,
    ProviderError,
    RunFolderError,
    StoreFailed,
)
from ..stop import StopToken

Work = TypeVar("Work")
Landed = TypeVar("Landed")

CONCERNS_THE_RUN = (Halt, ReplayMiss, StoreError, MemoryError, Pending)
"""Faults that do not concern the piece of work in which they are raised; all but the last stop the
run."""

WORKERS_FROM_STORE = 8
"""Lanes that run while the store answers every call: more would only compete for the processor's
caches."""
POLL_SECONDS = 0.01
"""Seconds between two checks whether it still does."""

CRASH = "crash"
"""Kind of a failure that is a bug in some code, and not a model's doing."""

RETRIED_KINDS = frozenset((CRASH, NeverAnswered.slug))
"""Kinds of failures whose cells are run again at a resume: a bug that may be mended by then, and
calls that no model has answered, be it for a setting in the sweep file."""

log = logging.getLogger(__name__)


async def run_workers(
    todo: Iterable[Work],
    attempt: Callable[[Work], Awaitable[Landed]],
    keep: Callable[[Work, Landed], None],
    *,
    lanes: int,
    stop_token: StopToken,
    waits: Callable[[], bool] = lambda: True,
    more: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    """Attempt every piece, `lanes` at a time, in the order of `todo`; a lane ends what it began.

    keep: called with each piece and its result, as it lands. waits: whether attempts are waiting
    for a reply; until they first do, only a few lanes run. more: awaited by each lane that exhausts
    `todo`; returns True once there is more in it, False if there never will be.

    A Halt stops the token: pieces that need another call end without a result, and all lanes
    return. A piece that is Pending ends without a result, and its lane goes on. Whatever else an
    attempt raises cancels the rest and propagates. When cancelled, pieces under way leave no
    result.
    """
    waiting = iter(todo)  # shared by the lanes: next() has no await, so no two take one piece

    async def take() -> None:
        for work in waiting:
            if stop_token.halt is not None:
                return
            try:
                landed = await attempt(work)
            except Pending:
                await asyncio.sleep(0)
                continue
            except Halt as halt:
                stop_token.stop(halt)
                return
            try:
                keep(work, landed)
            except RunFolderError as fault:
                stop_token.stop(StoreFailed(str(fault)))
                return
            # A piece that the store answers never waits: give signals and progress a turn.
            await asyncio.sleep(0)

    async def lane() -> None:
        await take()
        while more is not None and await more():
            await take()

    try:
        async with asyncio.TaskGroup() as group:
            few = {group.create_task(lane()) for _ in range(min(lanes, WORKERS_FROM_STORE))}
            running = few
            while running and not waits():
                _, running = await asyncio.wait(running, timeout=POLL_SECONDS)
            for _ in range(lanes - len(few)):
                group.create_task(lane())
    except BaseExceptionGroup as faults:
        raise _leaf(faults) from None


def failure(work: str, raised: BaseException) -> Failure:
    """Convert an exception into a `Failure`; re-raises those that concern the whole run.

    work: the name of the piece in the log.
    """
    match fault := _leaf(raised):
        case Halt() | ReplayMiss() | Pending():
            raise fault
        case DamagedEntry():
            raise StoreFailed(
                f"{fault}. It is neither guessed nor paid again unless you say so: put a backup in "
                "its place with oversight cache import, or have it asked for again after "
                "oversight cache prune --damaged"
            ) from fault
        case StoreGone():
            raise StoreFailed(str(fault)) from fault
        case StoreError():
            raise StoreFailed(f"{fault}; nothing that was saved is lost") from fault
        case MemoryError():
            raise OutOfMemory from fault
        case Declined():
            return Failure("declined", fault.reason, fault.raw, fault.call, fault.seat)
        case Unreadable():
            return Failure("unreadable", fault.reason, fault.raw, fault.call, fault.seat)
        case ProviderError():
            return Failure(fault.slug, str(fault))
        case Exception():
            # A bug in one protocol must not throw away a night of the others; it is loud here,
            # counted in the report, and `--retry-failed` runs the cell again once it is mended.
            log.error("%s crashed", work, exc_info=fault)
            message = f"{type(fault).__name__}: {fault}"
            return Failure(CRASH, message.encode(errors="replace").decode())
    raise fault


def _leaf(fault: BaseException) -> BaseException:
    """The fault inside a group: the first one that concerns the run, else the first of all."""
    if not isinstance(fault, BaseExceptionGroup):
        return fault
    leaves = [_leaf(inner) for inner in fault.exceptions]
    graver = (leaf for kind in CONCERNS_THE_RUN for leaf in leaves if isinstance(leaf, kind))
    return next(graver, leaves[0])
