"""Replies that a server may have mixed up: they are events of their run, and are asked for again.

HTTP/1.1 does not say which request an answer belongs to. An answer that comes unasked shows that
the replies before it, on the same connection, may be those to other calls.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...cache.store import Store
from ..display.text import counted
from .events import add_event, read_events

if TYPE_CHECKING:
    from .run_folder import RunFolder

MIXED = "mixed"


class MixedReplies(msgspec.Struct, frozen=True, omit_defaults=True):
    """Replies that may be those to other calls; or that all of them so far were asked for again."""

    provider: str = ""
    calls: tuple[str, ...] = ()
    """The addresses of their calls."""
    asked_again: bool = False


_DECODER = msgspec.json.Decoder(MixedReplies)


def read_mixed(run: Path) -> list[MixedReplies]:
    """The events of a run about mixed replies. RunFolderError."""
    return list(read_events(run, MIXED, _DECODER))


def pending(run: Path) -> tuple[str, ...]:
    """The calls whose replies are still to be asked for again. RunFolderError."""
    calls: dict[str, None] = {}
    for event in read_mixed(run):
        calls = {} if event.asked_again else calls | dict.fromkeys(event.calls)
    return tuple(calls)


def mixed_lines(run: Path) -> Iterator[str]:
    """A line for each time that a server mixed up replies. RunFolderError."""
    pending_calls = {*pending(run)}
    for event in read_mixed(run):
        if event.calls:
            again = "the next oversight run asks for them again"
            if not pending_calls.intersection(event.calls):
                again = "they were asked for again"
            yield (
                f"{event.provider} sent an answer that nobody had asked for: "
                f"{counted(len(event.calls), 'reply', 'replies')} may be those to other calls; "
                f"{again}"
            )


def ask_again(folder: "RunFolder", store: Store | None) -> list[str]:
    """Drop the replies that are pending, and the cells that rest on them; the dropped keys.

    store: None if the run stores nothing. RunFolderError, StoreError.
    """
    calls = pending(folder.path)
    if not calls:
        return []
    keys = [key for call in calls for key in store.keys(call)] if store else []
    if store is not None:
        store.delete_many(keys)
    folder.forget_calls(calls)
    add_event(folder.path, MIXED, MixedReplies(asked_again=True))
    return keys
