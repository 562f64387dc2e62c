"""Runs cells, so many at a time, and hands over each outcome as it lands."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from cache.address import value_address
from cache.call import Ask, nth
from cache.errors import DamagedEntry, ReplayMiss, StoreError
from engine.errors import Halt, ProviderError, RunFolderError, StoreStopped
from engine.limits.latch import Latch
from engine.sweeps.sweep import Cell
from protocols.errors import Declined, Unreadable
from protocols.question import Question
from protocols.transcript import Failure, Verdict

Outcome: TypeAlias = Verdict | Failure
Keep: TypeAlias = Callable[[Cell, Outcome], None]

STOPPING = (Halt, ReplayMiss, StoreError)
"""Faults that say nothing about the cell in which they are met."""

FEW = 8
"""Lanes that do while the store answers everything: more would only push each other out of the
processor's caches."""
GLANCE = 0.01
"""Seconds between two looks at whether it still does."""

ROUNDING = 1e-6
"""By how much probabilities may be off."""

log = logging.getLogger(__name__)

CRASH = "crash"
"""The kind of a failure that is a bug in a protocol's code, and not a model's doing."""


async def run_cells(
    cells: Iterable[Cell],
    ask: Ask,
    keep: Keep,
    *,
    lanes: int,
    latch: Latch,
    waits: Callable[[], bool] = lambda: True,
) -> None:
    """Run every cell, `lanes` at a time, in the order of `cells`; a lane finishes what it began.

    waits: whether `ask` is waiting for any reply. Until it first does, a few lanes run alone.

    What a model, a judge or a protocol fails at is kept as a Failure, and the others go on. A
    Halt pulls the latch: cells that need another call end without an outcome, and all lanes
    return. ReplayMiss cancels the rest and propagates. When cancelled, cells under way leave no
    outcome.
    """
    waiting = iter(cells)  # shared by the lanes: next() has no await, so no two take one cell

    async def lane() -> None:
        for cell in waiting:
            if latch.halt is not None:
                return
            try:
                outcome = await attempt(cell, ask)
            except Halt as halt:
                latch.pull(halt)
                return
            try:
                keep(cell, outcome)
            except RunFolderError as fault:
                latch.pull(StoreStopped(str(fault)))
                return
            # A cell that the store answers whole never waits: let signals and progress in.
            await asyncio.sleep(0)

    try:
        async with asyncio.TaskGroup() as group:
            few = {group.create_task(lane()) for _ in range(min(lanes, FEW))}
            running = few
            while running and not waits():
                _, running = await asyncio.wait(running, timeout=GLANCE)
            for _ in range(lanes - len(few)):
                group.create_task(lane())
    except BaseExceptionGroup as faults:
        raise _leaf(faults) from None


async def attempt(cell: Cell, ask: Ask) -> Outcome:
    """One cell's outcome. Halt and ReplayMiss pass: they say nothing about the cell."""
    question = cell.problem.question
    side = question.answers[cell.side]
    try:
        return _sound(await cell.row.protocol.run(question, side, nth(ask, cell.draw)), question)
    except Exception as exc:
        return _failure(cell, _leaf(exc))


def _sound(verdict: object, question: Question) -> Verdict:
    """The verdict, if it is one: protocols and judges may be anybody's, and a NaN or a missing
    probability would be found no sooner than in the figures of the report."""
    if not isinstance(verdict, Verdict):
        raise TypeError(f"a verdict is expected, and the protocol gave {verdict!r:.80}")
    probs = tuple(map(float, verdict.probs))
    if (
        len(probs) != len(question.answers)
        or not all(-ROUNDING <= p <= 1 + ROUNDING for p in probs)
        or abs(sum(probs) - 1) > ROUNDING
    ):
        raise ValueError(f"{probs} are no probabilities of {len(question.answers)} answers")
    if verdict.measures:
        value_address(verdict.measures)
    # A float of numpy's is one, but is not written as one.
    plain = all(type(p) is float for p in verdict.probs)
    return verdict if plain else replace(verdict, probs=probs)


def _failure(cell: Cell, fault: BaseException) -> Failure:
    match fault:
        case Halt() | ReplayMiss():
            raise fault
        case DamagedEntry():
            raise StoreStopped(
                f"{fault}. It is neither guessed nor paid again unless you say so: put a backup in "
                "its place with oversight cache import, or have it asked for again after "
                "oversight cache prune --damaged"
            ) from fault
        case StoreError():
            raise StoreStopped(f"{fault}; nothing that was saved is lost") from fault
        case Declined():
            return Failure("declined", fault.reason, fault.raw, fault.call)
        case Unreadable():
            return Failure("unreadable", fault.reason, fault.raw, fault.call)
        case ProviderError():
            return Failure(type(fault).__name__, str(fault))
        case Exception():
            # A bug in one protocol must not throw away a night of the others; it is loud here,
            # counted in the report, and `--retry-failed` runs the cell again once it is mended.
            log.error("cell %s crashed", cell.id, exc_info=fault)
            message = f"{type(fault).__name__}: {fault}"
            return Failure(CRASH, message.encode(errors="replace").decode())
    raise fault


def _leaf(fault: BaseException) -> BaseException:
    """The fault inside a group: the first one that stops the run if there is one, else the first
    of all."""
    if not isinstance(fault, BaseExceptionGroup):
        return fault
    leaves = [_leaf(inner) for inner in fault.exceptions]
    stopping = (leaf for kind in STOPPING for leaf in leaves if isinstance(leaf, kind))
    return next(stopping, leaves[0])
