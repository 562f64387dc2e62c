"""Run conversations concurrently, with results and faults that do not depend on timing."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def gather_deterministic(*work: Coroutine[Any, Any, Result]) -> list[Result]:
    """Run all of `work` concurrently. Return the results in the order given. If some fail, the
    others still finish, and the first fault in order is raised as it is. So the fault that a cell
    reports does not depend on timing. Cancellation cancels them all."""
    if len(work) < 2:
        return [await coroutine for coroutine in work]
    first, *others = work
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_caught(coroutine)) for coroutine in others]
        # One of them runs in the current task: a task costs as much as a stored reply.
        first_outcome = await _caught(first)
    results: list[Result] = []
    for result, fault in (first_outcome, *[task.result() for task in tasks]):
        if fault is not None:
            raise fault
        results.extend(result)
    return results


async def _caught(work: Coroutine[Any, Any, Result]) -> tuple[list[Result], Exception | None]:
    try:
        return [await work], None
    except Exception as exc:
        return [], exc
