"""Events of a run, which cannot be computed again, as lines of `events.jsonl`.

For example submissions, answers of raters, probes, and earlier outcomes of cells that ran again. An
event is one line with its kind and a CRC-32, and is stored nowhere else. It is durable before it is
acknowledged. Only a torn last line is cut off. Processes that add to one run take turns."""

import errno
import fcntl
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from ...cache.store import Store
from ..display.text import counted
from ..errors import RunFolderError
from ..system.files import is_open_as, replace_file, sync_folder, unwritable, whole_lines

EVENTS = "events.jsonl"
T = TypeVar("T")


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    crc: int
    event: msgspec.Raw


_lines = msgspec.json.Decoder(_Line)


def add_event(run: Path, kind: str, *events: Any, durable: bool = True) -> None:
    """Add events; they are durable when this returns. RunFolderError, and they are not there, if
    the disk takes no more. durable: False for events that can be made again: a power failure may
    undo them."""
    if not events:
        return
    lines = b"".join([event_line(kind, event) for event in events])
    with appending(run / EVENTS) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            if file.write(lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(file.fileno())
                if not size:
                    sync_folder(run)
        except OSError:
            # The next line would go on with a part of this one.
            file.truncate(size)
            raise


def event_line(kind: str, event: Any) -> bytes:
    return _line(kind, msgspec.json.encode(event))


def read_events(run: Path, kind: str, decoder: "msgspec.json.Decoder[T]") -> Iterator[T]:
    """The events of one kind, in their order; a torn last line never was. RunFolderError, naming
    the line, for one that was changed or is not an event."""
    for number, (of_kind, body) in enumerate(_read_lines(run), 1):
        if of_kind == kind:
            try:
                yield decoder.decode(body)
            except msgspec.MsgspecError as exc:
                raise _no_event(run, number, exc) from exc


def sync_events(run: Path) -> None:
    """Make all events durable that were added with `durable=False`. RunFolderError."""
    if (run / EVENTS).exists():
        with appending(run / EVENTS) as file:
            os.fsync(file.fileno())


def change_events(run: Path, kind: str, change: Callable[[bytes], bytes]) -> None:
    """Replace the events of one kind; no byte of the old ones is left. RunFolderError."""
    with appending(run / EVENTS):
        lines = [
            (of_kind, change(body) if of_kind == kind else body)
            for of_kind, body in _read_lines(run)
        ]
        replace_file(run / EVENTS, (_line(*line) for line in lines))


def _line(kind: str, body: bytes) -> bytes:
    return b'{"kind":"%s","crc":%d,"event":%s}\n' % (kind.encode(), crc32(body), body)


def _read_lines(run: Path) -> Iterator[tuple[str, bytes]]:
    for number, text in enumerate(whole_lines(run / EVENTS), 1):
        try:
            line = _lines.decode(text)
        except msgspec.MsgspecError as exc:
            raise _no_event(run, number, exc) from exc
        body = bytes(line.event)
        if crc32(body) != line.crc:
            raise _no_event(run, number, "it was changed")
        yield line.kind, body


def _no_event(run: Path, number: int, why: object) -> RunFolderError:
    return RunFolderError(
        f"{run / EVENTS}:{number}: is not an event of this version ({why}); replace the file "
        "with a copy of it, or move it away to go on without its events"
    )


@contextmanager
def appending(path: Path) -> Iterator[FileIO]:
    """The file, created if missing, for this process alone, without a torn last line."""
    mode = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        while True:
            with FileIO(os.open(path, mode, 0o644), "ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not is_open_as(path, file.fileno()):
                    continue  # another process has replaced it
                size = file.seek(0, os.SEEK_END)
                if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                    file.truncate(sum(map(len, whole_lines(path))))
                try:
                    yield file
                finally:
                    if not file.seek(0, os.SEEK_END):
                        path.unlink(missing_ok=True)
                return
    except OSError as exc:
        raise unwritable(path, exc) from exc


MIXED = "mixed"


class MixedReplies(msgspec.Struct, frozen=True, omit_defaults=True):
    """Replies that may be those to other calls; or that all of them so far were asked for again."""

    provider: str = ""
    calls: tuple[str, ...] = ()
    """The addresses of their calls."""
    asked_again: bool = False


_DECODER = msgspec.json.Decoder(MixedReplies)


def read_mixed(run: Path) -> list[MixedReplies]:
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


def ask_again(
    run: Path, store: Store | None, forget_calls: Callable[[Collection[str]], object]
) -> list[str]:
    """Drop the replies that are pending, and the cells that rest on them; the dropped keys. store:
    None if the run stores nothing. forget_calls: drops the cells that asked these calls, by
    address. RunFolderError, StoreError."""
    calls = pending(run)
    if not calls:
        return []
    keys = [key for call in calls for key in store.keys(call)] if store else []
    if store is not None:
        store.delete_many(keys)
    forget_calls(calls)
    add_event(run, MIXED, MixedReplies(asked_again=True))
    return keys
