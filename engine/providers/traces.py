"""What exceptions hold on to: frames that they have passed through, with all that is in them."""

from collections.abc import Iterator
from traceback import clear_frames


def chain(exc: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that it came of."""
    seen: list[BaseException] = []
    while exc is not None and exc not in seen:
        seen.append(exc)
        yield exc
        exc = exc.__cause__ or exc.__context__


def forget(exc: BaseException) -> None:
    """Empty those frames, except of what is running still.

    They hold bodies, each up to 32 MB, for as long as anything holds the exception; and the key.
    """
    for fault in chain(exc):
        clear_frames(fault.__traceback__)
