"""What a run cannot make again from its sweep file and its store: what batches and people did.

An event is in the database, synced to the disk, and in `events.jsonl` beside it before `record`
returns: whoever loses one of the two has the other.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ..errors import RunFolderError
from ..system.files import append_line, whole_lines
from .record.database import RunDatabase
from .record.tables import RunTables

EVENTS = "events.jsonl"


class Events:
    """The durable events of a run that this process has locked."""

    def __init__(self, database: RunDatabase, folder: Path) -> None:
        """Bring database and file to the same state: a kill between the two leaves one event in
        one of them. RunFolderError."""
        self._database = database
        self._file = folder / EVENTS
        restored(database, folder)

    def record(self, kind: str, told: dict[str, Any]) -> int:
        """Keep an event, durably; its number. RunFolderError."""
        body = orjson.dumps(told)
        number = self._database.add_event(kind, body.decode())
        append_line(self._file, _line(number, kind, body))
        return number

    def of(self, kind: str) -> Iterator[dict[str, Any]]:
        """The events of a kind, in order."""
        return events_of(self._database, kind)


def events_of(tables: RunTables, kind: str) -> Iterator[dict[str, Any]]:
    """The events of a run of one kind, in order. RunFolderError."""
    for (body,) in tables.query("SELECT body FROM events WHERE kind=? ORDER BY event", kind):
        yield orjson.loads(body)


def restored(database: RunDatabase, folder: Path) -> int:
    """Give database and file the events that only one of them has; how many the database got.
    RunFolderError for a line that is none."""
    file = folder / EVENTS
    written: dict[int, tuple[str, str]] = {}
    for number, line in enumerate(whole_lines(file), 1):
        try:
            event, kind, told = orjson.loads(line)
            written[event] = kind, orjson.dumps(told).decode()
        except (ValueError, TypeError) as exc:
            raise RunFolderError(f"{file}:{number}: is no event ({exc}); delete the line") from exc
    known = {
        event: (kind, body)
        for event, kind, body in database.query("SELECT event, kind, body FROM events")
    }
    lacking = {event: told for event, told in written.items() if event not in known}
    database.put_events(lacking)
    for event in sorted(known.keys() - written.keys()):
        kind, body = known[event]
        if kind != "again":
            append_line(file, _line(event, kind, body.encode()))
    return len(lacking)


def _line(number: int, kind: str, body: bytes) -> bytes:
    return b"[%d,%b,%b]" % (number, orjson.dumps(kind), body)
