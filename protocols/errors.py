"""Errors of protocols, and concurrency with deterministic results.

ProtocolError
├── Unreadable      a reply cannot be read; carries the raw text
├── Declined        a model refused to give an answer that the protocol needs
├── NotRun          a world left out by the design of an experiment: neither failed nor missing
├── ToolMissing     a tool needs a package that is not installed; names the extra
└── DatasetError    a row of a data set is wrong; names the file, the line and the fix"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeAlias, TypeVar

from ..cache.reply import Reply

Cause: TypeAlias = Literal[
    "no statement", "partial", "two statements", "sum", "truncated", "refused", "empty"
]
"""Why a reply could not be read: no statement in the requested form, not every answer, two
different statements, numbers with a wrong sum, or the way that the reply ended."""

TRUNCATED = " (the reply was truncated)"
"""End of the message for a reply that reached max_tokens."""

TRUNCATED_WHILE_REASONING = " (the reply was truncated before its first word)"
"""End of the message for a reply that reached max_tokens while it still reasoned."""


class ProtocolError(Exception):
    """Base class of the errors of `protocols`."""


class Unreadable(ProtocolError):
    """A reply that could not be read. Its cell becomes a Failure."""

    def __init__(
        self, reason: str, raw: str, call: str = "", cause: Cause = "no statement", seat: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.raw = raw
        self.call = call
        self.cause = cause
        self.seat = seat
        """Title of the role that gave the reply. Empty until it is known."""


class Declined(Unreadable):
    """A refusal where an answer was needed."""


class NotRun(ProtocolError):
    """A world that was left out by design, with the reason."""


class ToolMissing(ProtocolError):
    """A tool that is not installed, with the command that installs it. Nothing was run."""


def unreadable(reason: str, reply: Reply, cause: Cause = "no statement") -> Unreadable:
    """The error for a reply that could not be used: Declined if it is a refusal. cause: used if the
    reply ended normally. A truncated reply lacks its end."""
    if reply.outcome == "refused":
        policy = reply.stop_reason.partition(": ")[2]
        message = f"the model refused ({policy})" if policy else "the model refused"
        return Declined(message, reply.text, reply.call, "refused")
    if reply.outcome == "truncated" and not reply.text.strip():
        reason += TRUNCATED_WHILE_REASONING
    elif reply.outcome != "ok":
        reason = f"{reason} (the reply was {reply.outcome})"
    if reply.outcome != "ok" and cause in ("no statement", "partial"):
        cause = reply.outcome
    return Unreadable(reason, reply.text, reply.call, cause)


class DatasetError(ProtocolError, ValueError):
    """A data set that cannot be read."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")
        self.file = file
        self.line = line


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
