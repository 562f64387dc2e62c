"""Frames that exceptions keep alive: clear them to free bodies and keys in their locals."""

from collections.abc import Iterator
from traceback import clear_frames


def chain(exc: BaseException | None) -> Iterator[BaseException]:
    """An exception, then its causes and contexts."""
    seen: list[BaseException] = []
    while exc is not None and exc not in seen:
        seen.append(exc)
        yield exc
        exc = exc.__cause__ or exc.__context__


def forget(exc: BaseException) -> None:
    """Clear the frames of an exception's tracebacks, except those that are still running.

    While anything holds the exception, they hold the key, and bodies of up to 32 MB each.
    """
    for fault in chain(exc):
        clear_frames(fault.__traceback__)
