"""
ProtocolError
├── Unreadable      a reply held nothing that its asker could read; carries the raw text
├── Declined        a model whose answer the protocol cannot do without refused to give it
├── NotRun          a world that the design of an experiment left out: neither failed nor missing
├── ToolMissing     a tool needs what is not installed; names the extra
└── DatasetError    a row of a data set is wrong; names the file, the line and the remedy
"""

from typing import Literal, TypeAlias

from ..cache.reply import Reply

Cause: TypeAlias = Literal[
    "no statement", "partial", "two statements", "sum", "truncated", "refused", "empty"
]
"""Why a reply could not be read: it states nothing in the form that was asked for, not every
answer, two things that differ, or numbers with a wrong sum; or how it ended."""

TRUNCATED = " (the reply was truncated)"
"""End of the message for a reply that reached max_tokens."""

TRUNCATED_WHILE_REASONING = " (the reply was truncated before its first word)"
"""End of the message for a reply that reached max_tokens while it still reasoned."""


class ProtocolError(Exception):
    """The root of everything that `protocols` raises on purpose."""


class Unreadable(ProtocolError):
    """A reply that could not be read. Nothing is guessed: the cell becomes a Failure."""

    def __init__(
        self, reason: str, raw: str, call: str = "", cause: Cause = "no statement", seat: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.raw = raw
        self.call = call
        self.cause = cause
        self.seat = seat
        """Title of the seat that gave the reply; empty until the seat is known."""


class Declined(Unreadable):
    """A refusal where an answer was needed."""


class NotRun(ProtocolError):
    """A world that was left out on purpose, with the reason."""


class ToolMissing(ProtocolError):
    """A tool that needs what is not installed, and how to install it. Nothing was run."""


def unreadable(reason: str, reply: Reply, cause: Cause = "no statement") -> Unreadable:
    """The error for a reply that could not be used: Declined if it is a refusal.

    cause: of a reply that ended as it should. A reply that was cut lacks its end.
    """
    if reply.outcome == "refused":
        policy = reply.stop_reason.partition(": ")[2]
        told = f"the model refused ({policy})" if policy else "the model refused"
        return Declined(told, reply.text, reply.call, "refused")
    if reply.outcome == "truncated" and not reply.text.strip():
        reason += TRUNCATED_WHILE_REASONING
    elif reply.outcome != "ok":
        reason = f"{reason} (the reply was {reply.outcome})"
    if reply.outcome != "ok" and cause in ("no statement", "partial"):
        cause = reply.outcome
    return Unreadable(reason, reply.text, reply.call, cause)


class DatasetError(ProtocolError, ValueError):
    """A data set that cannot be read as it stands."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")
        self.file = file
        self.line = line
