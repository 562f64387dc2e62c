"""Several conversations at once, with results and faults that do not depend on timing."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def gather_deterministic(*work: Coroutine[Any, Any, Result]) -> list[Result]:
    """Run all of `work` at once; their results in the order given.

    If some fail, the others still run to their end, and the fault of the first in order is raised
    bare: which fault a cell reports must not depend on which reply came first. Cancellation
    cancels them all.
    """
    if len(work) < 2:
        return [await each for each in work]
    first, *others = work
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_caught(each)) for each in others]
        # One of them runs in the task that is here already: a task costs as much as a stored reply.
        landed = await _caught(first)
    results: list[Result] = []
    for result, fault in (landed, *[task.result() for task in tasks]):
        if fault is not None:
            raise fault
        results.extend(result)
    return results


async def _caught(work: Coroutine[Any, Any, Result]) -> tuple[list[Result], Exception | None]:
    try:
        return [await work], None
    except Exception as exc:
        return [], exc
