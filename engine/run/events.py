"""What happened in a run that nothing can make again: steps of batches, answers of people, probes.

An event is a line of `events.jsonl`, with its kind and a CRC-32, and a row of `events` in `run.db`;
both are durable before it is acknowledged. Each makes good for the other: a database that was made
again gets its rows from the lines, and a file that is gone its lines from the rows. Where they
differ, the lines hold. Processes that add to one run take turns.
"""

import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from ..errors import RunFolderError
from ..system.files import is_open_as, replace_file, sync_folder, unwritable, whole_lines
from .record.schema import (
    RUN_DB,
    RunDamaged,
    faulty,
    open_to_read,
    open_to_write,
    put_event,
    sealed,
    sound,
)

EVENTS = "events.jsonl"
T = TypeVar("T")


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    crc: int
    event: msgspec.Raw


_lines = msgspec.json.Decoder(_Line)


def add_event(run: Path, kind: str, event: Any, *, durable: bool = True) -> None:
    """Add an event; it is durable when this returns. RunFolderError, and it is not there, if the
    disk takes no more.

    durable: False for what can be made again: a power failure may undo it, and its row is written
    when the events are next synced.
    """
    body = msgspec.json.encode(event)
    with _held(run) as file, _rows(run) if durable else nullcontext() as rows:
        if rows is not None:
            put_event(rows, kind, body)
        whole = file.seek(0, os.SEEK_END)
        try:
            line = _line(kind, body)
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(file.fileno())
                if not whole:
                    sync_folder(run)
            if rows is not None:
                rows.execute("COMMIT")
        except (OSError, sqlite3.Error):
            # The next line would go on with what a full disk took of this one.
            file.truncate(whole)
            raise


def event_line(kind: str, event: Any) -> bytes:
    """The line of an event."""
    return _line(kind, msgspec.json.encode(event))


def read_events(run: Path, kind: str, decoder: "msgspec.json.Decoder[T]") -> Iterator[T]:
    """The events of one kind, in their order; a torn last line never was. RunFolderError, naming
    the line, for one that is no event or was changed."""
    for number, (what, body) in enumerate(_read(run), 1):
        if what == kind:
            try:
                yield decoder.decode(body)
            except msgspec.MsgspecError as exc:
                raise _no_event(run, number, exc) from exc


def sync_events(run: Path) -> None:
    """Cut off a torn last line, and make lines and rows of a run the same. RunFolderError."""
    if not (run / EVENTS).exists() and not (run / RUN_DB).exists():
        return
    with _held(run) as file, _rows(run) as rows:
        if rows is None:
            return
        lines = list(_read_lines(run))
        known = rows.execute(_ROWS).fetchall()
        for (kind, body), row in zip(lines, known, strict=False):
            if row != sealed((row[0], kind, body)):
                put_event(rows, kind, body, row[0])
        for kind, body in lines[len(known) :]:
            put_event(rows, kind, body)
        if lost := [_line(*each) for each in _sound(run, known[len(lines) :])]:
            file.seek(0, os.SEEK_END)
            file.write(b"".join(lost))
            os.fsync(file.fileno())
        rows.execute("COMMIT")


def change_events(run: Path, kind: str, change: Callable[[bytes], bytes]) -> None:
    """Put other events in place of those of one kind; no byte of what they were is left.
    RunFolderError."""
    with _held(run):
        lines = [(what, change(body) if what == kind else body) for what, body in _read_lines(run)]
        replace_file(run / EVENTS, (_line(*each) for each in lines))
    sync_events(run)
    with _rows(run) as rows:
        if rows is not None:
            rows.execute("COMMIT")
            rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")


_ROWS = "SELECT * FROM events WHERE kind != 'again' ORDER BY event"
"""Without how cells had ended that were run again, which stands in the database alone."""


def _line(kind: str, body: bytes) -> bytes:
    return b'{"kind":"%s","crc":%d,"event":%s}\n' % (kind.encode(), crc32(body), body)


def _read(run: Path) -> Iterable[tuple[str, bytes]]:
    if (run / EVENTS).exists() or not (run / RUN_DB).exists():
        return _read_lines(run)
    with closing(open_to_read(run / RUN_DB)) as db:
        return _sound(run, db.execute(_ROWS).fetchall())


def _sound(run: Path, rows: Iterable[tuple[Any, ...]]) -> list[tuple[str, bytes]]:
    try:
        return [(kind, body) for _, kind, body in map(sound, rows)]
    except ValueError as exc:
        raise RunDamaged(run / RUN_DB, str(exc)) from exc


def _read_lines(run: Path) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(whole_lines(run / EVENTS), 1):
        try:
            told = _lines.decode(line)
        except msgspec.MsgspecError as exc:
            raise _no_event(run, number, exc) from exc
        body = bytes(told.event)
        if crc32(body) != told.crc:
            raise _no_event(run, number, "it was changed")
        yield told.kind, body


def _no_event(run: Path, number: int, why: object) -> RunFolderError:
    return RunFolderError(
        f"{run / EVENTS}:{number}: is no event of this version ({why}); put a copy of the file in "
        f"its place, or move it away: {RUN_DB} beside it has the same events"
    )


@contextmanager
def _held(run: Path) -> Iterator[FileIO]:
    """The file, made if it is not there, for this process alone, without a torn last line."""
    path = run / EVENTS
    mode = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        while True:
            with FileIO(os.open(path, mode, 0o644), "ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not is_open_as(path, file.fileno()):
                    continue  # another process has put a new one in its place
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


@contextmanager
def _rows(run: Path) -> Iterator[sqlite3.Connection | None]:
    """A transaction on the rows, which the body commits; None where there is no database."""
    path = run / RUN_DB
    if not path.exists():
        yield None
        return
    with closing(open_to_write(path)) as db:
        try:
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA secure_delete=ON")
            db.execute("BEGIN IMMEDIATE")
            yield db
        except sqlite3.Error as exc:
            raise faulty(path, exc) from exc
